//! Hashes of the store, one keyed function a purpose (store.md "Tree, hashes, proofs").
//!
//! | domain | input | gives |
//! |---|---|---|
//! | path | tid:8 LE, key | the place of a key in the tree |
//! | value | value | what a leaf says of it |
//! | leaf | path:32, value hash:32 | hash of a leaf |
//! | node | left:32, right:32 | hash of an inner node; an empty child is 32 zero bytes |
//! | range | left:32, right:32; or n:8 LE, root:32 | earlier commitments |
//! | commit | version:8 LE, n:8 LE, root:32, range:32 | the commitment of a version |
//!
//! A domain's 32 bytes are BLAKE3's key, or SHA-256's first half block. Two domains never share an
//! input, so no leaf reads as a node and no node as a leaf.

use blake3::IncrementCounter;
use blake3::platform::{Platform, words_from_le_bytes_32};
use sha2::{Digest, Sha256};

/// 32 bytes of a hash. Zero stands for an empty subtree.
pub type Hash = [u8; 32];

/// What an empty subtree hashes to.
pub const EMPTY: Hash = [0; 32];

/// What a hash is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Place of a key.
    Path,
    /// A value.
    Value,
    /// A leaf of the tree.
    Leaf,
    /// An inner node of the tree.
    Node,
    /// Earlier commitments.
    Range,
    /// A version's commitment.
    Commit,
}

impl Domain {
    const fn key(self) -> &'static [u8; 32] {
        match self {
            Self::Path => b"plasma-store 1: path of a key   ",
            Self::Value => b"plasma-store 1: value           ",
            Self::Leaf => b"plasma-store 1: leaf            ",
            Self::Node => b"plasma-store 1: inner node      ",
            Self::Range => b"plasma-store 1: earlier commits ",
            Self::Commit => b"plasma-store 1: commitment      ",
        }
    }
}

/// A hash function for the whole store.
pub trait Hasher: Copy + Send + Sync + 'static {
    /// Scheme of a store that uses it.
    const SCHEME: &'static str;

    /// Hash of the concatenated parts.
    fn hash(domain: Domain, parts: &[&[u8]]) -> Hash;

    /// Hashes of many 64-byte inputs, in their order.
    fn hash_many(domain: Domain, inputs: &[[u8; 64]], out: &mut Vec<Hash>) {
        out.extend(inputs.iter().map(|input| Self::hash(domain, &[input])));
    }
}

/// Keyed BLAKE3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blake3;

/// SHA-256 over the domain's 32 bytes and the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sha2;

/// Inputs that one call of the lanes takes: enough for the widest (16) several times.
const LANES: usize = 64;

impl Hasher for Blake3 {
    const SCHEME: &'static str = "letus-blake3/1";

    fn hash(domain: Domain, parts: &[&[u8]]) -> Hash {
        let mut hasher = blake3::Hasher::new_keyed(domain.key());
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize().into()
    }

    /// By BLAKE3's lanes, an interface that its documentation hides: the crate's version is pinned
    /// and a test compares with the public one. A 64-byte message is one block of one chunk.
    fn hash_many(domain: Domain, inputs: &[[u8; 64]], out: &mut Vec<Hash>) {
        const CHUNK_START: u8 = 1;
        const CHUNK_END: u8 = 1 << 1;
        const ROOT: u8 = 1 << 3;
        const KEYED_HASH: u8 = 1 << 4;
        let key = words_from_le_bytes_32(domain.key());
        let platform = Platform::detect();
        for chunk in inputs.chunks(LANES) {
            let mut references = [&[0u8; 64]; LANES];
            for (reference, input) in references.iter_mut().zip(chunk) {
                *reference = input;
            }
            let mut hashes = [0u8; 32 * LANES];
            platform.hash_many(
                &references[..chunk.len()],
                &key,
                0,
                IncrementCounter::No,
                KEYED_HASH,
                CHUNK_START,
                CHUNK_END | ROOT,
                &mut hashes[..32 * chunk.len()],
            );
            out.extend_from_slice(hashes.as_chunks().0.get(..chunk.len()).unwrap_or_default());
        }
    }
}

impl Hasher for Sha2 {
    const SCHEME: &'static str = "letus-sha256/1";

    fn hash(domain: Domain, parts: &[&[u8]]) -> Hash {
        let mut hasher = Sha256::new_with_prefix(domain.key());
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lanes_equal_the_public_function() {
        for count in [0, 1, 2, 7, 8, 9, 63, 64, 65, 200] {
            let inputs: Vec<[u8; 64]> =
                (0..count).map(|i| std::array::from_fn(|j| (i * 31 + j) as u8)).collect();
            let mut many = Vec::new();
            Blake3::hash_many(Domain::Node, &inputs, &mut many);
            let single: Vec<Hash> =
                inputs.iter().map(|input| Blake3::hash(Domain::Node, &[input])).collect();
            assert_eq!(many, single, "{count} inputs");
        }
    }

    #[test]
    fn domains_differ() {
        let all = [
            Domain::Path,
            Domain::Value,
            Domain::Leaf,
            Domain::Node,
            Domain::Range,
            Domain::Commit,
        ];
        for hash in [Blake3::hash, Sha2::hash] {
            let hashes: std::collections::HashSet<Hash> =
                all.iter().map(|domain| hash(*domain, &[b"the same"])).collect();
            assert_eq!(hashes.len(), all.len());
        }
    }
}
