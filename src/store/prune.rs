//! Pruning: old versions go, and their space is given back.
//!
//! What a version from `oldest` on needs is what the tree of `oldest` leads to and what was written
//! after it. So pruning walks that tree, notes the records below it, and looks at the segments that
//! were full before `oldest`: one without such records is dropped, one with few is compacted
//! ([`crate::segment`]). It reads beside readers and the writer, who are only held up to learn of
//! the new bound and of the new files.
//!
//! Crash story: the compacted files are written and synced, then their names; then a new manifest,
//! in one rename, puts the bound and all generations in force; then the old files are unlinked.
//! Before the rename nothing has changed but files that no manifest names, which the next opening
//! deletes; after it the next opening deletes the old ones. After a failure the handle prunes no
//! more, because which manifest is on disk is unknown; both are true until files are unlinked.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::commits::CommitRecord;
use crate::disk::{Mode, failed};
use crate::hash::Hasher;
use crate::index;
use crate::letus::Letus;
use crate::location::Location;
use crate::manifest::Manifest;
use crate::page::Page;
use crate::page_record::previous;
use crate::segment::compacted;
use crate::stream::{DROPPED, Stream};
use crate::{StoreError, Version};

/// A segment is compacted when less than this part of it is needed.
const NEEDED_PART: u64 = 4;
/// Records from which the mean length of a segment's is estimated.
const SAMPLES: usize = 64;

/// What a pruning has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The oldest version that can be read.
    pub oldest: Version,
    /// Segments that are gone.
    pub dropped: u64,
    /// Segments of which only what is needed was kept.
    pub compacted: u64,
    /// Bytes given back.
    pub bytes: u64,
}

/// Which versions are read.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    oldest: Version,
    /// How often a version is pinned.
    pinned: BTreeMap<Version, usize>,
}

impl Readers {
    /// No reader of versions that begin with `oldest`.
    pub(crate) fn of(oldest: Version) -> Self {
        Self { oldest, ..Self::default() }
    }
}

/// Keeps a version, and all after it, from being pruned.
#[derive(Debug)]
pub struct Pin<'a> {
    readers: &'a Mutex<Readers>,
    version: Version,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let mut readers = lock(self.readers);
        if let Some(count) = readers.pinned.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                readers.pinned.remove(&self.version);
            }
        }
    }
}

fn lock(readers: &Mutex<Readers>) -> MutexGuard<'_, Readers> {
    readers.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_base(at: Location) -> StoreError {
    StoreError::Corrupt(format!("pages record at {at:?}: its links do not lead to a base"))
}

/// Records that are needed of the segments before a stream's limit, ascending.
struct Needed {
    limit: u32,
    records: Vec<Location>,
}

impl Needed {
    fn before(limit: Location) -> Self {
        Self { limit: limit.segment(), records: Vec::new() }
    }

    fn add(&mut self, at: Location) {
        if at.segment() < self.limit {
            self.records.push(at);
        }
    }

    fn of_segment(&self, segment: u32) -> &[Location] {
        let from = self.records.partition_point(|at| at.segment() < segment);
        let to = self.records.partition_point(|at| at.segment() <= segment);
        self.records.get(from..to).unwrap_or_default()
    }
}

impl<H: Hasher> Letus<H> {
    /// The oldest version that can be read.
    pub fn oldest(&self) -> Version {
        lock(&self.readers).oldest
    }

