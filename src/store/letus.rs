//! The LETUS engine (SIGMOD 2024, and store.md): a versioned, authenticated, log-structured store.
//!
//! | file | what |
//! |---|---|
//! | `manifest` | format, scheme, incarnation; replaced at each opening |
//! | `values-N.G` | segments of value records ([`crate::values`]) |
//! | `pages-N.G` | segments of page records ([`crate::page`]) |
//! | `commits`, `range` | the commit log ([`crate::commits`]) |
//! | `lock` | locked while the store is open |
//!
//! Crash story: [`Store::commit`] writes nothing. [`Store::persist`] appends the frames of both
//! streams and the range's nodes and syncs them, then the names of new files, then writes and syncs
//! the commit record. A crash before that leaves bytes that no record names; they are never read.
//! An opening starts new segments, so that nothing of an earlier incarnation is ever overwritten,
//! and deletes the segments that no commit names.

use std::path::Path as FsPath;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::batch_proof;
use crate::cache::Cache;
use crate::commitment::StateProof;
use crate::commits::{CommitFiles, CommitLog, CommitRecord, OpenReport};
use crate::disk::{Access, Disk, FileDisk, ReadOnly, failed};
use crate::hash::{Blake3, Hasher};
use crate::index::Pages;
use crate::location::Location;
use crate::manifest::Manifest;
use crate::page::{DELTAS_MAX, Loaded};
use crate::page_record::load;
use crate::proof::value_hash;
use crate::prune::{Pin, Readers};
use crate::stream::{Kind, Stream};
use crate::tree::{Path, path_of};
use crate::trie::{DEFAULT_TRIE, Tid};
use crate::values::ValueRecord;
use crate::writer::{Item, Writer};
use crate::{
    Change, Commitment, EachChange, ProofError, Proven, Store, StoreError, Version, Write,
    check_lengths, check_next,
};

/// How a store works. No option changes a root.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bytes for pages in memory.
    pub cache_bytes: u64,
    /// Threads of a commit.
    pub workers: usize,
    /// Bytes after which a segment is full.
    pub segment_bytes: u32,
    /// A page gets a new base when its deltas have so many times the base's bytes.
    pub base_ratio: u32,
    /// A page gets a new base when it has so many deltas.
    pub deltas_max: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            segment_bytes: 64 << 20,
            base_ratio: 2,
            deltas_max: 32,
        }
    }
}

/// The store.
pub struct Letus<H: Hasher = Blake3> {
    pub(crate) disk: Arc<dyn Disk>,
    _lock: Box<dyn Send + Sync>,
    pub(crate) values: Stream,
    pub(crate) pages: Stream,
    pub(crate) commits: CommitFiles,
    pub(crate) cache: Mutex<Cache>,
    pub(crate) latest: RwLock<Option<CommitRecord>>,
    writer: Mutex<Writer>,
    pub(crate) options: Options,
    pub(crate) incarnation: u32,
    /// None after a failed pruning.
    pub(crate) manifest: Mutex<Option<Manifest>>,
    pub(crate) readers: Mutex<Readers>,
    report: OpenReport,
    access: Access,
    hasher: std::marker::PhantomData<H>,
}

pub(crate) fn full(stream: &str) -> StoreError {
    StoreError::Backend(format!("{stream}: no segment is left"))
}

/// The pages of the store, through the cache.
pub(crate) struct View<'a, H> {
    cache: &'a Mutex<Cache>,
    stream: &'a Stream,
    end: Location,
    cached: Cached,
    hasher: std::marker::PhantomData<H>,
}

/// How a view uses the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cached {
    /// For reads and writes.
    Yes,
    /// For one who reads everything once.
    Found,
    /// For one who does not believe what is in memory.
    No,
}

impl<H> View<'_, H> {
    /// Does not keep what it reads.
    pub(crate) fn passing(self) -> Self {
        Self { cached: Cached::Found, ..self }
    }

    /// Reads everything from the disk.
    pub(crate) fn uncached(self) -> Self {
        Self { cached: Cached::No, ..self }
    }
}

