//! Contract bindings, the finality-aware event follower, the relayer and the watcher. Only this
//! crate talks to Ethereum.

pub mod contract;
pub mod courier;
pub mod ethereum;
pub mod follower;
pub mod journal;
pub mod relayer;
mod transport;
pub mod watcher;
