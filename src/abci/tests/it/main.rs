//! Integration tests of the ABCI crate, one module per hazard.

mod application;
mod client;
mod codec;
mod faults;
mod recording;
mod second_client;
mod server;
