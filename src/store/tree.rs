//! The binary hash tree over 32-byte paths, as a pure function of its leaves.
//!
//! A subtree is empty, one leaf, or an inner node; a subtree with one leaf *is* that leaf, so a
//! path is only as deep as its neighbours demand. Left is bit 0. The root depends on the set of
//! leaves alone.

use crate::hash::{Domain, EMPTY, Hash, Hasher};

/// A place in the tree: bit 0 is the most significant bit of byte 0.
pub type Path = [u8; 32];

/// Most siblings of a path that a proof can hold; paths that share more bits cannot be found.
pub const DEPTH_MAX: usize = 255;

/// Bit `level` of a path.
pub fn bit(path: &Path, level: usize) -> bool {
    path.get(level / 8).is_some_and(|byte| byte >> (7 - level % 8) & 1 == 1)
}

/// A path's first 64 bits, as a number that orders as paths do.
pub(crate) fn first_bits(path: &Path) -> u64 {
    path.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// The order of paths; their first eight bytes decide nearly always, without a call.
pub(crate) fn order(a: &Path, b: &Path) -> std::cmp::Ordering {
    first_bits(a).cmp(&first_bits(b)).then_with(|| a.cmp(b))
}

/// How many leading bits two paths share; 256 if they are equal.
pub fn common_bits(a: &Path, b: &Path) -> usize {
    let mut bits = 0;
    for (x, y) in a.iter().zip(b) {
        let differing = x ^ y;
        bits += differing.leading_zeros() as usize;
        if differing != 0 {
            break;
        }
    }
    bits
}

/// A key's place: `tid` names the trie, which is a namespace of the one tree.
pub fn path_of<H: Hasher>(tid: u64, key: &[u8]) -> Path {
    H::hash(Domain::Path, &[&tid.to_le_bytes(), key])
}

/// A leaf: a path and the hash of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// Where it stands.
    pub path: Path,
    /// Hash of its value, domain `value`.
    pub value: Hash,
}

impl Leaf {
    /// Its hash in the tree.
    pub fn hash<H: Hasher>(&self) -> Hash {
        H::hash(Domain::Leaf, &[&self.path, &self.value])
    }
}

/// Hash of an inner node; two empty children are empty.
pub fn node<H: Hasher>(left: Hash, right: Hash) -> Hash {
    if left == EMPTY && right == EMPTY {
        return EMPTY;
    }
    H::hash(Domain::Node, &[&left, &right])
}

/// Root of leaves that are sorted by path, without duplicates.
pub fn root<H: Hasher>(leaves: &[Leaf]) -> Hash {
    subtree::<H>(leaves, 0)
}

/// Hash of the subtree below `level` bits, which all leaves share.
pub(crate) fn subtree<H: Hasher>(leaves: &[Leaf], level: usize) -> Hash {
    match leaves {
        [] => EMPTY,
        [leaf] => leaf.hash::<H>(),
        _ => {
            let (left, right) = split(leaves, level);
            node::<H>(subtree::<H>(left, level + 1), subtree::<H>(right, level + 1))
        }
    }
}

/// Sorted leaves by their bit `level`.
pub(crate) fn split(leaves: &[Leaf], level: usize) -> (&[Leaf], &[Leaf]) {
    leaves.split_at(leaves.partition_point(|leaf| !bit(&leaf.path, level)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_common_bits() {
        let mut a = [0u8; 32];
        a[0] = 0b1010_0000;
        assert!(bit(&a, 0) && !bit(&a, 1) && bit(&a, 2) && !bit(&a, 255) && !bit(&a, 256));
        let mut b = a;
        assert_eq!(common_bits(&a, &b), 256);
        b[31] = 1;
        assert_eq!(common_bits(&a, &b), 255);
        b[1] = 0x10;
        assert_eq!(common_bits(&a, &b), 11);
    }
}
