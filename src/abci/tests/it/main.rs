//! Integration tests of the ABCI crate, one module per hazard.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod application;
mod client;
mod codec;
mod faults;
mod recording;
mod second_client;
mod server;
