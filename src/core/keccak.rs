//! Keccak-256, singly and in batches of equal short messages.
//!
//! A tree of a million transfers needs some two million hashes of 41 or 65 bytes. Four independent
//! permutations run side by side in the 64-bit lanes of one AVX2 register; written over `[u64; 4]`
//! the compiler emits that by itself once the function may use AVX2. Without AVX2 the same code
//! runs on scalar registers. The tests compare it with the single-message function.

use alloy_primitives::B256;
pub use alloy_primitives::keccak256;

/// Bytes absorbed per permutation (1600 - 2 * 256 bits).
const RATE: usize = 136;
/// Messages hashed side by side.
const LANES: usize = 4;

const ROUND_CONSTANTS: [u64; 24] = [
    0x0000000000000001,
    0x0000000000008082,
    0x800000000000808a,
    0x8000000080008000,
    0x000000000000808b,
    0x0000000080000001,
    0x8000000080008081,
    0x8000000000008009,
    0x000000000000008a,
    0x0000000000000088,
    0x0000000080008009,
    0x000000008000000a,
    0x000000008000808b,
    0x800000000000008b,
    0x8000000000008089,
    0x8000000000008003,
    0x8000000000008002,
    0x8000000000000080,
    0x000000000000800a,
    0x800000008000000a,
    0x8000000080008081,
    0x8000000000008080,
    0x0000000080000001,
    0x8000000080008008,
];

type Lane = [u64; LANES];

/// Hashes each of `messages` into the same place of `out`. `LEN` is at most 135 bytes, so that
/// message and padding fit one block.
///
/// # Panics
/// If `out` is not as long as `messages` (a programmer's error).
pub fn keccak256_many<const LEN: usize>(messages: &[[u8; LEN]], out: &mut [B256]) {
    const { assert!(LEN < RATE) };
    assert_eq!(messages.len(), out.len());
    let mut chunks = messages.chunks_exact(LANES);
    let mut outs = out.chunks_exact_mut(LANES);
    for (four, digests) in (&mut chunks).zip(&mut outs) {
        let mut state = absorb::<LEN>(four);
        permute(&mut state);
        for (lane, digest) in digests.iter_mut().enumerate() {
            for word in 0..4 {
                digest[word * 8..word * 8 + 8].copy_from_slice(&state[word][lane].to_le_bytes());
            }
        }
    }
    for (message, digest) in chunks.remainder().iter().zip(outs.into_remainder()) {
        *digest = keccak256(message);
    }
}

fn absorb<const LEN: usize>(four: &[[u8; LEN]]) -> [Lane; 25] {
    let mut state = [[0u64; LANES]; 25];
    for (lane, message) in four.iter().enumerate() {
        let mut block = [0u8; RATE];
        block[..LEN].copy_from_slice(message);
        block[LEN] = 0x01;
        block[RATE - 1] |= 0x80;
        for (word, bytes) in block.chunks_exact(8).enumerate() {
            let mut le = [0u8; 8];
            le.copy_from_slice(bytes);
            state[word][lane] = u64::from_le_bytes(le);
        }
    }
    state
}

fn permute(state: &mut [Lane; 25]) {
    #[cfg(target_arch = "x86_64")]
    if avx2::permute(state) {
        return;
    }
    keccak_f(state);
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! The one unsafe place of the crate: calling a function compiled for AVX2.
    #![allow(unsafe_code)]
    use super::Lane;

    /// Runs the permutation with AVX2; false if this processor has none.
    pub(super) fn permute(state: &mut [Lane; 25]) -> bool {
        if !std::arch::is_x86_feature_detected!("avx2") {
            return false;
        }
        // SAFETY: the processor was just found to have the only feature the function requires.
        unsafe { with_avx2(state) };
        true
    }

    #[target_feature(enable = "avx2")]
    fn with_avx2(state: &mut [Lane; 25]) {
        super::keccak_f(state);
    }
}

#[inline(always)]
fn xor(a: Lane, b: Lane) -> Lane {
    std::array::from_fn(|i| a[i] ^ b[i])
}

#[inline(always)]
fn rotate(a: Lane, by: u32) -> Lane {
    std::array::from_fn(|i| a[i].rotate_left(by))
}

#[inline(always)]
fn and_not(a: Lane, b: Lane) -> Lane {
    std::array::from_fn(|i| !a[i] & b[i])
}

/// Keccak-f[1600] (FIPS 202, section 3.3) on four states at once.
#[inline(always)]
fn keccak_f(a: &mut [Lane; 25]) {
    // Rho offsets and pi destinations along the cycle that starts at lane 1.
    const PI: [usize; 24] =
        [10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1];
    const RHO: [u32; 24] =
        [1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44];
    for constant in ROUND_CONSTANTS {
        let mut c = [[0u64; LANES]; 5];
        for x in 0..5 {
            c[x] = xor(xor(xor(xor(a[x], a[x + 5]), a[x + 10]), a[x + 15]), a[x + 20]);
        }
        for x in 0..5 {
            let d = xor(c[(x + 4) % 5], rotate(c[(x + 1) % 5], 1));
            for y in 0..5 {
                a[x + 5 * y] = xor(a[x + 5 * y], d);
            }
        }
        let mut last = a[1];
        for i in 0..24 {
            let next = a[PI[i]];
            a[PI[i]] = rotate(last, RHO[i]);
            last = next;
        }
        for y in 0..5 {
            let row = [a[5 * y], a[5 * y + 1], a[5 * y + 2], a[5 * y + 3], a[5 * y + 4]];
            for x in 0..5 {
                a[5 * y + x] = xor(row[x], and_not(row[(x + 1) % 5], row[(x + 2) % 5]));
            }
        }
        a[0] = xor(a[0], [constant; LANES]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const LEN: usize>() {
        let messages: Vec<[u8; LEN]> = (0..11u8)
            .map(|i| std::array::from_fn(|j| i.wrapping_mul(31).wrapping_add(j as u8)))
            .collect();
        let mut out = vec![B256::ZERO; messages.len()];
        keccak256_many(&messages, &mut out);
        for (message, digest) in messages.iter().zip(&out) {
            assert_eq!(*digest, keccak256(message));
        }
    }

    #[test]
    fn batches_equal_single_hashes() {
        check::<0>();
        check::<1>();
        check::<41>();
        check::<65>();
        check::<66>();
        check::<135>();
    }
}
