//! Checking all of a version: every hash of it is computed again from the disk.

use crate::forest::{Forest, Id};
use crate::hash::Hasher;
use crate::index::{Pages, index_at, leaf_at, level_of, no_index, no_leaf, prefix_of};
use crate::letus::Letus;
use crate::location::Location;
use crate::page::{Child, Kind, Sub};
use crate::proof::value_hash;
use crate::tree::{Path, path_of};
use crate::values::ValueRecord;
use crate::{Commitment, StoreError, Version};

/// A check of one version's tree.
struct Audit<'a, H: Hasher, P> {
    store: &'a Letus<H>,
    pages: &'a P,
    forest: Forest,
    keys: u64,
}

impl<H: Hasher> Letus<H> {
    /// The commitment of a version, to be compared with a copy that was kept elsewhere: it commits
    /// to all earlier ones too, so an equal one excludes a rollback and a fork.
    ///
    /// # Errors
    /// If the version is not there or the store is corrupt.
    pub fn digest(&self, version: Version) -> Result<Commitment, StoreError> {
        Ok(self.record(version)?.commitment)
    }

    /// Reads all of a version from the disk, recomputes every hash of it, its commitment, and the
    /// commitment's place in the newest one's range; returns the number of keys.
    ///
    /// # Errors
    /// `Corrupt` with the first place that is not as it was committed.
    pub fn audit(&self, version: Version) -> Result<u64, StoreError> {
        let (_pin, tip, record) = self.at(version)?;
        let wrong = |what: &str| StoreError::Corrupt(format!("commits: record {version}: {what}"));
        if record.committed().commitment::<H>() != record.commitment {
            return Err(wrong("its commitment is another"));
        }
        if record.number < tip.number {
            let siblings = self.commits.path::<H>(record.number, tip.number)?;
            let own = record.commitment.0;
            let range = crate::range::root_of::<H>(own, record.number, tip.number, &siblings);
            if range != Some(tip.range) {
                return Err(wrong("it is not in the range of the newest"));
            }
        }
        let pages = self.view(record.pages_end).uncached();
        let mut audit = Audit { store: self, pages: &pages, forest: Forest::default(), keys: 0 };
        let root = audit.index(record.root_page, record.values_end, 0, &[0; 32])?;
        if root.hash() != record.root {
            return Err(wrong("its root is another"));
        }
        Ok(audit.keys)
    }
}

impl<H: Hasher, P: Pages> Audit<'_, H, P> {
    /// The subtree of an index page, of which every child is checked.
    fn index(
        &mut self,
        at: Location,
        values_end: Location,
        depth: u8,
        prefix: &Path,
    ) -> Result<Sub, StoreError> {
        let loaded = self.pages.page(at, prefix)?;
        let page = index_at(&loaded, at, depth)?;
        let mut subs = Vec::with_capacity(page.children.len());
        for child in &page.children {
            let prefix = prefix_of(prefix, depth, child.slot);
            let sub = match (child.kind, child.record) {
                (Kind::Index, Some((_, below))) => {
                    self.index(below, values_end, depth + 1, &prefix)?
                }
                (Kind::Leaf(count), Some((_, below))) => {
                    self.leaf((below, count), values_end, level_of(depth, child.bits), &prefix)?
                }
                (Kind::Leaf(0), None) => Sub::Empty,
                _ => return Err(no_index(at)),
            };
            if sub != child.sub {
                let slot = child.slot;
                return Err(StoreError::Corrupt(format!(
                    "pages record at {at:?}: the hash of slot {slot} is another"
                )));
            }
            subs.push((child, sub));
        }
        self.forest.clear();
        let known = |(child, sub): (&Child, Sub)| (child.slot, child.bits, self.forest.known(sub));
        let ids: Vec<(u8, u8, Id)> = subs.into_iter().map(known).collect();
        let own = self.forest.run(&ids, 0, 8);
        self.forest.hash::<H>();
        Ok(self.forest.sub(own))
    }

    fn leaf(
        &mut self,
        (at, count): (Location, u8),
        values_end: Location,
        level: usize,
        prefix: &Path,
    ) -> Result<Sub, StoreError> {
        let loaded = self.pages.page(at, prefix)?;
        let page = leaf_at(&loaded, at)?;
        if page.entries.len() != usize::from(count) {
            return Err(no_leaf(at));
        }
        for entry in &page.entries {
            let sound = self.store.values.with(entry.at, values_end, |body| {
                let record = ValueRecord::decode(entry.at, body)?;
                let path = path_of::<H>(record.tid, record.key);
                Ok(path == entry.path && record.value.map(value_hash::<H>) == entry.value)
            })?;
            if !sound {
                let at = entry.at;
                let what = "it is not what its page says";
                return Err(StoreError::Corrupt(format!("values record at {at:?}: {what}")));
            }
            self.keys += u64::from(entry.value.is_some());
        }
        self.forest.clear();
        let id = self.forest.leaves(page.leaves(), level);
        self.forest.hash::<H>();
        Ok(self.forest.sub(id))
    }
}
