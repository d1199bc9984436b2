//! The commit log and the range of commitments.
//!
//! File `commits`: record n, 512 bytes, at `n / 8 * 8192 + n % 8 * 512` and again 4 KiB further, so
//! that no sector holds two records and a damaged one can be read from its copy. The file grows by
//! zeros. Numbers are little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | magic `LTSC` |
//! | 4 | incarnation |
//! | 8, 8 | number n of the record, version |
//! | 32, 32, 32 | root of the tree, commitment, root of the range of earlier commitments |
//! | 6 | location of the root page |
//! | 6, 6 | start and end of the version's values |
//! | 6, 6 | start and end of its pages |
//! | 4, 4 | digests of its frames in `values` and `pages` |
//! | 4 | checksum of record n - 1 |
//! | 4 | CRC-32C of all bytes before |
//!
//! File `range`: the nodes of the Merkle mountain range ([`crate::range`]) in postorder, 32 bytes
//! each; record n needs those of the n commitments before it.
//!
//! Crash story: a record is written after everything that it names is synced, the next one after it
//! is synced. So at most one record, the last, may be torn, and was never acknowledged.

use std::sync::Arc;

use crate::bytes::take_array;
use crate::commitment::Committed;
use crate::disk::{Access, Disk, DiskFile, Mode, failed};
use crate::hash::{Hash, Hasher};
use crate::location::Location;
use crate::range::Range;
use crate::{Commitment, StoreError, Version};

const COMMITS: &str = "commits";
const RANGE: &str = "range";
const MAGIC: [u8; 4] = *b"LTSC";
/// Bytes of a record in its sector.
const RECORD: usize = 512;
/// Distance of the copies.
const COPY: u64 = 4_096;
/// Records of a block of originals and copies.
const GROUP: u64 = COPY / RECORD as u64;
/// By how much the file grows.
const GROWTH: u64 = 1 << 20;

/// What a commit consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitRecord {
    /// Which opening of the store wrote it.
    pub incarnation: u32,
    /// How many commits came before.
    pub number: u64,
    /// Its version.
    pub version: Version,
    /// Root of the tree.
    pub root: Hash,
    /// The commitment.
    pub commitment: Commitment,
    /// Root of the range of earlier commitments.
    pub range: Hash,
    /// The root page.
    pub root_page: Location,
    /// Start of its values.
    pub values_start: Location,
    /// End of its values.
    pub values_end: Location,
    /// Start of its pages.
    pub pages_start: Location,
    /// End of its pages.
    pub pages_end: Location,
    /// Digests of its frames, values and pages.
    pub digests: [u32; 2],
    /// Checksum of the record before.
    pub before: u32,
}

impl CommitRecord {
    /// What its commitment hashes.
    pub fn committed(&self) -> Committed {
        let Self { version, number: earlier, root, range, .. } = *self;
        Committed { version, earlier, root, range }
    }

    fn encode(&self) -> ([u8; RECORD], u32) {
        let mut fields = Vec::with_capacity(RECORD);
        fields.extend_from_slice(&MAGIC);
        fields.extend_from_slice(&self.incarnation.to_le_bytes());
        fields.extend_from_slice(&self.number.to_le_bytes());
        fields.extend_from_slice(&self.version.to_le_bytes());
        fields.extend_from_slice(&self.root);
        fields.extend_from_slice(&self.commitment.0);
        fields.extend_from_slice(&self.range);
        fields.extend_from_slice(&self.root_page.to_bytes());
        for location in [self.values_start, self.values_end, self.pages_start, self.pages_end] {
            fields.extend_from_slice(&location.to_bytes());
        }
        for number in [self.digests[0], self.digests[1], self.before] {
            fields.extend_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c(&fields);
        fields.extend_from_slice(&crc.to_le_bytes());
        let mut out = [0; RECORD];
        for (byte, field) in out.iter_mut().zip(&fields) {
            *byte = *field;
        }
        (out, crc)
    }

    /// The record and its checksum; none if the bytes are no record.
    fn decode(bytes: &[u8; RECORD]) -> Option<(Self, u32)> {
        let rest = &mut &bytes[..];
        if take_array(rest)? != MAGIC {
            return None;
        }
        let record = Self {
            incarnation: u32::from_le_bytes(take_array(rest)?),
            number: u64::from_le_bytes(take_array(rest)?),
            version: u64::from_le_bytes(take_array(rest)?),
            root: take_array(rest)?,
            commitment: Commitment(take_array(rest)?),
            range: take_array(rest)?,
            root_page: Location::from_bytes(take_array(rest)?),
            values_start: Location::from_bytes(take_array(rest)?),
            values_end: Location::from_bytes(take_array(rest)?),
            pages_start: Location::from_bytes(take_array(rest)?),
            pages_end: Location::from_bytes(take_array(rest)?),
            digests: [u32::from_le_bytes(take_array(rest)?), u32::from_le_bytes(take_array(rest)?)],
            before: u32::from_le_bytes(take_array(rest)?),
        };
        let (again, crc) = record.encode();
        // The checksum, and zeros after it.
        (again == *bytes).then_some((record, crc))
    }
}

/// A record, with what was wrong with its copies.
#[derive(Debug)]
struct Found {
    record: CommitRecord,
    crc: u32,
    /// Offset of a copy that must be written again.
    damaged: Option<u64>,
}

/// What opening has found out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Number of a commit that was never acknowledged and is cut off.
    pub cut: Option<u64>,
    /// Number of a commit of whose record one copy was damaged and is repaired, if the store was
    /// opened for writing.
    pub repaired: Option<u64>,
}

