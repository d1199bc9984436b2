//! Black-box tests over real processes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cli;
mod demos;
mod ethereum;
mod exit_game;
mod faults;
mod path;
mod readme;
mod refusals;
mod sign;
mod store;
mod watch;
