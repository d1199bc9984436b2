//! `cargo xtask <verb>`: dispatches to the tasks of the library.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match &arguments[..] {
        [verb] if verb == "tidy" => tidy(),
        [verb, file] if verb == "scenarios" => scenarios(file),
        _ => {
            eprintln!("usage: cargo xtask tidy | scenarios FILE");
            ExitCode::from(2)
        }
    }
}

/// Starts the runner of `plasma-testkit`: linked in here, its EVM would make `tidy` wait for it.
fn scenarios(file: &OsString) -> ExitCode {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["run", "--quiet", "--package", "plasma-testkit", "--bin", "scenarios"])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--")
        .arg(file)
        .status();
    match status {
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).map_or(
            // Ended by a signal.
            ExitCode::FAILURE,
            ExitCode::from,
        ),
        Err(error) => {
            eprintln!("scenarios: cargo: {error}");
            ExitCode::FAILURE
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
