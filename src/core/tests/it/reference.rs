//! The tree, written naively from protocol.md section 3 with nothing but a hash function: the
//! oracle of the optimised code and the maker of crafted proofs.

use plasma_core::keccak::keccak256;
use plasma_core::smt::Leaf;
use plasma_core::{B256, CoinId};

/// `keccak(0x00 || coin:8 || transferHash:32)`.
pub fn leaf(leaf: Leaf) -> B256 {
    keccak256([&[0u8][..], &leaf.coin.to_be_bytes(), leaf.hash.as_slice()].concat())
}

/// `keccak(0x01 || left || right)`.
pub fn node(left: B256, right: B256) -> B256 {
    keccak256([&[1u8][..], left.as_slice(), right.as_slice()].concat())
}

/// Splits leaves by bit `depth` of their coin.
fn split(leaves: &[Leaf], depth: u32) -> (Vec<Leaf>, Vec<Leaf>) {
    leaves.iter().partition(|l| l.coin >> depth & 1 == 0)
}

/// Root of a subtree at `depth` over leaves in any order.
pub fn root(leaves: &[Leaf], depth: u32) -> B256 {
    match leaves {
        [] => B256::ZERO,
        [one] => leaf(*one),
        _ => {
            let (left, right) = split(leaves, depth);
            node(root(&left, depth + 1), root(&right, depth + 1))
        }
    }
}

/// The fields of a proof, free to be wrong.
#[derive(Debug, Clone, Default)]
pub struct RawProof {
    pub depth: u8,
    pub bitmap: u64,
    pub siblings: Vec<B256>,
    pub terminal: Vec<u8>,
}

impl RawProof {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.depth];
        out.extend(self.bitmap.to_be_bytes());
        out.extend(self.siblings.iter().flat_map(|sibling| sibling.0));
        out.extend(&self.terminal);
        out
    }
}

/// Terminal `2 || coin:8 || transferHash:32`.
pub fn other(leaf: Leaf) -> Vec<u8> {
    [&[2u8][..], &leaf.coin.to_be_bytes(), leaf.hash.as_slice()].concat()
}

/// The proof for `coin` over leaves in any order.
pub fn proof(leaves: &[Leaf], coin: CoinId) -> RawProof {
    let mut raw = RawProof::default();
    let mut here = leaves.to_vec();
    while here.len() > 1 {
        let (left, right) = split(&here, raw.depth.into());
        let (own, beside) = if coin >> raw.depth & 1 == 0 { (left, right) } else { (right, left) };
        if !beside.is_empty() {
            raw.bitmap |= 1 << raw.depth;
            raw.siblings.push(root(&beside, u32::from(raw.depth) + 1));
        }
        raw.depth += 1;
        here = own;
    }
    raw.terminal = match here.first() {
        None => vec![1],
        Some(leaf) if leaf.coin == coin => vec![0],
        Some(leaf) => other(*leaf),
    };
    raw
}
