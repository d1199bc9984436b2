//! Versioned, authenticated key-values on disk. Knows nothing of coins.
//!
//! [`Store`] is what an application needs of its state: a value of a key at any kept version, a
//! batch that makes the next version with one commitment to the whole state, proofs against that
//! commitment, and the changes between versions. A version becomes durable in two steps:
//! [`Store::commit`] computes its commitment in memory, [`Store::persist`] makes it durable, so
//! that a consensus engine that is told a version is never told one that a crash can take back.
//!
//! [`letus`] is the engine. [`jmt_sled`] is the two-layer baseline: a Jellyfish Merkle tree over a
//! key-value store.

#[doc = include_str!("README.md")]
#[cfg(doctest)]
mod readme {}

mod audit;
mod batch_proof;
mod bytes;
mod cache;
pub mod commitment;
pub mod commits;
pub mod disk;
pub mod export;
mod forest;
pub mod hash;
pub mod import;
pub mod index;
pub mod jmt_sled;
pub mod letus;
pub mod location;
mod manifest;
pub mod page;
pub mod page_record;
pub mod proof;
pub mod prune;
pub mod range;
mod segment;
pub mod sim;
pub mod stream;
pub mod tree;
pub mod trie;
pub mod update;
pub mod values;
mod walk;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hash::{Blake3, Hasher, Sha2};

/// Number of a version: 0 is the first, without gaps.
pub type Version = u64;

/// A key with its new value, or none to delete it.
pub type Write = (Vec<u8>, Option<Vec<u8>>);

/// A value that stood from some version on; none is a deletion.
pub type Change = (Version, Option<Vec<u8>>);

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1 << 10;
/// Longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// Takes the version, key and new value (none = deleted) of a change.
pub type EachChange<'a> = dyn FnMut(Version, &[u8], Option<&[u8]>) + 'a;

/// Commitment to the whole state at one version.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Commitment(pub [u8; 32]);

impl fmt::Debug for Commitment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for Commitment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A value, or its absence, with the bytes that prove it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    /// The value at the asked version.
    pub value: Option<Vec<u8>>,
    /// Checked by the scheme's verifier against that version's commitment.
    pub proof: Vec<u8>,
}

/// Versioned, authenticated key-values. One writer; any number of readers beside it.
pub trait Store: Send + Sync {
    /// Name of the commitment scheme: store, hash, version.
    fn scheme(&self) -> &'static str;

    /// The newest durable version; none in an empty store.
    fn latest(&self) -> Option<(Version, Commitment)>;

    /// Applies `batch` on top of the latest version and returns the commitment of `version`, which
    /// must be the next one (0 in an empty store). Of several writes of one key the last counts.
    /// Not durable and not readable until [`Store::persist`]; replaces an unpersisted commit.
    fn commit(&self, version: Version, batch: &[Write]) -> Result<Commitment, StoreError>;

    /// Makes the commit of `version` durable, all of it or nothing; blocks until it is.
    fn persist(&self, version: Version) -> Result<(), StoreError>;

    /// Drops a commit that was not persisted.
    fn discard(&self);

    /// The newest change of a key at or before `version`; none if it was never written. Walking
    /// back from its version gives the key's history.
    fn newest(&self, version: Version, key: &[u8]) -> Result<Option<Change>, StoreError>;

    /// A key's value at `version`.
    fn get(&self, version: Version, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.newest(version, key)?.and_then(|(_, value)| value))
    }

    /// A key's value at `version` with its proof against that version's commitment.
    fn prove(&self, version: Version, key: &[u8]) -> Result<Proven, StoreError>;

    /// Calls `each` with every change of the versions `from ..= to`, by ascending version, then
    /// key.
    fn changes(
        &self,
        from: Version,
        to: Version,
        each: &mut EachChange<'_>,
    ) -> Result<(), StoreError>;

    /// Calls `each` with every live pair at `version` whose key starts with `prefix`, by ascending
    /// key. Reads every version of these keys: for rebuilding an index at start.
    fn scan(
        &self,
        version: Version,
        prefix: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError>;
}

