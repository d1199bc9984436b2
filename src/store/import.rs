//! A store that is built from the chunks of an export ([`crate::export`]).
//!
//! Crash story: records are written, and synced, as chunks come, but no commit names them until the
//! last; an opening after a crash finds no commit and begins anew. The manifest, which says that
//! nothing before the version can be read, is written before the commit record.

use std::ops::Range;
use std::path::Path as FsPath;
use std::sync::Arc;

use crate::commitment::Committed;
use crate::commits::CommitRecord;
use crate::disk::{Disk, failed};
use crate::export::{CHUNK_BYTES_MAX, Head, read_chunk};
use crate::hash::{Hash, Hasher};
use crate::letus::{Letus, Options};
use crate::location::Location;
use crate::writer::Item;
use crate::{Commitment, ProofError, StoreError};

/// Why an import does not go on.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The chunk is not the one that is needed: its sender is wrong, another may have it.
    #[error("a chunk is refused: {0}")]
    Chunk(#[from] ProofError),
    /// The store that is being built.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Where the records of an import go.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ingested {
    /// The root and its page so far.
    pub(crate) root: Option<(Hash, Location)>,
    /// Ends of values and pages.
    pub(crate) ends: [Location; 2],
}

/// A store that is being built.
pub struct Import<H: Hasher> {
    store: Letus<H>,
    commitment: Commitment,
    head: Head,
    /// First 64-bit number of the next chunk.
    next: u128,
    taken: u32,
    ingested: Ingested,
}

impl<H: Hasher> Import<H> {
    /// Begins with chunk 0 of the export of the version that has `commitment`, on an empty disk.
    ///
    /// # Errors
    /// `Chunk` if it is another; `Foreign` if the store is not empty.
    pub fn begin(
        disk: Arc<dyn Disk>,
        dir: &FsPath,
        options: Options,
        commitment: Commitment,
        chunk: &[u8],
    ) -> Result<Self, ImportError> {
        let head = Head::read::<H>(chunk, commitment)?;
        // A version is the number of its commit.
        if head.committed.version != head.committed.earlier {
            return Err(ProofError::Malformed("its versions have gaps").into());
        }
        let store = Letus::open_on(disk, dir, options)?;
        if let Some(tip) = store.tip() {
            let found = format!("a store of version {}", tip.version);
            let dir = dir.to_owned();
            return Err(StoreError::Foreign { path: dir, found, expected: "an empty one" }.into());
        }
        let ends = store.writer().fresh.unwrap_or_default();
        let ingested = Ingested { root: None, ends: [ends.0, ends.1] };
        Ok(Self { store, commitment, head, next: 0, taken: 1, ingested })
    }

    /// Number of the chunk that is needed next; none when all are there.
    pub fn next(&self) -> Option<u32> {
        (self.next < 1 << 64).then_some(self.taken)
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// `Chunk` if it is not that one: nothing is changed.
    pub fn chunk(&mut self, chunk: &[u8]) -> Result<(), ImportError> {
        if chunk.len() > CHUNK_BYTES_MAX {
            return Err(ProofError::Malformed("the chunk is too long").into());
        }
        let (place, pairs) = read_chunk::<H>(chunk, self.head.committed.root)?;
        let Range { start, end } = place.range();
        if start != self.next {
            return Err(ProofError::Malformed("it is another chunk").into());
        }
        let items = pairs.iter().map(|(tid, key, value)| (*tid, &key[..], Some(&value[..])));
        let batch: Vec<Item<'_>> = items.collect();
        if !batch.is_empty() || end == 1 << 64 {
            let version = self.head.committed.version;
            self.ingested = self.store.ingest(version, &batch, self.ingested)?;
        }
        (self.next, self.taken) = (end, self.taken.saturating_add(1));
        Ok(())
    }

    /// Makes the version durable and gives the store.
    ///
    /// # Errors
    /// `Chunk` if chunks are missing.
    pub fn finish(self) -> Result<Letus<H>, ImportError> {
        let Some((root, root_page)) = self.ingested.root.filter(|_| self.next().is_none()) else {
            return Err(ProofError::Malformed("chunks are missing").into());
        };
        let Committed { version, earlier, root: expected, range } = self.head.committed;
        if root != expected {
            return Err(StoreError::Corrupt("the chunks lead to another root".into()).into());
        }
        let [values_end, pages_end] = self.ingested.ends;
        let record = CommitRecord {
            incarnation: self.store.incarnation,
            number: earlier,
            version,
            root,
            commitment: self.commitment,
            range,
            root_page,
            // What the version changed is not known, only what it is.
            values_start: values_end,
            values_end,
            pages_start: pages_end,
            pages_end,
            digests: [0, 0],
            before: 0,
        };
        self.store.disk.sync_dir().map_err(failed("directory"))?;
        self.store.begin_at(record, self.head.range)?;
        Ok(self.store)
    }
}