/// The files, for readers.
#[derive(Clone)]
pub struct CommitFiles {
    commits: Arc<dyn DiskFile>,
    range: Arc<dyn DiskFile>,
}

/// The log, for the writer.
pub struct CommitLog {
    files: CommitFiles,
    /// Bytes of `commits`.
    size: u64,
    /// Checksum of the last record.
    last: u32,
    /// The last record's range.
    range: Range,
}

fn offset(number: u64) -> u64 {
    number / GROUP * 2 * COPY + number % GROUP * RECORD as u64
}

/// Level and index of the peaks of the range of `count` commitments, largest first.
fn peaks(count: u64) -> impl Iterator<Item = (u32, u64)> {
    let mut start = 0;
    (0..64).rev().filter(move |level| count >> level & 1 == 1).map(move |level| {
        let index = start >> level;
        start += 1 << level;
        (level, index)
    })
}

/// Place of a perfect tree's root in the postorder of the range: level and index.
fn node_place(level: u32, index: u64) -> u64 {
    let last = ((index + 1) << level) - 1;
    2 * last - u64::from(last.count_ones()) + u64::from(level)
}

fn read_node(file: &dyn DiskFile, level: u32, index: u64) -> Result<Hash, StoreError> {
    let mut hash = [0; 32];
    file.read_at(node_place(level, index) * 32, &mut hash).map_err(failed(RANGE))?;
    Ok(hash)
}

/// Looks for record `number` in a file of `size` bytes.
fn look(file: &dyn DiskFile, size: u64, number: u64) -> Result<Option<Found>, StoreError> {
    let mut found: Option<Found> = None;
    let mut damaged = None;
    for at in [offset(number), offset(number) + COPY] {
        let mut bytes = [0; RECORD];
        if at + RECORD as u64 > size {
            damaged = Some(at);
            continue;
        }
        file.read_at(at, &mut bytes).map_err(failed(COMMITS))?;
        match CommitRecord::decode(&bytes) {
            Some((record, crc)) if record.number == number => {
                found = found.or(Some(Found { record, crc, damaged: None }));
            }
            _ => damaged = Some(at),
        }
    }
    Ok(found.map(|found| Found { damaged, ..found }))
}

impl CommitFiles {
    /// Record `number`, which was committed.
    pub fn read(&self, number: u64) -> Result<CommitRecord, StoreError> {
        let mut first = [0; RECORD];
        if self.commits.read_at(offset(number), &mut first).is_ok()
            && let Some((record, _)) = CommitRecord::decode(&first)
            && record.number == number
        {
            return Ok(record);
        }
        let size = self.commits.len().map_err(failed(COMMITS))?;
        let found = look(&*self.commits, size, number)?;
        found
            .map(|found| found.record)
            .ok_or_else(|| StoreError::Corrupt(format!("{COMMITS}: record {number} is broken")))
    }

    /// The siblings of commitment `index` among the first `count`.
    pub fn path<H: Hasher>(&self, index: u64, count: u64) -> Result<Vec<Hash>, StoreError> {
        crate::range::path::<H, _>(index, count, |level, i| read_node(&*self.range, level, i))
    }

    pub(crate) fn read_range(&self, count: u64) -> Result<Range, StoreError> {
        let read = |(level, index)| read_node(&*self.range, level, index);
        let peaks = peaks(count).map(read).collect::<Result<_, _>>()?;
        Range::from_parts(count, peaks).ok_or_else(|| StoreError::Corrupt(RANGE.into()))
    }
}

