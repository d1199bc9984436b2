//! Talks to a node and checks what it is told.
//!
//! [`rpc`] speaks CometBFT's JSON-RPC, [`queries`] the application's paths, [`history`] verifies a
//! coin against roots that the caller has read from Ethereum, [`history_file`] carries what it
//! verifies, [`challenge`] refutes exits, [`transfer`] signs, [`wallet`] keeps keys. Nothing here
//! trusts a node.

pub mod challenge;
pub mod history;
pub mod history_file;
pub mod queries;
pub mod rpc;
pub mod transfer;
pub mod wallet;

pub use rpc::blocking_height;
