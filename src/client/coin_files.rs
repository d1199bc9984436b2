//! The coins of a wallet: what was verified and what was signed, by files in its home.
//!
//! | file | what |
//! |---|---|
//! | `CHAIN-CONTRACT/COIN.history` | the [portable file](crate::history_file), only appended to |
//! | `CHAIN-CONTRACT/COIN.state` | a [`History`], then length:8 of the portable file it covers |
//! | `CHAIN-CONTRACT/COIN.signed` | `01`, then the last transfer that was signed, form `X` |
//! | `CHAIN-CONTRACT/lock` | locked while a command reads and writes the others |
//!
//! Only blocks that were checked at Ethereum's finalized block are kept, so that no kept block is
//! ever undone. The portable file is made durable before the state that names its length: after a
//! crash it may be longer, and is cut to that length before the next append. A state whose
//! portable file is gone counts for nothing. `COIN.signed` is durable before the signature leaves.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use plasma_core::CoinId;
use plasma_core::domain::Domain;
use plasma_core::transfer::SignedTransfer;
use plasma_core::wire::{Reader, WireError};

use crate::history::History;
use crate::history_file::{FileError, Header};

const SIGNED_VERSION: u8 = 1;

/// Why a wallet's files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CoinFilesError {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not hold what it must.
    #[error("{path} is damaged: {source}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        source: WireError,
    },
    /// The kept history is not the expected coin's.
    #[error(transparent)]
    Other(#[from] FileError),
}

/// The files of one contract's coins; other commands wait while it lives.
#[derive(Debug)]
pub struct CoinFiles {
    dir: PathBuf,
    _lock: File,
}

impl CoinFiles {
    /// Opens the directory of a contract below `dir`, making it if needed, and waits until no
    /// other command uses it.
    pub fn open(dir: &Path, domain: &Domain) -> Result<Self, CoinFilesError> {
        let dir = dir.join(format!("{}-{:x}", domain.chain_id, domain.root_chain));
        let failed = |source| CoinFilesError::Io { path: dir.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join("lock"))
            .map_err(failed)?;
        lock.lock().map_err(failed)?;
        Ok(Self { dir, _lock: lock })
    }

    fn path(&self, coin: CoinId, kind: &str) -> PathBuf {
        self.dir.join(format!("{coin}.{kind}"))
    }

    /// The kept portable file of a coin.
    pub fn history_path(&self, coin: CoinId) -> PathBuf {
        self.path(coin, "history")
    }

    /// The coins of which a history is kept, ascending.
    pub fn coins(&self) -> Result<Vec<CoinId>, CoinFilesError> {
        let failed = |source| CoinFilesError::Io { path: self.dir.clone(), source };
        let mut coins = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let coin = name.to_str().and_then(|name| name.strip_suffix(".state"));
            coins.extend(coin.and_then(|coin| coin.parse::<CoinId>().ok()));
        }
        coins.sort_unstable();
        Ok(coins)
    }

    /// The kept history of a coin with the length of its portable file.
    pub fn load(&self, coin: CoinId) -> Result<Option<(History, u64)>, CoinFilesError> {
        let path = self.path(coin, "state");
        let Some(bytes) = read(&path)? else { return Ok(None) };
        let (history, length) = decode_state(&bytes)
            .map_err(|source| CoinFilesError::Damaged { path: path.clone(), source })?;
        let portable = fs::metadata(self.history_path(coin)).map_or(0, |found| found.len());
        Ok((portable >= length).then_some((history, length)))
    }

    /// The kept history, or a new one of the coin that `header` names; refuses a kept one of
    /// another deposit record.
    pub fn load_or_new(&self, header: &Header) -> Result<History, CoinFilesError> {
        match self.load(header.coin)? {
            Some((history, _)) => {
                Header::of(&history).agree_with(header)?;
                Ok(history)
            }
            None => History::new(header.coin, header.deposit, header.domain)
                .map_err(|error| FileError::from(error).into()),
        }
    }

    /// Keeps a history that has been extended; `shown` holds the portable form of the blocks
    /// since it was loaded or stored.
    pub fn store(&self, history: &History, shown: &[u8]) -> Result<(), CoinFilesError> {
        let coin = history.coin();
        let length = self.load(coin)?.map_or(0, |(_, length)| length);
        let path = self.history_path(coin);
        let length = append(&path, length, &Header::of(history).encode(), shown)
            .map_err(|source| CoinFilesError::Io { path, source })?;
        let mut state = history.encode();
        state.extend_from_slice(&length.to_be_bytes());
        self.replace(&self.path(coin, "state"), &state)?;
        self.sync()
    }

    /// The last transfer of a coin that was signed here.
    pub fn signed(&self, coin: CoinId) -> Result<Option<SignedTransfer>, CoinFilesError> {
        let path = self.path(coin, "signed");
        let Some(bytes) = read(&path)? else { return Ok(None) };
        let decoded = decode_signed(coin, &bytes);
        decoded.map(Some).map_err(|source| CoinFilesError::Damaged { path, source })
    }

    /// Remembers signed transfers, durably: only then may they leave.
    pub fn remember(&self, signed: &[SignedTransfer]) -> Result<(), CoinFilesError> {
        for transfer in signed {
            let bytes = [&[SIGNED_VERSION], &transfer.encode()[..]].concat();
            self.replace(&self.path(transfer.transfer.coin, "signed"), &bytes)?;
        }
        self.sync()
    }

    /// Replaces a file, whole or not at all; the new name lasts after [`Self::sync`].
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), CoinFilesError> {
        let write = || {
            let beside = path.with_extension("new");
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&beside, path)
        };
        write().map_err(|source| CoinFilesError::Io { path: path.to_owned(), source })
    }

    fn sync(&self) -> Result<(), CoinFilesError> {
        let synced = File::open(&self.dir).and_then(|dir| dir.sync_all());
        synced.map_err(|source| CoinFilesError::Io { path: self.dir.clone(), source })
    }
}

/// A whole file; none if it is not there.
fn read(path: &Path) -> Result<Option<Vec<u8>>, CoinFilesError> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => {
            other.map(Some).map_err(|source| CoinFilesError::Io { path: path.to_owned(), source })
        }
    }
}

/// Cuts the file to `length`, starts it with `header` if that is 0, and appends; its length.
fn append(path: &Path, length: u64, header: &[u8], shown: &[u8]) -> io::Result<u64> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length))?;
    if length == 0 {
        file.write_all(header)?;
    }
    file.write_all(shown)?;
    file.sync_all()?;
    file.stream_position()
}

fn decode_state(bytes: &[u8]) -> Result<(History, u64), WireError> {
    let split = bytes.len().checked_sub(8).ok_or(WireError::Short { at: 0, wanted: 8 })?;
    let (history, length) = bytes.split_at(split);
    Ok((History::decode(history)?, Reader::new(length).u64()?))
}

fn decode_signed(coin: CoinId, bytes: &[u8]) -> Result<SignedTransfer, WireError> {
    let mut reader = Reader::new(bytes);
    let version = reader.u8()?;
    let transfer = SignedTransfer::decode(&mut reader)?;
    reader.finish()?;
    if version != SIGNED_VERSION || transfer.transfer.coin != coin {
        return Err(WireError::Value { what: "version or coin", value: version.into() });
    }
    Ok(transfer)
}

/// Opens the first `length` bytes of a file.
pub fn open_prefix(path: &Path, length: u64) -> io::Result<impl Read + use<>> {
    Ok(io::BufReader::new(File::open(path)?).take(length))
}
