//! Integration tests of the pool crate. CheckTx's codes are tested through the application.

#![allow(clippy::unwrap_used)]

mod cache;
mod pool;
