//! What a commit makes, in memory, and how it becomes durable.

use std::sync::PoisonError;

use crate::commitment::Committed;
use crate::commits::{CommitLog, CommitRecord};
use crate::disk::failed;
use crate::hash::{Hash, Hasher};
use crate::import::Ingested;
use crate::index;
use crate::letus::{Letus, Options, full};
use crate::location::Location;
use crate::manifest::Manifest;
use crate::page::{Chain, Entry};
use crate::proof::value_hash;
use crate::prune::Readers;
use crate::range::Range;
use crate::stream::{Appender, Kind, Piece};
use crate::tree::{Path, order, path_of};
use crate::trie::Tid;
use crate::update::{self, BaseRule, Change, Written};
use crate::values::{ValueRecord, jump_width};
use crate::{StoreError, Version};

/// A commit that is in memory only.
pub(crate) struct Pending {
    pub(crate) record: CommitRecord,
    range: Range,
    /// What the range has more than before.
    nodes: Vec<Hash>,
    values: Vec<Piece>,
    pages: Vec<Piece>,
    made: Written,
    replaced: Vec<Location>,
}

pub(crate) struct Writer {
    pub(crate) log: CommitLog,
    pub(crate) pending: Option<Pending>,
    pub(crate) poisoned: bool,
    /// Where the next frames go, if the last commit is of an earlier incarnation.
    pub(crate) fresh: Option<(Location, Location)>,
    /// Values before it may be pruned, but the newest of each key.
    pub(crate) floor: Location,
}

/// What a key had before a commit.
#[derive(Clone, Copy)]
struct Before {
    /// Number in its leaf page.
    number: usize,
    entry: Entry,
    chain: Chain,
    /// Where the next record of the key jumps to.
    next_jump: Option<Location>,
}

/// A write of a batch: trie, key, new value or none.
pub(crate) type Item<'a> = (Tid, &'a [u8], Option<&'a [u8]>);

/// An item with the path of its key and the hash of its value.
struct Hashed<'a> {
    path: Path,
    value_hash: Option<Hash>,
    item: Item<'a>,
}

/// Results of `work` on parts of `all`, each on a thread of its own, in their order.
fn in_parts<'a, T: Sync, R: Send>(
    all: &'a [T],
    workers: usize,
    work: impl Fn(&'a [T]) -> Result<Vec<R>, StoreError> + Sync,
) -> Result<Vec<R>, StoreError> {
    let mut parts = all.chunks(all.len().div_ceil(workers.max(1)).max(1));
    let first = parts.next().unwrap_or_default();
    let made: Vec<Result<Vec<R>, StoreError>> = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let first = work(first);
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        std::iter::once(first).chain(threads.into_iter().map(join)).collect()
    });
    let mut all = Vec::with_capacity(all.len());
    for made in made {
        all.extend(made?);
    }
    Ok(all)
}

impl<H: Hasher> Letus<H> {
    /// What each path had before, in their order.
    fn before(
        &self,
        (tip, floor): (&CommitRecord, Location),
        paths: &[Path],
    ) -> Result<Vec<Option<Before>>, StoreError> {
        let mut found = Vec::with_capacity(paths.len());
        index::find(&self.view(tip.pages_end), tip.root_page, paths, &mut |entry| {
            found.push(match entry {
                None => None,
                Some((number, entry)) => {
                    let chain = match entry.chain {
                        Some(chain) => chain,
                        None => self.value(tip, entry.at, Chain::of)?,
                    };
                    let next_jump = self.next_jump((tip, floor), entry.at, &chain)?;
                    Some(Before { number, entry: *entry, chain, next_jump })
                }
            });
            Ok(())
        })?;
        Ok(found)
    }

    /// Where the record after the one at `at`, which is chained so, jumps to.
    fn next_jump(
        &self,
        (tip, floor): (&CommitRecord, Location),
        at: Location,
        chain: &Chain,
    ) -> Result<Option<Location>, StoreError> {
        let length = u64::from(chain.length) + 1;
        match (jump_width(length), chain.jump) {
            (1, _) => Ok(Some(at)),
            (width, _) if width == length => Ok(None),
            // Two neighbours of the same width become one.
            (_, Some(_)) if chain.below.is_some() => Ok(chain.below),
            // Nobody goes there any more, so any place of before serves.
            (_, Some(jump)) if jump < floor => Ok(Some(jump)),
            (_, Some(jump)) => self.value(tip, jump, |record| record.jump),
            (_, None) => Err(StoreError::Corrupt(format!("values record at {at:?}: no jump"))),
        }
    }

