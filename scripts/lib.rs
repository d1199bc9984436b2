//! Repository tasks, run as `cargo xtask <verb>`.
//!
//! `tidy` checks the rules of the house that neither rustfmt nor clippy knows. It is a library so
//! that `cargo test -p xtask` runs it on the repository as an ordinary test.

pub mod source;
pub mod tidy;
