//! Integration tests of the ABCI crate, one module per hazard.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod app_check_tx;
mod app_nodes;
mod app_proposals;
mod app_queries;
mod app_start;
mod app_votes;
mod application;
mod client;
mod codec;
mod faults;
mod recording;
mod second_client;
mod server;
