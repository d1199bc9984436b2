//! The exit game: differential, scenario and hostile-operator tests against the real contract.

#![allow(clippy::unwrap_used)]

mod differential;
mod generator;
mod hostile;
mod scenarios;

/// A number from the environment, for longer runs and replays.
fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}
