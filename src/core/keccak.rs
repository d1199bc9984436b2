//! Keccak-256, singly and in batches of equal short messages.
//!
//! A tree of a million transfers needs some two million hashes of 41 or 65 bytes. Four independent
//! permutations run side by side in the 64-bit lanes of AVX2 registers; a processor without AVX2
//! hashes one message after the other. The tests compare both.

use alloy_primitives::B256;
pub use alloy_primitives::keccak256;

/// Bytes absorbed per permutation (1600 - 2 * 256 bits).
const RATE: usize = 136;

/// Hashes each of `messages` into the same place of `out`. `LEN` is at most 135 bytes, so that
/// message and padding fit one block.
///
/// # Panics
/// If `out` is not as long as `messages` (a programmer's error).
pub fn keccak256_many<const LEN: usize>(messages: &[[u8; LEN]], out: &mut [B256]) {
    const { assert!(LEN < RATE) };
    assert_eq!(messages.len(), out.len());
    #[cfg(target_arch = "x86_64")]
    let done = avx2::hash_fours(messages, out);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    for (message, digest) in messages[done..].iter().zip(&mut out[done..]) {
        *digest = keccak256(message);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! The one unsafe place of the crate: calling a function compiled for AVX2.
    #![allow(unsafe_code)]

    use std::arch::x86_64::{
        __m256i, _mm256_andnot_si256, _mm256_extract_epi64, _mm256_or_si256, _mm256_set_epi64x,
        _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_slli_epi64, _mm256_srli_epi64,
        _mm256_xor_si256,
    };

    use alloy_primitives::B256;

    use super::RATE;

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

    /// Hashes as many whole fours as there are; returns how many messages that were: 0 if
    /// this processor has no AVX2.
    pub(super) fn hash_fours<const LEN: usize>(messages: &[[u8; LEN]], out: &mut [B256]) -> usize {
        if !std::arch::is_x86_feature_detected!("avx2") {
            return 0;
        }
        // SAFETY: the processor was just found to have the only feature the function requires.
        unsafe { with_avx2(messages, out) }
    }

    #[target_feature(enable = "avx2")]
    fn with_avx2<const LEN: usize>(messages: &[[u8; LEN]], out: &mut [B256]) -> usize {
        let (fours, _) = messages.as_chunks::<LANES>();
        for (four, digests) in fours.iter().zip(out.as_chunks_mut::<LANES>().0) {
            let state = permute(absorb(four));
            for (word, lanes) in state[..4].iter().enumerate() {
                let lanes = [
                    _mm256_extract_epi64::<0>(*lanes),
                    _mm256_extract_epi64::<1>(*lanes),
                    _mm256_extract_epi64::<2>(*lanes),
                    _mm256_extract_epi64::<3>(*lanes),
                ];
                for (digest, lane) in digests.iter_mut().zip(lanes) {
                    digest[word * 8..word * 8 + 8].copy_from_slice(&lane.to_le_bytes());
                }
            }
        }
        fours.len() * LANES
    }

    /// The state after absorbing each message with its padding: `01`, zeros, top bit of the block.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn absorb<const LEN: usize>(four: &[[u8; LEN]; LANES]) -> [__m256i; 25] {
        let word = |message: &[u8; LEN], index: usize| {
            let (mut le, from) = ([0u8; 8], index * 8);
            let here = (LEN - from).min(8);
            le[..here].copy_from_slice(&message[from..from + here]);
            if here < 8 {
                le[here] = 1;
            }
            i64::from_le_bytes(le)
        };
        let mut state = [_mm256_setzero_si256(); 25];
        for (index, lanes) in state[..=LEN / 8].iter_mut().enumerate() {
            let [a, b, c, d] = [0, 1, 2, 3].map(|lane| word(&four[lane], index));
            *lanes = _mm256_set_epi64x(d, c, b, a);
        }
        let last = &mut state[RATE / 8 - 1];
        *last = _mm256_xor_si256(*last, _mm256_set1_epi64x(i64::MIN));
        state
    }

    macro_rules! rotate {
        ($value:expr, 0) => {
            $value
        };
        ($value:expr, $by:literal) => {
            _mm256_or_si256(
                _mm256_slli_epi64::<$by>($value),
                _mm256_srli_epi64::<{ 64 - $by }>($value),
            )
        };
    }

    /// One output row of rho, pi and chi: five lanes of the input, each with its rotation.
    macro_rules! row {
        ($a:ident, $d:ident, [$(($lane:literal, $by:literal)),+]) => {{
            let b = [$(rotate!(_mm256_xor_si256($a[$lane], $d[$lane % 5]), $by)),+];
            [
                _mm256_xor_si256(b[0], _mm256_andnot_si256(b[1], b[2])),
                _mm256_xor_si256(b[1], _mm256_andnot_si256(b[2], b[3])),
                _mm256_xor_si256(b[2], _mm256_andnot_si256(b[3], b[4])),
                _mm256_xor_si256(b[3], _mm256_andnot_si256(b[4], b[0])),
                _mm256_xor_si256(b[4], _mm256_andnot_si256(b[0], b[1])),
            ]
        }};
    }

    /// Keccak-f[1600] (FIPS 202, section 3.3) on four states at once. Each round gathers
    /// its output rows, so that rho and pi move no lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn permute(mut a: [__m256i; 25]) -> [__m256i; 25] {
        for constant in ROUND_CONSTANTS {
            let column = |x: usize| {
                let upper = _mm256_xor_si256(a[x], a[x + 5]);
                let lower = _mm256_xor_si256(a[x + 10], a[x + 15]);
                _mm256_xor_si256(_mm256_xor_si256(upper, lower), a[x + 20])
            };
            let c = [column(0), column(1), column(2), column(3), column(4)];
            let d = [
                _mm256_xor_si256(c[4], rotate!(c[1], 1)),
                _mm256_xor_si256(c[0], rotate!(c[2], 1)),
                _mm256_xor_si256(c[1], rotate!(c[3], 1)),
                _mm256_xor_si256(c[2], rotate!(c[4], 1)),
                _mm256_xor_si256(c[3], rotate!(c[0], 1)),
            ];
            let rows = [
                row!(a, d, [(0, 0), (6, 44), (12, 43), (18, 21), (24, 14)]),
                row!(a, d, [(3, 28), (9, 20), (10, 3), (16, 45), (22, 61)]),
                row!(a, d, [(1, 1), (7, 6), (13, 25), (19, 8), (20, 18)]),
                row!(a, d, [(4, 27), (5, 36), (11, 10), (17, 15), (23, 56)]),
                row!(a, d, [(2, 62), (8, 55), (14, 39), (15, 41), (21, 2)]),
            ];
            a.copy_from_slice(rows.as_flattened());
            a[0] = _mm256_xor_si256(a[0], _mm256_set1_epi64x(constant.cast_signed()));
        }
        a
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
