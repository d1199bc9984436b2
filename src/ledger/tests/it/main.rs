//! Integration tests of the ledger crate, one module per hazard.

#![allow(clippy::unwrap_used)]

mod certificates;
mod events;
mod model;
mod state;
mod transfers;
