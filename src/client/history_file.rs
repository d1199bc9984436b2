//! A coin's portable history: what a sender hands to a receiver, who then needs no node.
//!
//! | field | bytes |
//! |---|---|
//! | magic | `PLSMHIS1` |
//! | chain id, RootChain | 8, 20 |
//! | coin, deposit id, deposit as in the state | 8, 8, 123 |
//! | each block after the deposit's, no gaps | varint length, answer of `/coin/{coin}/proof/{n}` |
//!
//! Integers are big-endian. The file ends with its last block: it is written by appending, and a
//! file that was cut misses the data of the block in which it ends. It proves nothing by itself:
//! deposit record and roots come from Ethereum. Reading takes the memory of one block's proof.

use std::io::{self, Read, Write};

use plasma_core::coin::Deposit;
use plasma_core::domain::Domain;
use plasma_core::wire::{Reader, put_varint};
use plasma_core::{B256, BlockNumber, CoinId};

use crate::history::{HEAD_LEN, History, HistoryError, put_head, read_head};
use crate::queries::CoinProof;

const MAGIC: &[u8; 8] = b"PLSMHIS1";
/// Bytes before the first block's.
pub const HEADER_LEN: usize = MAGIC.len() + HEAD_LEN;
/// Most bytes of one block: a transfer `X` and a proof of 64 siblings with another leaf.
const SHOWN_MAX: usize = 1 + 140 + 9 + 64 * 32 + 41;

/// Why bytes are no history file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Reading failed.
    #[error("the history file: {0}")]
    Io(#[from] io::Error),
    /// The file begins with something else.
    #[error("this is no history file of version 1")]
    Magic,
    /// What it says of the coin's deposit is malformed.
    #[error("the history file's header is malformed: {0}")]
    Header(plasma_core::wire::WireError),
    /// A file about something else.
    #[error("the history is of {found}, not of {expected}")]
    Other {
        /// What is expected.
        expected: String,
        /// What the file says.
        found: String,
    },
    /// What it shows does not pass.
    #[error(transparent)]
    History(#[from] HistoryError),
}

/// What a file is about, as it claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The contract.
    pub domain: Domain,
    /// The coin.
    pub coin: CoinId,
    /// Its deposit.
    pub deposit: Deposit,
}

impl Header {
    /// The header of a history's file.
    pub fn of(history: &History) -> Self {
        let (domain, coin, deposit) = (*history.domain(), history.coin(), *history.deposit());
        Self { domain, coin, deposit }
    }

    /// The file's first bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_head(&mut out, &self.domain, self.coin, &self.deposit);
        out
    }

    /// Refuses a file of another coin, chain or deposit than `expected`.
    pub fn agree_with(&self, expected: &Self) -> Result<(), FileError> {
        let of = |header: &Self| {
            format!(
                "coin {} of deposit {} in {} on chain {}",
                header.coin,
                header.deposit.deposit_id,
                header.domain.root_chain,
                header.domain.chain_id
            )
        };
        if self == expected {
            return Ok(());
        }
        let (expected, mut found) = (of(expected), of(self));
        if expected == found {
            found += " with another deposit record";
        }
        Err(FileError::Other { expected, found })
    }
}

/// Appends one block's showing.
pub fn write_shown(out: &mut impl Write, shown: &CoinProof) -> io::Result<()> {
    let bytes = shown.encode();
    let mut length = Vec::with_capacity(2);
    put_varint(&mut length, bytes.len() as u64);
    out.write_all(&length)?;
    out.write_all(&bytes)
}

/// Reads a file block by block.
#[derive(Debug)]
pub struct HistoryFile<R> {
    reader: R,
    header: Header,
    next: BlockNumber,
}

impl<R: Read> HistoryFile<R> {
    /// Reads the header. Give a buffered reader.
    pub fn open(mut reader: R) -> Result<Self, FileError> {
        let mut bytes = [0; HEADER_LEN];
        reader.read_exact(&mut bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => FileError::Magic,
            _ => error.into(),
        })?;
        let (magic, head) = bytes.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(FileError::Magic);
        }
        let read = read_head(&mut Reader::new(head)).map_err(FileError::Header)?;
        let (domain, coin, deposit) = read;
        let next = deposit.deposit_block.saturating_add(1);
        Ok(Self { reader, header: Header { domain, coin, deposit }, next })
    }

    /// What the file claims to be about.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What the file shows of the next block, unchecked; none after its last whole block.
    pub fn next_shown(&mut self) -> Result<Option<CoinProof>, FileError> {
        let block = self.next;
        let malformed = |cause: String| HistoryError::Malformed { block, cause };
        let Some(length) = self.length(block)? else { return Ok(None) };
        let mut bytes = vec![0; length];
        match self.reader.read_exact(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        self.next = self.next.saturating_add(1);
        Ok(Some(CoinProof::decode(&bytes).map_err(malformed)?))
    }

    /// The varint before a block; none at the end.
    fn length(&mut self, block: BlockNumber) -> Result<Option<usize>, FileError> {
        let mut bytes = Vec::with_capacity(2);
        loop {
            let mut byte = [0];
            match self.reader.read_exact(&mut byte) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                other => other?,
            }
            bytes.push(byte[0]);
            if byte[0] & 0x80 == 0 || bytes.len() > 2 {
                break;
            }
        }
        let length = Reader::new(&bytes).varint().ok().and_then(|n| usize::try_from(n).ok());
        let length = length.filter(|length| *length <= SHOWN_MAX);
        let cause = "its length is no varint of a proof's".to_owned();
        Ok(Some(length.ok_or(HistoryError::Malformed { block, cause })?))
    }

    /// Checks the file from a history on, up to block `newest` or the file's end: what the
    /// history has checked already is skipped. `keep` gets each checked block's showing. After an
    /// error the history holds every block before the one that the error names.
    pub fn follow(
        &mut self,
        history: &mut History,
        newest: BlockNumber,
        roots: impl Fn(BlockNumber) -> Option<B256>,
        mut keep: impl FnMut(&CoinProof),
    ) -> Result<(), FileError> {
        self.header.agree_with(&Header::of(history))?;
        while history.checked() < newest {
            let block = self.next;
            let Some(shown) = self.next_shown()? else { return Ok(()) };
            if block <= history.checked() {
                continue;
            }
            let root = roots(history.checked() + 1);
            // A receiver asks for garbage afterwards.
            let _ = history.extend(root, &shown)?;
            keep(&shown);
        }
        Ok(())
    }
}
