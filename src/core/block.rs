//! Plasma blocks: the block root and the hash chain over all roots (protocol.md section 3).
//!
//! `chainHash_0 = keccak(domainSeparator)`, `chainHash_n = keccak(chainHash_{n-1} || n:8 ||
//! root_n:32)`: a signature over one chain hash covers every earlier root.

use alloy_primitives::{B256, keccak256};

use crate::BlockNumber;
use crate::domain::Domain;

/// The root of a block from the roots of its trees. Version 1 has one tree, of coins; a version
/// with shielded coins hashes several here, and in the contract's function of the same name.
pub fn block_root(coin_tree: B256) -> B256 {
    coin_tree
}

/// The chain hash before the first block.
pub fn chain_hash_genesis(domain: &Domain) -> B256 {
    keccak256(domain.separator)
}

/// The chain hash after block `number` with `root`.
pub fn chain_hash(previous: B256, number: BlockNumber, root: B256) -> B256 {
    let mut message = [0u8; 72];
    message[..32].copy_from_slice(previous.as_slice());
    message[32..40].copy_from_slice(&number.to_be_bytes());
    message[40..].copy_from_slice(root.as_slice());
    keccak256(message)
}
