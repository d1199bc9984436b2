//! The baseline backend: a Jellyfish Merkle tree (SHA-256) over sled 0.34.
//!
//! Scheme `jmt-sha256/1`; a commitment is the tree's root at that version. Everything lives in one
//! sled tree, so that one atomic batch makes a version:
//!
//! | key | value |
//! |---|---|
//! | `m` | the scheme's name |
//! | `l` | latest version:8, commitment:32 |
//! | `n`, borsh NodeKey | borsh Node |
//! | `v`, SHA-256 of the key:32, version:8 | `1`, value; or `0` for a deletion |
//! | `k`, key | empty: every key that was ever written, for scans |
//! | `c`, version:8, key | empty: what a version changed |
//!
//! Integers are big-endian, so that sled's order is theirs.
//!
//! Crash story: a version is in memory until `persist`, which applies its batch atomically and
//! flushes; a process that dies in between leaves the version before or after, never a mixture.
//! Against a *power loss* sled is not strictly durable: it flushes with `sync_file_range`.
//! Benchmarks mark it so.
//!
//! Nothing is ever pruned.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use borsh::BorshDeserialize;
use jmt::proof::SparseMerkleProof;
use jmt::storage::{LeafNode, Node, NodeKey, TreeReader};
use jmt::{JellyfishMerkleTree, KeyHash, OwnedValue, RootHash};
use sha2::Sha256;

use crate::{
    Change, Commitment, EachChange, ProofError, Proven, Store, StoreError, Version, Write,
    check_lengths, check_next,
};

/// Name of the scheme.
pub const SCHEME: &str = "jmt-sha256/1";

/// Most bytes of a proof: 256 siblings of at most 65 bytes, a leaf and two lengths.
const PROOF_BYTES_MAX: usize = 256 * 65 + 65 + 4;

/// How long `open` waits for the directory's lock: sled's own threads may hold it for a moment
/// after a store was dropped.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_POLL: Duration = Duration::from_millis(5);

/// A commit that is not durable yet.
struct Pending {
    version: Version,
    commitment: Commitment,
    batch: sled::Batch,
}

#[derive(Default)]
struct Writer {
    pending: Option<Pending>,
    poisoned: bool,
}

/// The store.
pub struct JmtSled {
    db: sled::Db,
    latest: RwLock<Option<(Version, Commitment)>>,
    writer: Mutex<Writer>,
}

impl JmtSled {
    /// Opens the store in `dir`, or makes an empty one where nothing is. `cache_bytes` bounds
    /// sled's page cache.
    pub fn open(dir: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let foreign = |found: &str| StoreError::Foreign {
            path: dir.to_owned(),
            found: found.to_owned(),
            expected: SCHEME,
        };
        // sled makes its files beside whatever is in the directory.
        let occupied = std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
        if occupied && !dir.join("conf").is_file() {
            return Err(foreign(""));
        }
        let config = sled::Config::new()
            .path(dir)
            .cache_capacity(cache_bytes)
            .mode(sled::Mode::HighThroughput);
        let deadline = Instant::now() + LOCK_WAIT;
        let db = loop {
            match config.open() {
                Ok(db) => break db,
                Err(sled::Error::Io(io)) if io.to_string().contains("lock") => {
                    if Instant::now() >= deadline {
                        return Err(StoreError::Locked { path: dir.to_owned() });
                    }
                    std::thread::sleep(LOCK_POLL);
                }
                Err(other) => return Err(backend(other)),
            }
        };
        match db.get(b"m").map_err(backend)? {
            Some(found) if &*found == SCHEME.as_bytes() => {}
            Some(found) => return Err(foreign(&String::from_utf8_lossy(&found))),
            None if db.is_empty() => {
                db.insert(b"m", SCHEME.as_bytes()).map_err(backend)?;
                db.flush().map_err(backend)?;
            }
            None => return Err(foreign("")),
        }
        let latest = match db.get(b"l").map_err(backend)? {
            None => None,
            Some(record) => {
                let bytes: [u8; 40] = (&*record)
                    .try_into()
                    .map_err(|_| StoreError::Corrupt("the latest-version record".into()))?;
                let (version, commitment) = bytes.split_at(8);
                Some((be64(version), Commitment(array(commitment))))
            }
        };
        Ok(Self { db, latest: RwLock::new(latest), writer: Mutex::default() })
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest value of each key that the batch really changes.
    fn changed<'b>(
        &self,
        latest: Option<Version>,
        batch: &'b [Write],
    ) -> Result<BTreeMap<&'b [u8], Option<&'b [u8]>>, StoreError> {
        let mut changed = BTreeMap::new();
        for (key, value) in batch {
            let value = value.as_deref();
            check_lengths(key, value)?;
            changed.insert(key.as_slice(), value);
        }
        if let Some(latest) = latest {
            let mut kept = BTreeMap::new();
            for (key, value) in changed {
                if self.get(latest, key)?.as_deref() != value {
                    kept.insert(key, value);
                }
            }
            return Ok(kept);
        }
        changed.retain(|_, value| value.is_some());
        Ok(changed)
    }