impl<H: Hasher> Pages for View<'_, H> {
    fn page(&self, newest: Location, prefix: &Path) -> Result<Arc<Loaded>, StoreError> {
        let cache = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if self.cached != Cached::No
            && let Some(page) = cache().get(newest)
        {
            return Ok(page);
        }
        let page = Arc::new(load(
            newest,
            prefix,
            |at| self.stream.read(at, self.end),
            |at, what| StoreError::Corrupt(format!("pages record at {at:?}: {what}")),
        )?);
        if self.cached == Cached::Yes {
            cache().put(newest, Arc::clone(&page));
        }
        Ok(page)
    }
}

impl Letus {
    /// Opens the store in `dir`, or makes an empty one where nothing is, with BLAKE3.
    ///
    /// # Errors
    /// See [`Letus::open_on`].
    pub fn open(dir: &FsPath, options: Options) -> Result<Self, StoreError> {
        let disk = FileDisk::new(dir).map_err(failed(&dir.display().to_string()))?;
        Self::open_on(Arc::new(disk), dir, options)
    }

    /// Opens the store that is in `dir` to be read: nothing on the disk changes but the lock. What
    /// an opening would repair or cut is only reported.
    ///
    /// # Errors
    /// See [`Letus::open_on`].
    pub fn open_to_read(dir: &FsPath, options: Options) -> Result<Self, StoreError> {
        if !dir.is_dir() {
            return Err(StoreError::Missing { path: dir.to_owned() });
        }
        let disk = FileDisk::new(dir).map_err(failed(&dir.display().to_string()))?;
        Self::open_disk(Arc::new(ReadOnly(Arc::new(disk))), dir, options, Access::Read)
    }
}

