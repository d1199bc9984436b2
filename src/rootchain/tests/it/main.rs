//! The bindings, the follower and the relayer against real anvils.
#![allow(clippy::unwrap_used)]

mod anvil;
mod book;
mod chain;
mod contract;
mod decide;
mod follower;
mod gate;
mod node;
mod relayer;
mod relayer_faults;
mod watcher;
mod world;
