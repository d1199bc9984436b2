//! A node's home directory and the secret files in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plasma_core::signature::SigningKey;

use crate::output::{CommandError, CommandResult};

/// Paths of a home: `config/plasma.toml`, `data/`, `logs/`, `keystore/` and CometBFT's own home.
#[derive(Debug, Clone)]
pub struct Home(pub PathBuf);

impl Home {
    /// CometBFT's home.
    pub fn cometbft(&self) -> PathBuf {
        self.0.join("cometbft")
    }

    /// The application's data.
    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    /// The state store.
    pub fn state(&self) -> PathBuf {
        self.data().join("state")
    }

    /// A path of the configuration: relative ones start at the home.
    pub fn resolve(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
}

/// Writes a file that only its owner may read, whole or not at all.
pub fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let temporary = path.with_extension("tmp");
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

/// Writes a file, whole or not at all.
pub fn write_file(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, text)?;
    fs::rename(&temporary, path)
}

/// Reads a file; of one that is longer, only the first `bytes_max` bytes.
pub fn read_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("is no file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a key in hex from a file that only its owner may read.
pub fn read_key(path: &Path) -> CommandResult<SigningKey> {
    let bad = |message: &str, help: &str| {
        CommandError::usage(format!("key file {}: {message}", path.display()), help)
    };
    let metadata = fs::metadata(path).map_err(|e| bad(&e.to_string(), "check the path"))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        let help = format!("chmod 600 {}", path.display());
        return Err(bad("others may read it", &help));
    }
    let text = fs::read_to_string(path).map_err(|e| bad(&e.to_string(), "check the file"))?;
    let digits = text.trim();
    let mut bytes = [0u8; 32];
    hex::decode_to_slice(digits.strip_prefix("0x").unwrap_or(digits), &mut bytes)
        .map_err(|_| bad("is not 64 hex digits", "write the key as 64 hex digits"))?;
    SigningKey::from_bytes(bytes).map_err(|_| bad("is no secp256k1 key", "make a new key"))
}
