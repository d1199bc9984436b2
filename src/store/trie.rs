//! Reading one trie of a store.
//!
//! All tries share one hash tree and one commitment; a trie is a namespace of keys.

use std::collections::BTreeMap;

use crate::batch_proof;
use crate::commitment::{Anchor, Later, StateProof};
use crate::commits::CommitRecord;
use crate::hash::Hasher;
use crate::index;
use crate::letus::Letus;
use crate::location::Location;
use crate::tree::{Path, path_of};
use crate::values::ValueRecord;
use crate::walk::{self, Step, Walk};
use crate::{Change, EachChange, Proven, StoreError, Version};

/// Number of a trie.
pub type Tid = u64;

/// The trie of the trait [`crate::Store`].
pub const DEFAULT_TRIE: Tid = 0;

/// Takes the trie, key and value of a pair.
pub type EachPair<'a> = dyn FnMut(Tid, &[u8], &[u8]) + 'a;

/// Values of many keys, or their absence, with the bytes that prove them all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenMany {
    /// In the order of the keys.
    pub values: Vec<Option<Vec<u8>>>,
    /// Checked by [`crate::letus::verify_many`].
    pub proof: Vec<u8>,
}

/// A trie of a store. Every store has every trie; one without keys leaves no trace.
pub struct Trie<'a, H: Hasher> {
    store: &'a Letus<H>,
    tid: Tid,
}

impl<H: Hasher> Letus<H> {
    /// A trie.
    pub fn trie(&self, tid: Tid) -> Trie<'_, H> {
        Trie { store: self, tid }
    }

    /// Calls `each` with every live pair of all tries at `version`, in the order of their paths.
    ///
    /// # Errors
    /// If the version is not there or the store is corrupt.
    pub fn pairs(&self, version: Version, each: &mut EachPair<'_>) -> Result<(), StoreError> {
        let (_pin, tip, record) = self.at(version)?;
        let pages = self.view(tip.pages_end);
        index::entries(&pages, record.root_page, &index::ALL, &mut |entry| {
            self.value(&tip, entry.at, |record| {
                if let Some(value) = record.value {
                    each(record.tid, record.key, value);
                }
            })
        })
    }

    /// The way from a version's commitment to the newest one.
    pub(crate) fn anchor(
        &self,
        tip: &CommitRecord,
        record: &CommitRecord,
    ) -> Result<Anchor, StoreError> {
        let later = if tip.version == record.version {
            None
        } else {
            Some(Later {
                siblings: self.commits.path::<H>(record.number, tip.number)?,
                version: tip.version,
                earlier: tip.number,
                root: tip.root,
            })
        };
        Ok(Anchor { at: record.committed(), later })
    }
}

