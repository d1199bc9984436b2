//! Talks to a node and checks what it is told.
//!
//! [`rpc`] speaks CometBFT's JSON-RPC, [`queries`] the application's paths, [`history`] verifies a
//! coin against roots that the caller has read from Ethereum, [`certified`] roots that are not
//! there yet, [`history_file`] carries what is verified, [`coin_files`] keeps it with what was
//! signed, [`transfer`] says what may be signed, [`challenge`] refutes exits, [`wallet`] keeps
//! keys. Nothing here trusts a node.

pub mod certified;
pub mod challenge;
pub mod coin_files;
pub mod history;
pub mod history_file;
pub mod queries;
pub mod rpc;
pub mod transfer;
pub mod wallet;

pub use rpc::blocking_height;
