//! Admits, verifies and bounds pending transfers.
//!
//! [`SignatureCache`] verifies each signature once and on all cores. [`Pool`] answers CheckTx:
//! what it remembers of pending transactions decides what this node admits, never what a block
//! means.

mod cache;
mod pool;

pub use cache::SignatureCache;
pub use pool::{Admission, Pool};