impl<H: Hasher> Trie<'_, H> {
    /// Place of the newest record of a key at or before the version of `record`.
    ///
    /// Places ascend with versions: what is before the end of a version's values is no younger.
    fn newest_at(
        &self,
        tip: &CommitRecord,
        record: &CommitRecord,
        key: &[u8],
    ) -> Result<Option<Location>, StoreError> {
        let store = self.store;
        let path = path_of::<H>(self.tid, key);
        let mut newest = None;
        index::find(&store.view(tip.pages_end), tip.root_page, &[path], &mut |entry| {
            newest = entry.map(|(_, entry)| entry.at);
            Ok(())
        })?;
        while let Some(at) = newest.filter(|at| *at >= record.values_end) {
            let (prev, jump) = store.value(tip, at, |record| (record.prev, record.jump))?;
            newest = jump.filter(|jump| *jump >= record.values_end).or(prev);
        }
        Ok(newest)
    }

    /// The newest change of a key at or before `version`; none if it was never written.
    ///
    /// # Errors
    /// If the version is not there or the store is corrupt; so of all methods.
    pub fn newest(&self, version: Version, key: &[u8]) -> Result<Option<Change>, StoreError> {
        let (_pin, tip, record) = self.store.at(version)?;
        let at = self.newest_at(&tip, &record, key)?;
        let change = |record: ValueRecord<'_>| (record.version, record.value.map(<[u8]>::to_vec));
        at.map(|at| self.store.value(&tip, at, change)).transpose()
    }

    /// A key's value at `version`.
    pub fn get(&self, version: Version, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.newest(version, key)?.and_then(|(_, value)| value))
    }

    /// Calls `each` with the changes of a key at or before `version`, the newest first, as far
    /// back as they are kept.
    pub fn history(
        &self,
        version: Version,
        key: &[u8],
        each: &mut dyn FnMut(Version, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        let store = self.store;
        let (_pin, tip, record) = store.at(version)?;
        let (oldest, _oldest) = store.pin_oldest();
        let floor = store.record(oldest)?.values_end;
        let mut next = self.newest_at(&tip, &record, key)?;
        while let Some(at) = next {
            let prev = store.value(&tip, at, |record| {
                each(record.version, record.value);
                record.prev
            })?;
            // The first one before the floor is what the oldest version has; the rest may be gone.
            next = prev.filter(|_| at >= floor);
        }
        Ok(())
    }

    /// A key's value at `version`, with its proof against that version's commitment.
    pub fn prove(&self, version: Version, key: &[u8]) -> Result<Proven, StoreError> {
        let (_pin, tip, record) = self.store.at(version)?;
        self.proof(&tip, &record, key, Anchor { at: record.committed(), later: None })
    }

    /// A key's value at `version`, with its proof against the newest commitment.
    pub fn prove_at(&self, version: Version, key: &[u8]) -> Result<Proven, StoreError> {
        let (_pin, tip, record) = self.store.at(version)?;
        self.proof(&tip, &record, key, self.store.anchor(&tip, &record)?)
    }

    /// Values of keys at `version`, in their order, with one proof of all against the newest
    /// commitment: [`crate::letus::verify_many`] checks it.
    pub fn prove_many(&self, version: Version, keys: &[&[u8]]) -> Result<ProvenMany, StoreError> {
        let store = self.store;
        let (_pin, tip, record) = store.at(version)?;
        let places: Vec<Path> = keys.iter().map(|key| path_of::<H>(self.tid, key)).collect();
        let mut paths = places.clone();
        paths.sort_unstable();
        paths.dedup();
        let walk = Walk::new::<H>(&store.view(tip.pages_end), record.root_page, &paths)?;
        let mut found = BTreeMap::new();
        for step in &walk.steps {
            if let Step::Own(entry) = step {
                let value = store.value(&tip, entry.at, |r| r.value.map(<[u8]>::to_vec))?;
                found.insert(entry.path, value);
            }
        }
        let values = places.iter().map(|path| found.get(path).cloned().flatten()).collect();
        Ok(ProvenMany { values, proof: batch_proof::encode(&walk, &store.anchor(&tip, &record)?) })
    }

    fn proof(
        &self,
        tip: &CommitRecord,
        record: &CommitRecord,
        key: &[u8],
        anchor: Anchor,
    ) -> Result<Proven, StoreError> {
        let path = path_of::<H>(self.tid, key);
        let pages = self.store.view(tip.pages_end);
        let (tree, at) = walk::prove::<H>(&pages, record.root_page, &path)?;
        let value = match at {
            Some(at) => self.store.value(tip, at, |record| record.value.map(<[u8]>::to_vec))?,
            None => None,
        };
        Ok(Proven { value, proof: StateProof { tree, anchor }.encode() })
    }

    /// Calls `each` with every change of the versions `from ..= to`, by ascending version, then
    /// key.
    pub fn changes(
        &self,
        from: Version,
        to: Version,
        each: &mut EachChange<'_>,
    ) -> Result<(), StoreError> {
        let store = self.store;
        store.at(to)?;
        if from > to {
            return Ok(());
        }
        let _pin = store.pin(from)?;
        for version in from..=to {
            let record = store.record(version)?;
            let mut changed = BTreeMap::new();
            store.values.records(record.values_start, record.values_end, &mut |at, body| {
                let ValueRecord { tid, key, value, .. } = ValueRecord::decode(at, body)?;
                if tid == self.tid {
                    changed.insert(key.to_vec(), value.map(<[u8]>::to_vec));
                }
                Ok(())
            })?;
            for (key, value) in &changed {
                each(version, key, value.as_deref());
            }
        }
        Ok(())
    }

    /// Calls `each` with every live pair at `version` whose key starts with `prefix`, by ascending
    /// key. Reads the whole version, of all tries.
    pub fn scan(
        &self,
        version: Version,
        prefix: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        let mut found = BTreeMap::new();
        self.store.pairs(version, &mut |tid, key, value| {
            if tid == self.tid && key.starts_with(prefix) {
                found.insert(key.to_vec(), value.to_vec());
            }
        })?;
        for (key, value) in &found {
            each(key, value);
        }
        Ok(())
    }
}
