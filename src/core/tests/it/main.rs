//! Integration tests of the protocol's bytes, hashes, tree and signatures.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod reference;
mod samples;
mod vectors;