impl<H: Hasher> Letus<H> {
    /// Opens the store on a disk; `dir` names it in errors.
    ///
    /// # Errors
    /// `Locked`, `Foreign`, `Corrupt` with its place, or the disk's.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        dir: &FsPath,
        options: Options,
    ) -> Result<Self, StoreError> {
        Self::open_disk(disk, dir, options, Access::Write)
    }

    fn open_disk(
        disk: Arc<dyn Disk>,
        dir: &FsPath,
        options: Options,
        access: Access,
    ) -> Result<Self, StoreError> {
        let lock = disk.lock().map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => StoreError::Locked { path: dir.to_owned() },
            _ => failed("lock")(error),
        })?;
        let mut manifest = match access {
            Access::Write => Manifest::next::<H>(&*disk, dir)?,
            Access::Read => Manifest::read::<H>(&*disk, dir)?
                .ok_or_else(|| StoreError::Missing { path: dir.to_owned() })?,
        };
        let (log, latest, report) = CommitLog::open::<H>(&*disk, manifest.oldest, access)?;
        if latest.is_none() && manifest.oldest > 0 && manifest.is_unpruned() {
            // An import that did not end.
            manifest.oldest = 0;
            if access == Access::Write {
                manifest.write::<H>(&*disk)?;
            }
        }
        if latest.map_or(0, |record| record.version) < manifest.oldest {
            let oldest = manifest.oldest;
            let what = format!("commits: it ends before version {oldest}, the oldest kept");
            return Err(StoreError::Corrupt(what));
        }
        let ends = latest.map(|record| (record.values_end, record.pages_end));
        let (values, pages) = streams(&disk, &manifest, ends, access)?;
        if let Some(last) = &latest {
            check_frames(&values, &pages, last)?;
        }
        let floor = match manifest.oldest {
            0 => Location::default(),
            oldest => log.files().read(oldest)?.values_end,
        };
        let after = |end: Location| Location::new(end.segment() + 1, 0);
        let fresh = match ends {
            None => Default::default(),
            Some((values, pages)) => (
                after(values).ok_or_else(|| full("values"))?,
                after(pages).ok_or_else(|| full("pages"))?,
            ),
        };
        Ok(Self {
            values,
            pages,
            commits: log.files(),
            cache: Mutex::new(Cache::new(options.cache_bytes)),
            latest: RwLock::new(latest),
            writer: Mutex::new(Writer {
                log,
                pending: None,
                poisoned: false,
                fresh: Some(fresh),
                floor,
            }),
            options: Options { deltas_max: options.deltas_max.min(DELTAS_MAX), ..options },
            incarnation: manifest.incarnation,
            readers: Mutex::new(Readers::of(manifest.oldest)),
            manifest: Mutex::new(Some(manifest)),
            report,
            access,
            disk,
            _lock: lock,
            hasher: std::marker::PhantomData,
        })
    }

    /// [`Store::commit`] of writes to any tries. Of several writes of one key of a trie the last
    /// counts.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub fn commit_tries(
        &self,
        version: Version,
        batch: &[(Tid, Write)],
    ) -> Result<Commitment, StoreError> {
        let items = batch.iter().map(|(tid, (key, value))| (*tid, &key[..], value.as_deref()));
        self.commit_items(version, items.collect())
    }

    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        if self.access == Access::Read { Err(StoreError::ReadOnly) } else { Ok(()) }
    }

    fn commit_items(
        &self,
        version: Version,
        batch: Vec<Item<'_>>,
    ) -> Result<Commitment, StoreError> {
        self.check_writable()?;
        let mut writer = self.writer();
        if writer.poisoned {
            return Err(StoreError::Poisoned);
        }
        writer.pending = None;
        check_next(version, self.tip().map(|tip| tip.version))?;
        for (_, key, value) in &batch {
            check_lengths(key, *value)?;
        }
        let pending = self.make(&writer, version, &batch)?;
        let commitment = pending.record.commitment;
        writer.pending = Some(pending);
        Ok(commitment)
    }

    /// What the opening found.
    pub fn open_report(&self) -> &OpenReport {
        &self.report
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tip(&self) -> Option<CommitRecord> {
        *self.latest.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its pages; none begins at `end` or after it.
    pub(crate) fn view(&self, end: Location) -> View<'_, H> {
        View {
            cache: &self.cache,
            stream: &self.pages,
            end,
            cached: Cached::Yes,
            hasher: std::marker::PhantomData,
        }
    }

    /// The commit of a version.
    pub(crate) fn record(&self, version: Version) -> Result<CommitRecord, StoreError> {
        match self.tip() {
            Some(tip) if version == tip.version => Ok(tip),
            Some(tip) if version < tip.version => self.commits.read(version),
            tip => Err(StoreError::Version { asked: version, latest: tip.map(|tip| tip.version) }),
        }
    }

    /// Keeps a version for a read; the newest commit, and that of the version.
    pub(crate) fn at(
        &self,
        version: Version,
    ) -> Result<(Pin<'_>, CommitRecord, CommitRecord), StoreError> {
        let asked = StoreError::Version { asked: version, latest: None };
        let pin = self.pin(version)?;
        let tip = self.tip().ok_or(asked)?;
        Ok((pin, tip, self.record(version)?))
    }

    /// What `each` makes of the value record at a place.
    pub(crate) fn value<T>(
        &self,
        tip: &CommitRecord,
        at: Location,
        each: impl FnOnce(ValueRecord<'_>) -> T,
    ) -> Result<T, StoreError> {
        self.values.with(at, tip.values_end, |body| ValueRecord::decode(at, body).map(each))
    }
}

/// The two streams, without the segments that no commit names.
fn streams(
    disk: &Arc<dyn Disk>,
    manifest: &Manifest,
    ends: Option<(Location, Location)>,
    access: Access,
) -> Result<(Stream, Stream), StoreError> {
    let [of_values, of_pages] = manifest.generations.clone();
    let values = Stream::new(Arc::clone(disk), Kind::Values, of_values);
    let pages = Stream::new(Arc::clone(disk), Kind::Pages, of_pages);
    if access == Access::Write {
        let ends = [(&values, ends.map(|ends| ends.0)), (&pages, ends.map(|ends| ends.1))];
        for (stream, end) in ends {
            stream.delete(|segment, generation| {
                let after = end.is_none_or(|end| segment > end.segment());
                after || generation != stream.generation(segment)
            })?;
        }
        disk.sync_dir().map_err(failed("directory"))?;
    }
    Ok((values, pages))
}

/// Checks a commit's frames against its record.
fn check_frames(values: &Stream, pages: &Stream, record: &CommitRecord) -> Result<(), StoreError> {
    let mut all = |_: Location, _: &[u8]| Ok(());
    let found = [
        values.records(record.values_start, record.values_end, &mut all)?,
        pages.records(record.pages_start, record.pages_end, &mut all)?,
    ];
    if found == record.digests {
        return Ok(());
    }
    Err(StoreError::Corrupt(format!(
        "frames of version {} from {:?} and {:?} on: not those that were committed",
        record.version, record.values_start, record.pages_start
    )))
}

impl<H: Hasher> Store for Letus<H> {
    fn scheme(&self) -> &'static str {
        H::SCHEME
    }

    fn latest(&self) -> Option<(Version, Commitment)> {
        self.tip().map(|tip| (tip.version, tip.commitment))
    }

    fn commit(&self, version: Version, batch: &[Write]) -> Result<Commitment, StoreError> {
        let items = batch.iter().map(|(key, value)| (DEFAULT_TRIE, &key[..], value.as_deref()));
        self.commit_items(version, items.collect())
    }

    fn persist(&self, version: Version) -> Result<(), StoreError> {
        let mut writer = self.writer();
        if writer.poisoned {
            return Err(StoreError::Poisoned);
        }
        let Some(pending) = writer.pending.take_if(|pending| pending.record.version == version)
        else {
            let latest = self.tip().map(|tip| tip.version);
            return Err(StoreError::Version { asked: version, latest });
        };
        let written = self.write(&mut writer, pending);
        writer.poisoned = written.is_err();
        written
    }

    fn discard(&self) {
        self.writer().pending = None;
    }

    fn newest(&self, version: Version, key: &[u8]) -> Result<Option<Change>, StoreError> {
        self.trie(DEFAULT_TRIE).newest(version, key)
    }

    fn prove(&self, version: Version, key: &[u8]) -> Result<Proven, StoreError> {
        self.trie(DEFAULT_TRIE).prove(version, key)
    }

    fn changes(
        &self,
        from: Version,
        to: Version,
        each: &mut EachChange<'_>,
    ) -> Result<(), StoreError> {
        self.trie(DEFAULT_TRIE).changes(from, to, each)
    }

    fn scan(
        &self,
        version: Version,
        prefix: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        self.trie(DEFAULT_TRIE).scan(version, prefix, each)
    }
}