impl CommitLog {
    /// Opens the log, or makes an empty one, and returns the last commit. Nothing before `oldest`
    /// need be there. For reading only nothing is made or repaired.
    ///
    /// # Errors
    /// `Corrupt` if a record is broken that a later one follows, or the range does not lead to the
    /// last record's.
    pub fn open<H: Hasher>(
        disk: &dyn Disk,
        oldest: Version,
        access: Access,
    ) -> Result<(Self, Option<CommitRecord>, OpenReport), StoreError> {
        let names = disk.list().map_err(failed(COMMITS))?;
        let file = |name: &str| {
            let there = names.iter().any(|other| other == name);
            let mode = match access {
                Access::Write if !there => Mode::Create,
                _ => Mode::Write,
            };
            disk.open(name, mode).map_err(failed(name))
        };
        let files = CommitFiles { commits: file(COMMITS)?, range: file(RANGE)? };
        let commits = &files.commits;
        let size = commits.len().map_err(failed(COMMITS))?;
        let mut report = OpenReport::default();
        let slots = size.div_ceil(2 * COPY) * GROUP;
        let mut last = None;
        for number in (0..slots).rev() {
            last = look(&**commits, size, number)?;
            if last.is_some() {
                break;
            }
        }
        let mut log = Self { files, size, last: 0, range: Range::default() };
        let Some(Found { record, crc, damaged }) = last else {
            log.is_new(oldest > 0, access)?;
            return Ok((log, None, report));
        };
        if let Some(before) = record.number.checked_sub(1).filter(|_| record.version > oldest) {
            let there = look(&*log.files.commits, size, before)?;
            if there.is_none_or(|found| found.crc != record.before) {
                return Err(StoreError::Corrupt(format!(
                    "{COMMITS}: record {before} at {} is broken, but {} follows it",
                    offset(before),
                    record.number
                )));
            }
        }
        if let Some(at) = damaged {
            report.repaired = Some(record.number);
            if access == Access::Write {
                log.files.commits.write_at(at, &record.encode().0).map_err(failed(COMMITS))?;
            }
        }
        // Written, but never acknowledged: whatever is in the next slot is overwritten.
        let mut next = [0; RECORD];
        let after = offset(record.number + 1);
        if after + RECORD as u64 <= size {
            log.files.commits.read_at(after, &mut next).map_err(failed(COMMITS))?;
            report.cut = next.iter().any(|byte| *byte != 0).then_some(record.number + 1);
        }
        if access == Access::Write {
            log.files.commits.sync().map_err(failed(COMMITS))?;
            log.files.range.sync().map_err(failed(RANGE))?;
        }
        log.last = crc;
        log.range = log.files.read_range(record.number)?;
        if log.range.root::<H>() != record.range {
            return Err(StoreError::Corrupt(format!(
                "{RANGE}: it does not lead to commit {}",
                record.number
            )));
        }
        Ok((log, Some(record), report))
    }

    /// An empty log is that of a new store, or of an import that did not end, not one that was
    /// lost: the range has nodes from the second commit on, or from an import's end on.
    fn is_new(&self, importing: bool, access: Access) -> Result<(), StoreError> {
        let range = &self.files.range;
        if range.len().map_err(failed(RANGE))? == 0 {
            return Ok(());
        }
        if !importing {
            return Err(StoreError::Corrupt(format!("{COMMITS}: its records are lost")));
        }
        if access == Access::Read {
            return Ok(());
        }
        range.truncate(0).map_err(failed(RANGE))?;
        range.sync().map_err(failed(RANGE))
    }

    /// The files.
    pub fn files(&self) -> CommitFiles {
        self.files.clone()
    }

    /// The range of the commitments before the last.
    pub fn range(&self) -> &Range {
        &self.range
    }

    /// Checksum of the last record.
    pub fn last(&self) -> u32 {
        self.last
    }

    /// Writes the nodes that `range` has beyond the last record's, and syncs them: before
    /// [`CommitLog::append`].
    pub fn write_range(&self, nodes: &[Hash]) -> Result<(), StoreError> {
        let count = self.range.count();
        let at = (2 * count - u64::from(count.count_ones())) * 32;
        self.files.range.write_at(at, nodes.as_flattened()).map_err(failed(RANGE))?;
        self.files.range.sync().map_err(failed(RANGE))
    }

    /// Begins a log with the commit of a version whose earlier ones are elsewhere.
    pub(crate) fn begin(&mut self, record: &CommitRecord, range: Range) -> Result<(), StoreError> {
        for ((level, index), peak) in peaks(range.count()).zip(range.peaks()) {
            let at = node_place(level, index) * 32;
            self.files.range.write_at(at, peak).map_err(failed(RANGE))?;
        }
        self.files.range.sync().map_err(failed(RANGE))?;
        self.size = offset(record.number) / GROWTH * GROWTH;
        self.files.commits.truncate(self.size).map_err(failed(COMMITS))?;
        self.append(record, range)
    }

    /// Writes a record, which makes its commit durable.
    pub fn append(&mut self, record: &CommitRecord, range: Range) -> Result<(), StoreError> {
        let at = offset(record.number);
        let end = at + COPY + RECORD as u64;
        if end > self.size {
            let zeros = vec![0; GROWTH as usize];
            self.files.commits.write_at(self.size, &zeros).map_err(failed(COMMITS))?;
            self.size += GROWTH;
        }
        let (bytes, crc) = record.encode();
        for at in [at, at + COPY] {
            self.files.commits.write_at(at, &bytes).map_err(failed(COMMITS))?;
        }
        self.files.commits.sync().map_err(failed(COMMITS))?;
        (self.last, self.range) = (crc, range);
        Ok(())
    }
}
