//! The commands of a user, one module a noun.

pub mod block;
pub mod coin;
pub mod demo;
pub mod deposit;
pub mod devnet;
pub mod doctor;
pub mod exit;
pub mod proof;
pub mod relayer;
pub mod store;
pub mod transfer;
pub mod verify;
pub mod wallet;
pub mod watch;
