//! Integration tests of the protocol's bytes, hashes, tree and signatures.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod archive;
mod codecs;
mod oracle;
mod reference;
mod rules;
mod samples;
mod trees;
mod vectors;
