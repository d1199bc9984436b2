//! Speaks ABCI 2.0 on a socket and moves blocks between consensus, ledger and store.
//!
//! - [`server`] serves an [`application::Application`] with the frames of [`codec`].
//! - [`recorder`] and [`grammar`]: the calls of a process life and the rules of their order.

pub mod application;
pub mod codec;
mod connection;
pub mod grammar;
pub mod recorder;
pub mod server;
mod socket;
