//! Speaks ABCI 2.0 on a socket and moves blocks between consensus, ledger and store.
//!
//! - [`server`] serves an [`application::Application`] with the frames of [`codec`].
//! - [`app`] is the application itself, answering over the last committed view.
//! - [`recorder`] and [`grammar`]: the calls of a process life and the rules of their order.

pub mod app;
pub mod application;
mod block_archive;
mod calls;
mod candidates;
pub mod codec;
pub mod committed;
mod connection;
pub mod grammar;
mod owners;
mod prepare;
mod query;
pub mod recorder;
pub mod server;
mod socket;
mod votes;