/// Why a store operation failed. After a failed write the handle refuses further writes.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory is used by another process.
    #[error("the store at {path} is in use by another process")]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// No store is in the directory, or there is no such directory.
    #[error("{path}: no store is there")]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds something else.
    #[error("{path} holds {found:?}, not a store of scheme {expected}")]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The marker that was found; empty if there is none.
        found: String,
        /// The scheme that was expected.
        expected: &'static str,
    },
    /// No store has this scheme.
    #[error("unknown store scheme {0:?}; known: {known}", known = SCHEMES.join(", "))]
    Scheme(String),
    /// The store was written by a program that is newer, or much older.
    #[error("the store's format is {found}, this program knows {known}")]
    Format {
        /// Its format.
        found: u32,
        /// The format of this program.
        known: u32,
    },
    /// The key-value store underneath failed.
    #[error("the store's backend: {0}")]
    Backend(String),
    /// A record that does not decode, or that must exist and does not.
    #[error("the store is corrupt: {0}")]
    Corrupt(String),
    /// A commit or read of a version that is not there.
    #[error("version {asked} is not there: latest is {latest:?}")]
    Version {
        /// The asked version.
        asked: Version,
        /// The latest version.
        latest: Option<Version>,
    },
    /// A read of a version that was given up.
    #[error("version {asked} was pruned: the oldest is {oldest}")]
    Pruned {
        /// The asked version.
        asked: Version,
        /// The oldest version.
        oldest: Version,
    },
    /// A key or value above its limit.
    #[error("{what} of {bytes} bytes exceeds {max}")]
    TooLarge {
        /// Key or value.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A write to a store that was opened for reading.
    #[error("the store was opened for reading only")]
    ReadOnly,
    /// An earlier write failed: what is on disk is unknown until the store is opened again.
    #[error("an earlier write failed; open the store again")]
    Poisoned,
}

/// Why a proof shows nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// No verifier has this name.
    #[error("unknown scheme {0:?}")]
    Scheme(String),
    /// The bytes are no proof of the scheme.
    #[error("malformed proof: {0}")]
    Malformed(&'static str),
    /// The proof is well formed but leads to another commitment or value.
    #[error("the proof does not hold: {0}")]
    Invalid(String),
}

/// The schemes that [`open`] and [`verify`] know.
pub const SCHEMES: [&str; 2] = [Blake3::SCHEME, jmt_sled::SCHEME];

/// A commit must be of the version after the latest.
pub(crate) fn check_next(asked: Version, latest: Option<Version>) -> Result<(), StoreError> {
    let next = latest.map_or(0, |latest| latest.saturating_add(1));
    if asked == next { Ok(()) } else { Err(StoreError::Version { asked, latest }) }
}

/// A key and its new value must be within their limits.
pub(crate) fn check_lengths(key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
    let value = value.map_or(0, <[u8]>::len);
    for (what, bytes, max) in [("key", key.len(), KEY_BYTES_MAX), ("value", value, VALUE_BYTES_MAX)]
    {
        if bytes > max {
            return Err(StoreError::TooLarge { what, bytes, max });
        }
    }
    Ok(())
}

/// Opens the store of a scheme in `dir`, or makes an empty one where nothing is, with `cache_bytes`
/// for what it keeps in memory and `workers` threads for a commit.
pub fn open(
    scheme: &str,
    dir: &Path,
    cache_bytes: u64,
    workers: usize,
) -> Result<Arc<dyn Store>, StoreError> {
    match scheme {
        jmt_sled::SCHEME => Ok(Arc::new(jmt_sled::JmtSled::open(dir, cache_bytes)?)),
        Blake3::SCHEME => {
            let options = letus::Options { cache_bytes, workers, ..Default::default() };
            Ok(Arc::new(letus::Letus::open(dir, options)?))
        }
        other => Err(StoreError::Scheme(other.to_owned())),
    }
}

/// Checks that `key` has `value` (none: is absent) in the state that `commitment` commits to.
/// Needs no store.
pub fn verify(
    scheme: &str,
    commitment: Commitment,
    key: &[u8],
    value: Option<&[u8]>,
    proof: &[u8],
) -> Result<(), ProofError> {
    match scheme {
        jmt_sled::SCHEME => jmt_sled::verify(commitment, key, value, proof),
        Blake3::SCHEME => letus::verify::<Blake3>(commitment, key, value, proof),
        Sha2::SCHEME => letus::verify::<Sha2>(commitment, key, value, proof),
        other => Err(ProofError::Scheme(other.to_owned())),
    }
}