    /// Keeps a version from being pruned as long as the pin lives.
    ///
    /// # Errors
    /// `Pruned` if it is too late.
    pub fn pin(&self, version: Version) -> Result<Pin<'_>, StoreError> {
        let mut readers = lock(&self.readers);
        if version < readers.oldest {
            return Err(StoreError::Pruned { asked: version, oldest: readers.oldest });
        }
        *readers.pinned.entry(version).or_default() += 1;
        Ok(Pin { readers: &self.readers, version })
    }

    /// Keeps the oldest version; its number.
    pub(crate) fn pin_oldest(&self) -> (Version, Pin<'_>) {
        let mut readers = lock(&self.readers);
        let version = readers.oldest;
        *readers.pinned.entry(version).or_default() += 1;
        (version, Pin { readers: &self.readers, version })
    }

    /// Gives up the versions before `asked`, or before the oldest that is being read, and gives
    /// back what only they need. Reads the index of the oldest kept version.
    ///
    /// # Errors
    /// `Version` if `asked` is not there yet; `ReadOnly`; the disk's, after which the store must
    /// be opened again to prune.
    pub fn prune(&self, asked: Version) -> Result<Pruned, StoreError> {
        self.check_writable()?;
        let latest = self.tip().map(|tip| tip.version);
        if latest.is_none_or(|latest| asked > latest) {
            return Err(StoreError::Version { asked, latest });
        }
        let mut kept = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let manifest = kept.take().ok_or(StoreError::Poisoned)?;
        let oldest = {
            let mut readers = lock(&self.readers);
            let pinned = readers.pinned.first_key_value().map(|(version, _)| *version);
            readers.oldest = pinned.unwrap_or(asked).min(asked).max(readers.oldest);
            readers.oldest
        };
        let record = self.record(oldest)?;
        // No commit is being made meanwhile that still reads records of before.
        self.writer().floor = record.values_end;
        let [values, pages] = self.needed(&record)?;
        let mut next = Manifest { oldest, ..manifest };
        let mut pruned = Pruned { oldest, ..Pruned::default() };
        let [of_values, of_pages] = &mut next.generations;
        for (stream, needed, generations, end) in [
            (&self.values, &values, of_values, record.values_end),
            (&self.pages, &pages, of_pages, record.pages_end),
        ] {
            *generations = stream.generations();
            self.compact(stream, needed, end, generations, &mut pruned)?;
        }
        self.disk.sync_dir().map_err(failed("directory"))?;
        next.write::<H>(&*self.disk)?;
        let [of_values, of_pages] = next.generations.clone();
        let written = std::mem::take(&mut pruned.bytes);
        for (stream, generations, needed) in
            [(&self.values, of_values, values), (&self.pages, of_pages, pages)]
        {
            stream.switch(generations);
            let old = |segment, generation| {
                segment < needed.limit && generation != stream.generation(segment)
            };
            pruned.bytes += stream.delete(old)?;
        }
        pruned.bytes = pruned.bytes.saturating_sub(written);
        self.disk.sync_dir().map_err(failed("directory"))?;
        *kept = Some(next);
        Ok(pruned)
    }

    /// The records, values and pages, that a version's tree leads to.
    fn needed(&self, record: &CommitRecord) -> Result<[Needed; 2], StoreError> {
        let mut values = Needed::before(record.values_start);
        let mut pages = Needed::before(record.pages_start);
        let view = self.view(record.pages_end).passing();
        index::visit(&view, record.root_page, &index::ALL, &mut |loaded| {
            let mut at = loaded.links.newest;
            pages.add(at);
            while at != loaded.links.base {
                at = self
                    .pages
                    .with(at, record.pages_end, |body| previous(body).ok_or_else(|| no_base(at)))?;
                pages.add(at);
            }
            if let Page::Leaf(page) = &loaded.page {
                page.entries.iter().for_each(|entry| values.add(entry.at));
            }
            Ok(())
        })?;
        values.records.sort_unstable();
        pages.records.sort_unstable();
        Ok([values, pages])
    }

    /// Decides on each segment before the limit, and writes the compacted ones.
    fn compact(
        &self,
        stream: &Stream,
        needed: &Needed,
        end: Location,
        generations: &mut BTreeMap<u32, u32>,
        pruned: &mut Pruned,
    ) -> Result<(), StoreError> {
        for (name, segment, generation) in stream.files()? {
            if segment >= needed.limit || generation != stream.generation(segment) {
                continue;
            }
            let records = needed.of_segment(segment);
            if records.is_empty() {
                generations.insert(segment, DROPPED);
                pruned.dropped += 1;
                continue;
            }
            let file = self.disk.open(&name, Mode::Read).map_err(failed(&name))?;
            let len = file.len().map_err(failed(&name))?;
            let raw = |at: Location| stream.with_raw(at, end, |_, raw| Ok((at, raw.to_vec())));
            let (mut bytes, mut samples) = (0, 0);
            for at in records.iter().step_by(records.len().div_ceil(SAMPLES)) {
                bytes += raw(*at)?.1.len() as u64;
                samples += 1;
            }
            if bytes * records.len() as u64 / samples * NEEDED_PART >= len {
                continue;
            }
            let records = records.iter().map(|at| raw(*at)).collect::<Result<Vec<_>, _>>()?;
            let next = generation + 1;
            let bytes = compacted(stream.kind, segment, next, &records);
            let name = stream.kind.file(segment, next);
            let file = self.disk.open(&name, Mode::Create).map_err(failed(&name))?;
            file.write_at(0, &bytes).map_err(failed(&name))?;
            file.sync().map_err(failed(&name))?;
            generations.insert(segment, next);
            pruned.compacted += 1;
            pruned.bytes += bytes.len() as u64;
        }
        Ok(())
    }
}
