//! Fakes of the outside world for tests: a consensus driver over real applications, and a root
//! chain that queues events; the exit game as a reference model beside the real contract. Never
//! the only proof of anything: the e2e tests use the real parts.

#![allow(clippy::unwrap_used)] // A fake that fails is a failed test.

pub mod exit_game;
mod network;
mod wallet;

pub use network::{Network, Node, Options, block_hash};
pub use plasma_abci::committed::Committed;
pub use wallet::{bundle, key, sign, single};
