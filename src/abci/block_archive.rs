//! The archive of closed plasma blocks: one file a block, written once (see
//! `plasma_core::archive` for its bytes).
//!
//! A file is written under another name and renamed, so that it is whole or not there. It is never
//! synced: a missing file, or one whose proof does not lead to the block's committed root, is
//! rebuilt from the store's `changes`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use plasma_core::archive::{self, BlockTree};
use plasma_core::smt::{Leaf, Proof};
use plasma_core::state::{BlockRecord, COIN_PREFIX, CoinRecord, key_number};
use plasma_core::{B256, BlockNumber, CoinId};
use plasma_ledger::ReadError;

use crate::committed::Committed;

/// The archive's directory.
pub struct BlockArchive {
    dir: PathBuf,
}

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// No such block is closed.
    #[error("plasma block {0} is not closed")]
    NotClosed(BlockNumber),
    /// The state could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file could not be written or read.
    #[error("the block archive: {0}")]
    Io(#[from] io::Error),
    /// Even the rebuilt file does not lead to the committed root.
    #[error("block {0}: the store's changes do not make its committed root")]
    Root(BlockNumber),
}

impl BlockArchive {
    /// Opens the directory, making it if needed.
    pub fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        Ok(Self { dir: dir.to_owned() })
    }

    fn path(&self, number: BlockNumber) -> PathBuf {
        self.dir.join(format!("{number:020}"))
    }

    /// Writes a block's file.
    pub fn write(&self, number: BlockNumber, tree: &BlockTree) -> io::Result<()> {
        let path = self.path(number);
        // Two readers may rebuild the same block at once: each has a name of its own.
        let unique = format!("tmp-{:?}", std::thread::current().id());
        let temporary = path.with_extension(unique);
        fs::write(&temporary, tree.encode(number))?;
        fs::rename(&temporary, &path)
    }

    /// Proves a coin in (with its transfer's digest) or out of a closed block.
    pub fn prove(
        &self,
        view: &Committed,
        number: BlockNumber,
        coin: CoinId,
        transfer: Option<B256>,
    ) -> Result<Proof, ArchiveError> {
        let record = closed_block(view, number)?;
        if let Some(proof) = self.prove_from_file(number, coin)
            && proof.verify(record.root, coin, transfer).is_ok()
        {
            return Ok(proof);
        }
        tracing::warn!(number, "rebuilding a missing or damaged block archive file");
        let opened_after = match number {
            1 => 0,
            _ => closed_block(view, number - 1)?.height,
        };
        let leaves = leaves_of(view, number, opened_after + 1, record.height)?;
        let tree = BlockTree::build_serial(leaves);
        let proof = plasma_core::smt::prove(tree.leaves(), coin);
        if proof.verify(record.root, coin, transfer).is_err() {
            return Err(ArchiveError::Root(number));
        }
        self.write(number, &tree)?;
        Ok(proof)
    }

    fn prove_from_file(&self, number: BlockNumber, coin: CoinId) -> Option<Proof> {
        let file = File::open(self.path(number)).ok()?;
        let length = file.metadata().ok()?.len();
        let read = |offset: u64, len: usize| -> io::Result<Vec<u8>> {
            // The header's numbers are not trusted with an allocation.
            if offset.checked_add(len as u64).is_none_or(|end| end > length) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, offset)?;
            Ok(bytes)
        };
        archive::prove(number, coin, read)
            .inspect_err(|error| tracing::warn!(number, %error, "block archive"))
            .ok()
    }
}

/// The record of a closed block.
pub fn closed_block(view: &Committed, number: BlockNumber) -> Result<BlockRecord, ArchiveError> {
    plasma_ledger::closed_block(view, number)?.ok_or(ArchiveError::NotClosed(number))
}

/// The leaves that the heights `from ..= to` put into plasma block `number`.
pub fn leaves_of(
    view: &Committed,
    number: BlockNumber,
    from: u64,
    to: u64,
) -> Result<Vec<Leaf>, ReadError> {
    // A coin that is frozen after its move, in the same block, is written again.
    let mut leaves = std::collections::BTreeMap::new();
    let mut bad = None;
    let mut each = |_, key: &[u8], value: Option<&[u8]>| {
        let (Some(coin), Some(value)) = (key_number(key, COIN_PREFIX), value) else { return };
        match CoinRecord::decode(value) {
            Ok(record) if record.block == number && record.moved() => {
                leaves.insert(coin, record.hash);
            }
            Ok(_) => {}
            Err(source) => bad = Some(ReadError::Record { key: key.to_vec(), source }),
        }
    };
    view.store()
        .changes(from, to, &mut each)
        .map_err(|error| ReadError::Store(error.to_string()))?;
    match bad {
        Some(error) => Err(error),
        None => Ok(leaves.into_iter().map(|(coin, hash)| Leaf { coin, hash }).collect()),
    }
}
