//! The store's only way to a disk: flat files of one directory.
//!
//! What a [`Disk`] promises, and all that the store relies on: bytes are durable after the file's
//! `sync` has returned, names after `sync_dir`; before, a crash keeps any part of them, also later
//! writes without earlier ones. A failed `sync` promises nothing about what came before it, and is
//! never tried again. [`crate::sim`] keeps exactly this promise and no more.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::StoreError;

/// A directory of files.
pub trait Disk: Send + Sync {
    /// Opens a file for reading and writing.
    fn open(&self, name: &str, mode: Mode) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name, replacing that name's file.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name; the file goes with its last handle.
    fn unlink(&self, name: &str) -> io::Result<()>;
    /// Makes all names durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// The names, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Locks the directory against every other process until the guard goes.
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>>;
}

/// What an opening of a store may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read; nothing on the disk changes.
    Read,
    /// Read, repair and write.
    Write,
}

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It must exist; only for reading.
    Read,
    /// It must exist.
    Write,
    /// It must not exist.
    Create,
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Writes all bytes at an offset; a gap before it reads as zeros.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Fills the buffer from an offset; `UnexpectedEof` if the file is shorter.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Its length.
    fn len(&self) -> io::Result<u64>;
    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts it, or extends it with zeros.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Makes its bytes and length durable.
    fn sync(&self) -> io::Result<()>;
}

/// A failure at a file that the store has written, for `map_err`: what is missing of it is damage.
pub(crate) fn failed(name: &str) -> impl Fn(io::Error) -> StoreError {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => StoreError::Corrupt(format!("{name}: it is missing")),
        io::ErrorKind::UnexpectedEof => StoreError::Corrupt(format!("{name}: it is cut off")),
        _ => StoreError::Backend(format!("{name}: {error}")),
    }
}

/// How long a lock is waited for: a process that is just being started still has the files of the
/// one that starts it, for a moment, and a killed one takes a moment to go.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_POLL: Duration = Duration::from_millis(5);
/// Name of the file that carries the lock.
const LOCK: &str = "lock";

/// A real directory.
#[derive(Debug)]
pub struct FileDisk {
    dir: PathBuf,
}

impl FileDisk {
    /// Opens a directory, which is made if it is missing.
    pub fn new(dir: &Path) -> io::Result<Self> {
        if !dir.exists() {
            fs::create_dir_all(dir)?;
            if let Some(parent) = dir.parent() {
                fs::File::open(parent)?.sync_all()?;
            }
        }
        Ok(Self { dir: dir.to_owned() })
    }
}

/// Another disk, to which nothing is written.
pub(crate) struct ReadOnly(pub(crate) Arc<dyn Disk>);

fn read_only<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "opened for reading only"))
}

impl Disk for ReadOnly {
    fn open(&self, name: &str, mode: Mode) -> io::Result<Arc<dyn DiskFile>> {
        if mode == Mode::Create { read_only() } else { self.0.open(name, Mode::Read) }
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        read_only()
    }

    fn unlink(&self, _: &str) -> io::Result<()> {
        read_only()
    }

    fn sync_dir(&self) -> io::Result<()> {
        read_only()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        self.0.lock()
    }
}

impl Disk for FileDisk {
    fn open(&self, name: &str, mode: Mode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(mode != Mode::Read).create_new(mode == Mode::Create);
        Ok(Arc::new(options.open(self.dir.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        fs::File::open(&self.dir)?.sync_all()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = entry.file_name();
                names.extend(name.into_string().ok().filter(|name| name != LOCK));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = match options.open(self.dir.join(LOCK)) {
            // Nobody writes there.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                return Ok(Box::new(()));
            }
            opened => opened?,
        };
        let deadline = Instant::now() + LOCK_WAIT;
        while let Err(error) = file.try_lock() {
            if Instant::now() >= deadline {
                return Err(error.into());
            }
            std::thread::sleep(LOCK_POLL);
        }
        Ok(Box::new(file))
    }
}

impl DiskFile for fs::File {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
