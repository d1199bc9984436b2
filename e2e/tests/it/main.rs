//! Black-box tests over real processes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cli;
mod ethereum;
mod faults;
mod path;
mod refusals;