    /// The batch by ascending path, of each key the last write.
    fn hashed<'a>(&self, batch: &[Item<'a>]) -> Result<Vec<Hashed<'a>>, StoreError> {
        let mut hashed = in_parts(batch, self.options.workers, |part| {
            let hash = |item: &Item<'a>| Hashed {
                path: path_of::<H>(item.0, item.1),
                value_hash: item.2.map(value_hash::<H>),
                item: *item,
            };
            Ok(part.iter().map(hash).collect())
        })?;
        hashed.reverse();
        hashed.sort_by(|a, b| order(&a.path, &b.path));
        hashed.dedup_by(|a, b| a.path == b.path);
        Ok(hashed)
    }

    /// The commit of `version` in memory.
    pub(crate) fn make(
        &self,
        writer: &Writer,
        version: Version,
        batch: &[Item<'_>],
    ) -> Result<Pending, StoreError> {
        let tip = self.tip();
        let hashed = self.hashed(batch)?;
        let paths: Vec<Path> = hashed.iter().map(|write| write.path).collect();
        let before = match &tip {
            Some(tip) => in_parts(&paths, self.options.workers, |part| {
                self.before((tip, writer.floor), part)
            })?,
            None => vec![None; paths.len()],
        };
        let (values_end, pages_end) = match (&tip, writer.fresh) {
            (_, Some(fresh)) => fresh,
            (Some(tip), None) => (tip.values_end, tip.pages_end),
            (None, None) => Default::default(),
        };
        let appender =
            |kind, end| Appender::new(kind, self.incarnation, self.options.segment_bytes, end);
        let mut values = appender(Kind::Values, values_end);
        let changes = append_values(&mut values, version, &hashed, &before)?;
        let (values, values_end_new, values_digest) = values.finish();

        let mut pages = appender(Kind::Pages, pages_end);
        let (mut made, mut replaced) = (Written::new(), Vec::new());
        let (root, root_page) = match &tip {
            Some(tip) if changes.is_empty() => (tip.root, tip.root_page),
            _ => {
                let view = self.view(tip.map(|tip| tip.pages_end).unwrap_or_default());
                let root = tip.map(|tip| tip.root_page);
                let rule = self.rule(writer.floor);
                let workers = self.options.workers;
                let index;
                (index, replaced) = update::apply::<H>(&view, root, &changes, rule, workers)?;
                let sub = index.sub();
                let at = index.write(&mut pages, version, rule, &mut made)?;
                (sub.hash(), at)
            }
        };
        let (pages, pages_end_new, pages_digest) = pages.finish();

        let mut range = writer.log.range().clone();
        let mut nodes = Vec::new();
        if let Some(tip) = &tip {
            nodes.push(tip.commitment.0);
            nodes.extend(range.push::<H>(tip.commitment.0));
        }
        let committed =
            Committed { version, earlier: range.count(), root, range: range.root::<H>() };
        let record = CommitRecord {
            incarnation: self.incarnation,
            number: range.count(),
            version,
            root,
            commitment: committed.commitment::<H>(),
            range: committed.range,
            root_page,
            values_start: values_end,
            values_end: values_end_new.ok_or_else(|| full("values"))?,
            pages_start: pages_end,
            pages_end: pages_end_new.ok_or_else(|| full("pages"))?,
            digests: [values_digest, pages_digest],
            before: writer.log.last(),
        };
        Ok(Pending { record, range, nodes, values, pages, made, replaced })
    }

    /// Writes pairs, none of which is there, to a version that is not yet committed.
    pub(crate) fn ingest(
        &self,
        version: Version,
        batch: &[Item<'_>],
        Ingested { root, ends: [values_end, pages_end] }: Ingested,
    ) -> Result<Ingested, StoreError> {
        let appender =
            |kind, end| Appender::new(kind, self.incarnation, self.options.segment_bytes, end);
        let hashed = self.hashed(batch)?;
        let mut values = appender(Kind::Values, values_end);
        let before = vec![None; hashed.len()];
        let changes = append_values(&mut values, version, &hashed, &before)?;
        let (values, values_end, _) = values.finish();
        let rule = self.rule(Location::default());
        let (view, workers) = (self.view(pages_end), self.options.workers);
        let root = root.map(|(_, at)| at);
        let (index, replaced) = update::apply::<H>(&view, root, &changes, rule, workers)?;
        let sub = index.sub();
        let (mut pages, mut made) = (appender(Kind::Pages, pages_end), Written::new());
        let at = index.write(&mut pages, version, rule, &mut made)?;
        let (pages, pages_end, _) = pages.finish();
        self.values.write(&values)?;
        self.pages.write(&pages)?;
        self.publish(replaced, made);
        let ends =
            [values_end.ok_or_else(|| full("values"))?, pages_end.ok_or_else(|| full("pages"))?];
        Ok(Ingested { root: Some((sub.hash(), at)), ends })
    }

    /// Makes an imported version the store's first one.
    pub(crate) fn begin_at(&self, record: CommitRecord, range: Range) -> Result<(), StoreError> {
        let mut kept = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let manifest = kept.take().ok_or(StoreError::Poisoned)?;
        let manifest = Manifest { oldest: record.version, ..manifest };
        manifest.write::<H>(&*self.disk)?;
        let mut writer = self.writer();
        writer.log.begin(&record, range)?;
        writer.fresh = None;
        writer.floor = record.values_end;
        *kept = Some(manifest);
        *self.readers.lock().unwrap_or_else(PoisonError::into_inner) = Readers::of(record.version);
        *self.latest.write().unwrap_or_else(PoisonError::into_inner) = Some(record);
        Ok(())
    }

    fn rule(&self, floor: Location) -> BaseRule {
        let Options { base_ratio, deltas_max, .. } = self.options;
        BaseRule { ratio: base_ratio.into(), deltas: deltas_max.into(), floor }
    }

    /// Puts the pages of a commit into the cache.
    fn publish(&self, replaced: Vec<Location>, made: Written) {
        let mut cache = self.cache();
        replaced.into_iter().for_each(|at| cache.remove(at));
        for (at, made) in made {
            if let Some(page) = made.page() {
                cache.put(at, page);
            }
        }
    }

    /// Makes a commit durable, then visible.
    pub(crate) fn write(&self, writer: &mut Writer, pending: Pending) -> Result<(), StoreError> {
        let (values, pages) = std::thread::scope(|scope| {
            let values = scope.spawn(|| self.values.write(&pending.values));
            let pages = self.pages.write(&pending.pages);
            let values = values.join();
            (values.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), pages)
        });
        // Not `||` alone: both results count.
        let created = values? | pages?;
        writer.log.write_range(&pending.nodes)?;
        if created {
            self.disk.sync_dir().map_err(failed("directory"))?;
        }
        writer.log.append(&pending.record, pending.range)?;
        writer.fresh = None;
        self.publish(pending.replaced, pending.made);
        *self.latest.write().unwrap_or_else(PoisonError::into_inner) = Some(pending.record);
        Ok(())
    }
}

