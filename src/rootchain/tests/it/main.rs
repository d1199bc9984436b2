//! Integration tests of the rootchain crate on a real anvil; the child chain's node is a fake.

#![allow(clippy::unwrap_used)]

mod anvil;
mod follower;
mod node;
mod relayer;
