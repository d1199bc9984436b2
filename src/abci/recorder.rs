//! Writes the calls that the grammar speaks of to a file, for [`crate::grammar::check`].
//!
//! ```text
//! file = *life
//! life = "start" LF *( method " " height LF )
//! ```
//!
//! A call is written before it is answered, with one write of its whole line and no buffer, so
//! a process that is killed has recorded every call that reached it. Connections share the file,
//! so its order is that in which the calls were taken up. No fsync: a power cut may cut the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;

use crate::grammar::{Call, ParseCallError};

const LIFE: &str = "start";

/// Sees the calls that the grammar speaks of, before they are answered.
pub trait Recorder: Send + Sync + 'static {
    /// Takes one call; called by all connections.
    fn record(&self, call: Call);
}

/// A recorder that appends to a file.
pub struct FileRecorder {
    file: Mutex<File>,
}

impl FileRecorder {
    /// Opens the file, which may hold earlier lives, and starts a life in it.
    ///
    /// # Errors
    /// The file cannot be opened or written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{LIFE}\n").as_bytes())?;
        Ok(Self { file: Mutex::new(file) })
    }
}

impl Recorder for FileRecorder {
    fn record(&self, call: Call) {
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Err(error) = file.write_all(format!("{call}\n").as_bytes()) {
            tracing::error!(%call, %error, "cannot record an ABCI call");
        }
    }
}

/// The calls of each life in a recorded file.
///
/// # Errors
/// The first line that is neither a call nor the start of a life; a call before any life.
pub fn parse_lives(text: &str) -> Result<Vec<Vec<Call>>, ParseCallError> {
    let mut lives: Vec<Vec<Call>> = Vec::new();
    for line in text.lines() {
        if line == LIFE {
            lives.push(Vec::new());
            continue;
        }
        let call = line.parse()?;
        lives.last_mut().ok_or_else(|| ParseCallError { line: line.to_owned() })?.push(call);
    }
    Ok(lives)
}
