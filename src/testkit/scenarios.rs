//! `scenarios FILE`: plays a scenario file against the contract; started by `cargo xtask
//! scenarios FILE`.
//!
//! Prints a line a scenario and one for each deviation. Exit code 0: all passed; 1: a deviation;
//! 2: no file of the format.

use std::process::ExitCode;

use plasma_testkit::exit_game::play_file;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [path] = &arguments[..] else {
        eprintln!("usage: scenarios FILE");
        return ExitCode::from(2);
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            return ExitCode::from(2);
        }
    };
    let reports = match play_file(&text) {
        Ok(reports) => reports,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            return ExitCode::from(2);
        }
    };
    let mut failed = 0;
    for report in &reports {
        let passed = report.deviations.is_empty();
        failed += usize::from(!passed);
        println!("{} {}", if passed { "ok  " } else { "FAIL" }, report.name);
        for deviation in &report.deviations {
            println!("       {deviation}");
        }
    }
    println!("{} passed, {failed} failed", reports.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
