//! What a coin, transfer, plasma block, proof and exit *are*: their bytes, hashes, signatures and
//! rules.
//!
//! Everything here is pure: no file, socket, clock, thread or random number, no floating point and
//! no iteration order of hash maps. The normative texts are `protocol.md` and `formats.md`; each
//! byte format has one owner module here with its table in the module comment, and vectors in
//! `vectors/` which the Solidity tests read too.
//!
//! Hashed and signed integers are big-endian (Ethereum); wire integers are minimal LEB128 varints.

pub mod archive;
pub mod block;
pub mod certificate;
pub mod code;
pub mod coin;
pub mod domain;
pub mod event;
pub mod event_window;
pub mod exit;
pub mod extension;
pub mod keccak;
pub mod proposal;
pub mod signature;
pub mod smt;
pub mod state;
pub mod transfer;
pub mod tx;
pub mod validators;
pub mod wire;

pub use alloy_primitives::{Address, B256, U256};

/// Identifier of a coin: 1, 2, 3 ... in order of deposit, never reused.
pub type CoinId = u64;

/// Number of a plasma block: 1, 2, 3 ... without gaps. 0 is "before the first block".
pub type BlockNumber = u64;