impl Chain {
    /// How a record is chained.
    fn of(record: ValueRecord<'_>) -> Self {
        Self { length: record.length, jump: record.jump, below: None }
    }
}

fn chain_full() -> StoreError {
    StoreError::Backend("values: a key has changed 2^32 times".into())
}

/// Appends the records of what really changes, and returns their keys' new entries.
fn append_values(
    values: &mut Appender,
    version: Version,
    hashed: &[Hashed<'_>],
    before: &[Option<Before>],
) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::with_capacity(hashed.len());
    let mut subtree = None;
    for (Hashed { path, value_hash, item: (tid, key, value) }, before) in hashed.iter().zip(before)
    {
        if before.and_then(|before| before.entry.value) == *value_hash {
            continue;
        }
        let first = path.first().copied();
        if subtree != first {
            values.frame(version, first.unwrap_or_default());
            subtree = first;
        }
        let record = ValueRecord {
            version,
            tid: *tid,
            key,
            length: before
                .map_or(Some(1), |b| b.chain.length.checked_add(1))
                .ok_or_else(chain_full)?,
            prev: before.map(|before| before.entry.at),
            jump: before.and_then(|before| before.next_jump),
            value: *value,
        };
        let (at, _) = values.encode(|out| record.encode(out)).ok_or_else(|| full("values"))?;
        // What it jumps to is known to jump somewhere if it is the record just before.
        let below = before.filter(|_| record.jump == record.prev).and_then(|b| b.chain.jump);
        let chain = Some(Chain { length: record.length, jump: record.jump, below });
        let entry = Entry { path: *path, value: *value_hash, at, chain };
        changes.push(Change { entry, number: before.map(|before| before.number) });
    }
    Ok(changes)
}
