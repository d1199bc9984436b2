//! The journal of one account's sender (relayer, watcher): every attempt, on disk before it is
//! broadcast.
//!
//! JSON lines, appended and synced. Only the attempts at the last nonce are ever read again, so a
//! restarted sender waits for what it sent instead of sending another. A line torn by a crash was
//! not broadcast: it is skipped, and the next attempt starts on a line of its own. A lost journal
//! costs nothing but that wait: the contract and the account's nonce are the truth.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use plasma_core::{B256, BlockNumber};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ethereum::Fees;

/// Bytes at the end that are read at a start: more than the attempts at one nonce take.
const TAIL_BYTES: u64 = 65_536;

/// A line of a journal: one broadcast.
pub trait Entry: Serialize + DeserializeOwned {
    /// The account's nonce.
    fn nonce(&self) -> u64;
    /// The transaction.
    fn hash(&self) -> B256;
    /// What it offers.
    fn fees(&self) -> Fees;
}

/// One broadcast of the relayer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The account's nonce.
    pub nonce: u64,
    /// The transaction.
    pub hash: B256,
    /// First plasma block.
    pub first: BlockNumber,
    /// Last plasma block.
    pub last: BlockNumber,
    /// Most wei a gas.
    pub max_fee_wei: u128,
    /// Wei a gas for the proposer.
    pub tip_wei: u128,
}

impl Entry for Attempt {
    fn nonce(&self) -> u64 {
        self.nonce
    }

    fn hash(&self) -> B256 {
        self.hash
    }

    fn fees(&self) -> Fees {
        Fees { max: self.max_fee_wei, tip: self.tip_wei }
    }
}

/// The journal cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("journal {path}: {source}")]
pub struct JournalError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// The journal's file; made by the first attempt.
#[derive(Debug)]
pub struct JournalOf<E> {
    path: PathBuf,
    entries: PhantomData<E>,
}

/// The relayer's.
pub type Journal = JournalOf<Attempt>;

impl<E: Entry> JournalOf<E> {
    /// The journal at `path`.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), entries: PhantomData }
    }

    /// Appends an attempt and waits until it is on disk.
    pub fn record(&self, attempt: &E) -> Result<(), JournalError> {
        self.append(attempt).map_err(|source| JournalError { path: self.path.clone(), source })
    }

    fn append(&self, attempt: &E) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).read(true).open(&self.path)?;
        let mut line = serde_json::to_vec(attempt)?;
        line.push(b'\n');
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != [b'\n'] {
                line.insert(0, b'\n');
            }
        }
        file.write_all(&line)?;
        file.sync_all()
    }

    /// The attempts at the last nonce, oldest first; none without a journal.
    pub fn last_attempts(&self) -> Vec<E> {
        // A journal that does not read only costs a wait, so it is no error.
        let tail = File::open(&self.path).and_then(|file| read_tail(&file)).unwrap_or_default();
        let mut attempts: Vec<E> =
            tail.split(|byte| *byte == b'\n').flat_map(serde_json::from_slice).collect();
        if let Some(nonce) = attempts.last().map(Entry::nonce) {
            attempts.retain(|attempt| attempt.nonce() == nonce);
        }
        attempts
    }
}

fn read_tail(mut file: &File) -> io::Result<Vec<u8>> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    Ok(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(nonce: u64, tip_wei: u128) -> Attempt {
        Attempt { nonce, hash: B256::ZERO, first: 1, last: 2, max_fee_wei: 3, tip_wei }
    }

    #[test]
    fn only_the_last_nonce_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::new(&dir.path().join("journal"));
        assert_eq!(journal.last_attempts(), []);
        for (nonce, tip) in [(6, 1), (7, 1), (7, 2)] {
            journal.record(&attempt(nonce, tip)).unwrap();
        }
        assert_eq!(journal.last_attempts(), [attempt(7, 1), attempt(7, 2)]);
    }

    #[test]
    fn a_torn_line_is_skipped_and_does_not_tear_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let journal = Journal::new(&path);
        journal.record(&attempt(6, 1)).unwrap();
        let torn = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&torn[..], &torn[..torn.len() / 2]].concat()).unwrap();
        assert_eq!(journal.last_attempts(), [attempt(6, 1)]);
        journal.record(&attempt(7, 1)).unwrap();
        assert_eq!(journal.last_attempts(), [attempt(7, 1)]);
    }

    #[test]
    fn a_long_journal_is_read_from_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let line = [serde_json::to_vec(&attempt(1, 1)).unwrap(), b"\n".to_vec()].concat();
        std::fs::write(&path, line.repeat(1_000)).unwrap();
        let journal = Journal::new(&path);
        journal.record(&attempt(2, 1)).unwrap();
        assert_eq!(journal.last_attempts(), [attempt(2, 1)]);
    }
}
