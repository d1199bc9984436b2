//! Integration tests of the store crate, one module per hazard. `conformance` runs against
//! `dyn Store`, so that every backend passes the same tests.

#![allow(clippy::unwrap_used)]

mod conformance;
mod crashes;
mod disks;
mod export;
mod faults;
mod formats;
mod letus;
mod opening;
mod prune;
mod streams;
mod tree;
mod tries;
