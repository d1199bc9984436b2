//! Integration tests of the client, one module per hazard.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod chain;
mod challenge;
mod history;
mod keys;
mod queries;
mod responder;
mod rpc;
mod sources;
