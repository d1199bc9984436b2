//! What commands print and how they end (interface.md "Output", "Exit codes").
//!
//! stdout carries the result and nothing else; everything else goes to stderr. `--json` changes
//! only the form: `{"schema":1,"success":...,"data":...,"errors":[...],"warnings":[...]}`.

use std::fmt::Display;
use std::io::Write;

use serde_json::{Value, json};

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failure.
    Failure = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// The answer is "no": proof invalid, not found.
    No = 3,
    /// A peer (node, Ethereum) cannot be reached.
    Unreachable = 4,
    /// The chain, or the contract, refused it.
    Rejected = 5,
}

/// An error with its exit code and the next thing to try.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// Exit code of the process.
    pub exit: Exit,
    /// Stable name of the error.
    pub code: String,
    /// What went wrong.
    pub message: String,
    /// The next command to try.
    pub help: String,
}

/// Result of a command.
pub type CommandResult<T> = Result<T, CommandError>;

impl CommandError {
    /// An error from its parts.
    pub fn new(exit: Exit, code: &str, message: impl Display, help: impl Display) -> Self {
        Self { exit, code: code.to_owned(), message: message.to_string(), help: help.to_string() }
    }

    /// Exit code 1.
    pub fn failure(code: &str, message: impl Display, help: impl Display) -> Self {
        Self::new(Exit::Failure, code, message, help)
    }

    /// Exit code 2.
    pub fn usage(message: impl Display, help: impl Display) -> Self {
        Self::new(Exit::Usage, "usage", message, help)
    }

    /// Exit code 3.
    pub fn no(code: &str, message: impl Display, help: impl Display) -> Self {
        Self::new(Exit::No, code, message, help)
    }
}

/// Collects what a command has to say.
#[derive(Debug, Default)]
pub struct Output {
    json: bool,
    quiet: bool,
    warnings: Vec<String>,
}

impl Output {
    /// Plain or JSON output; `quiet` drops remarks.
    pub fn new(json: bool, quiet: bool) -> Self {
        Self { json, quiet, warnings: Vec::new() }
    }

    /// A remark on the way, for people.
    pub fn note(&self, text: impl Display) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }

    /// A warning; part of the JSON answer.
    pub fn warn(&mut self, text: impl Display) {
        let text = text.to_string();
        if !self.json {
            eprintln!("warning: {text}");
        }
        self.warnings.push(text);
    }

    /// Prints the result: `text` for people, `data` for programs.
    pub fn result(&self, text: impl Display, data: Value) {
        let line = if self.json {
            json!({"schema": 1, "success": true, "data": data, "errors": [],
                   "warnings": self.warnings})
            .to_string()
        } else {
            text.to_string()
        };
        print_line(&line);
    }

    /// Prints one of many results: `text` for people, `data` as a line of JSON for programs.
    pub fn line(&self, text: impl Display, data: Value) {
        print_line(&if self.json { data.to_string() } else { text.to_string() });
    }

    /// Prints an error: to stderr for people, as the answer for programs.
    pub fn error(&self, error: &CommandError) {
        if self.json {
            let entry = json!({"code": error.code, "message": error.message, "help": error.help});
            print_line(
                &json!({"schema": 1, "success": false, "data": null, "errors": [entry],
                        "warnings": self.warnings})
                .to_string(),
            );
            return;
        }
        eprintln!("error: {}", error.message);
        if !error.help.is_empty() {
            eprintln!("  try: {}", error.help);
        }
    }
}

fn print_line(line: &str) {
    // A reader that closed the pipe early (`| head`) is no failure of the command.
    let _ = writeln!(std::io::stdout(), "{line}");
}
