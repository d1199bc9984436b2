//! The exit game: differential, scenario and hostile-operator tests against the real contract.

#![allow(clippy::unwrap_used)]

mod differential;
mod generator;
