//! `cargo xtask <verb>`: dispatches to the tasks of the library.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy(),
        _ => {
            eprintln!("usage: cargo xtask tidy");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> ExitCode {
    // Cargo's alias runs with the caller's working directory, so the root comes from the build.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match xtask::tidy::repository(&root) {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in &findings {
                eprintln!("{finding}");
            }
            eprintln!("tidy: {} findings", findings.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tidy: {error}");
            ExitCode::FAILURE
        }
    }
}
