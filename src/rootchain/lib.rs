//! Contract bindings, the finality-aware event follower and the relayer. Only this crate talks to
//! Ethereum.

pub mod contract;
pub mod ethereum;
pub mod follower;
pub mod journal;
pub mod relayer;