    fn check_version(&self, asked: Version) -> Result<(), StoreError> {
        let latest = self.latest().map(|(version, _)| version);
        match latest {
            Some(latest) if asked <= latest => Ok(()),
            _ => Err(StoreError::Version { asked, latest }),
        }
    }

    fn newest_hashed(
        &self,
        version: Version,
        hash: &[u8; 32],
    ) -> Result<Option<Change>, StoreError> {
        let from = value_key(hash, 0);
        let to = value_key(hash, version);
        let Some(found) = self.db.range(from..=to).next_back() else { return Ok(None) };
        let (key, record) = found.map_err(backend)?;
        let version = key.get(33..).and_then(|bytes| bytes.try_into().ok());
        let version = u64::from_be_bytes(
            version.ok_or_else(|| StoreError::Corrupt(format!("the value key {key:02x?}")))?,
        );
        match record.split_first() {
            Some((1, value)) => Ok(Some((version, Some(value.to_vec())))),
            Some((0, [])) => Ok(Some((version, None))),
            _ => Err(StoreError::Corrupt(format!("the value record {key:02x?}"))),
        }
    }
}

fn backend(error: sled::Error) -> StoreError {
    StoreError::Backend(error.to_string())
}

/// An error of the tree: it reads through this store, so its failure is a missing or bad node.
fn corrupt(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

/// # Panics
/// If `bytes` has another length: the callers split records of checked length.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

fn be64(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(array(bytes))
}

fn hash_key(key: &[u8]) -> KeyHash {
    KeyHash::with::<Sha256>(key)
}

fn value_key(hash: &[u8; 32], version: Version) -> [u8; 41] {
    let mut key = [b'v'; 41];
    key[1..33].copy_from_slice(hash);
    key[33..].copy_from_slice(&version.to_be_bytes());
    key
}

fn change_key(version: Version, key: &[u8]) -> Vec<u8> {
    [b"c", &version.to_be_bytes()[..], key].concat()
}

fn node_key(key: &NodeKey) -> Result<Vec<u8>, std::io::Error> {
    let mut bytes = vec![b'n'];
    borsh::to_writer(&mut bytes, key)?;
    Ok(bytes)
}

impl TreeReader for JmtSled {
    fn get_node_option(&self, key: &NodeKey) -> anyhow::Result<Option<Node>> {
        let Some(bytes) = self.db.get(node_key(key)?)? else { return Ok(None) };
        Ok(Some(Node::try_from_slice(&bytes)?))
    }

    fn get_value_option(
        &self,
        version: Version,
        hash: KeyHash,
    ) -> anyhow::Result<Option<OwnedValue>> {
        Ok(self.newest_hashed(version, &hash.0)?.and_then(|(_, value)| value))
    }

    fn get_rightmost_leaf(&self) -> anyhow::Result<Option<(NodeKey, LeafNode)>> {
        anyhow::bail!("only restoring a tree needs its rightmost leaf")
    }
}

impl Store for JmtSled {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    fn latest(&self) -> Option<(Version, Commitment)> {
        *self.latest.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self, version: Version, batch: &[Write]) -> Result<Commitment, StoreError> {
        let mut writer = self.writer();
        if writer.poisoned {
            return Err(StoreError::Poisoned);
        }
        writer.pending = None;
        let latest = self.latest().map(|(version, _)| version);
        check_next(version, latest)?;
        let changed = self.changed(latest, batch)?;
        let hashed = changed
            .iter()
            .map(|(key, value)| (hash_key(key), value.map(<[u8]>::to_vec)))
            .collect::<Vec<_>>();
        let tree = JellyfishMerkleTree::<_, Sha256>::new(self);
        let (root, update) = tree.put_value_set(hashed, version).map_err(corrupt)?;

        let mut batch = sled::Batch::default();
        for (key, node) in update.node_batch.nodes() {
            let bytes = borsh::to_vec(node).map_err(corrupt)?;
            batch.insert(node_key(key).map_err(corrupt)?, bytes);
        }
        for (key, value) in changed {
            let record = match value {
                Some(value) => [&[1], value].concat(),
                None => vec![0],
            };
            batch.insert(value_key(&hash_key(key).0, version).to_vec(), record);
            batch.insert([b"k", key].concat(), &[]);
            batch.insert(change_key(version, key), &[]);
        }
        let commitment = Commitment(root.0);
        batch.insert(b"l", [&version.to_be_bytes()[..], &root.0].concat());
        writer.pending = Some(Pending { version, commitment, batch });
        Ok(commitment)
    }

    fn persist(&self, version: Version) -> Result<(), StoreError> {
        let mut writer = self.writer();
        let pending = match writer.pending.take() {
            Some(pending) if pending.version == version => pending,
            other => {
                writer.pending = other;
                let latest = self.latest().map(|(version, _)| version);
                return Err(StoreError::Version { asked: version, latest });
            }
        };
        let written = self.db.apply_batch(pending.batch).and_then(|()| self.db.flush());
        if let Err(error) = written {
            writer.poisoned = true;
            return Err(backend(error));
        }
        *self.latest.write().unwrap_or_else(PoisonError::into_inner) =
            Some((version, pending.commitment));
        Ok(())
    }

    fn discard(&self) {
        self.writer().pending = None;
    }

    fn newest(&self, version: Version, key: &[u8]) -> Result<Option<Change>, StoreError> {
        self.check_version(version)?;
        self.newest_hashed(version, &hash_key(key).0)
    }

    fn prove(&self, version: Version, key: &[u8]) -> Result<Proven, StoreError> {
        self.check_version(version)?;
        let tree = JellyfishMerkleTree::<_, Sha256>::new(self);
        let (value, proof) = tree.get_with_proof(hash_key(key), version).map_err(corrupt)?;
        Ok(Proven { value, proof: borsh::to_vec(&proof).map_err(corrupt)? })
    }

    fn changes(
        &self,
        from: Version,
        to: Version,
        each: &mut EachChange<'_>,
    ) -> Result<(), StoreError> {
        self.check_version(to)?;
        for found in self.db.range(change_key(from, &[])..) {
            let (record, _) = found.map_err(backend)?;
            // The range runs on into the next kind of record.
            let Some((b'c', rest)) = record.split_first() else { break };
            let (version, key) = rest
                .split_first_chunk()
                .ok_or_else(|| StoreError::Corrupt(format!("the change key {record:02x?}")))?;
            let version = u64::from_be_bytes(*version);
            if version > to {
                break;
            }
            let value = match self.newest_hashed(version, &hash_key(key).0)? {
                Some((at, value)) if at == version => value,
                _ => return Err(StoreError::Corrupt(format!("no value for change {record:02x?}"))),
            };
            each(version, key, value.as_deref());
        }
        Ok(())
    }

    fn scan(
        &self,
        version: Version,
        prefix: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        self.check_version(version)?;
        for found in self.db.scan_prefix([b"k", prefix].concat()) {
            let (record, _) = found.map_err(backend)?;
            let key = &record[1..];
            if let Some((_, Some(value))) = self.newest_hashed(version, &hash_key(key).0)? {
                each(key, &value);
            }
        }
        Ok(())
    }
}

/// Checks a proof of this scheme; see [`crate::verify`].
pub fn verify(
    commitment: Commitment,
    key: &[u8],
    value: Option<&[u8]>,
    proof: &[u8],
) -> Result<(), ProofError> {
    if proof.len() > PROOF_BYTES_MAX {
        return Err(ProofError::Malformed("too long"));
    }
    let decoded = SparseMerkleProof::<Sha256>::try_from_slice(proof)
        .map_err(|_| ProofError::Malformed("does not decode"))?;
    // One encoding per proof.
    if borsh::to_vec(&decoded).ok().as_deref() != Some(proof) {
        return Err(ProofError::Malformed("is not canonical"));
    }
    decoded
        .verify(RootHash(commitment.0), hash_key(key), value)
        .map_err(|error| ProofError::Invalid(error.to_string()))
}