/// Checks a proof that a key has a value (none: is absent) in the state that `commitment` commits
/// to; see [`crate::verify`].
///
/// # Errors
/// If it is none, or one of an older version.
pub fn verify<H: Hasher>(
    commitment: Commitment,
    key: &[u8],
    value: Option<&[u8]>,
    proof: &[u8],
) -> Result<(), ProofError> {
    let proof = StateProof::decode(proof)?;
    if proof.anchor.later.is_some() {
        return Err(ProofError::Invalid("it is about an older version".into()));
    }
    proof.verify::<H>(commitment, &path_of::<H>(DEFAULT_TRIE, key), value).map(drop)
}

/// Checks a proof of [`Trie::prove_at`] that a key of a trie had a value (none: was absent) at some
/// version of the history that `commitment` ends, and returns that version.
///
/// # Errors
/// If it is none.
///
/// [`Trie::prove_at`]: crate::trie::Trie::prove_at
pub fn verify_at<H: Hasher>(
    commitment: Commitment,
    (tid, key): (Tid, &[u8]),
    value: Option<&[u8]>,
    proof: &[u8],
) -> Result<Version, ProofError> {
    StateProof::decode(proof)?.verify::<H>(commitment, &path_of::<H>(tid, key), value)
}

/// Checks a proof of [`Trie::prove_many`] that keys of a trie had these values (none: were absent)
/// at some version of the history that `commitment` ends, and returns that version.
///
/// # Errors
/// If it is none.
///
/// [`Trie::prove_many`]: crate::trie::Trie::prove_many
pub fn verify_many<H: Hasher>(
    commitment: Commitment,
    tid: Tid,
    pairs: &[(&[u8], Option<&[u8]>)],
    proof: &[u8],
) -> Result<Version, ProofError> {
    let claim = |(key, value): &(&[u8], Option<&[u8]>)| {
        (path_of::<H>(tid, key), value.map(value_hash::<H>))
    };
    let mut claims: Vec<_> = pairs.iter().map(claim).collect();
    claims.sort_unstable();
    claims.dedup();
    if claims.array_windows().any(|[(a, _), (b, _)]| a == b) {
        return Err(ProofError::Invalid("a key is said to have two values".into()));
    }
    let (root, anchor) = batch_proof::read::<H>(proof, &claims)?;
    anchor.verify::<H>(commitment, root)
}
