//! Talks to a node and checks what it is told.
//!
//! [`rpc`] speaks CometBFT's JSON-RPC, [`queries`] the application's paths, [`history`] verifies a
//! coin against roots that the caller has read from Ethereum, [`transfer`] signs, [`wallet`] keeps
//! keys. Nothing here trusts a node.

pub mod history;
pub mod queries;
pub mod rpc;
pub mod transfer;
pub mod wallet;
