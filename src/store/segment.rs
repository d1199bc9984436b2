//! A segment's file, as it was written or compacted.
//!
//! Generation 0 holds the frames at their places. A compacted one, generation 1 and above, holds
//! the records that are still needed, byte by byte as they were, behind a table of where they are:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | magic `LTSG` |
//! | 4 | kind (1 values, 2 pages), three zero bytes |
//! | 4, 4, 4 | segment, generation, number of records n |
//! | 8 n | offset at first, offset in this file; ascending |
//! | 4 | CRC-32C of all bytes before |
//! | | the records |
//!
//! So a location keeps its meaning, and so does a record's checksum, which covers its first place.

use std::sync::{Arc, OnceLock};

use crate::StoreError;
use crate::disk::{Disk, DiskFile, Mode, failed};
use crate::location::{Location, SEGMENT_BYTES_MAX};
use crate::stream::Kind;

const MAGIC: [u8; 4] = *b"LTSG";
const HEADER: usize = 20;

/// First offset of each record, and its offset in the file.
type Table = Vec<(u32, u32)>;

/// An open segment.
pub(crate) struct Segment {
    /// Its file.
    pub(crate) file: Arc<dyn DiskFile>,
    /// None at generation 0.
    table: Option<Table>,
    /// Its length, once nothing is appended any more.
    sealed: OnceLock<u32>,
}

impl Segment {
    /// A segment to which records are appended.
    pub(crate) fn plain(file: Arc<dyn DiskFile>) -> Self {
        Self { file, table: None, sealed: OnceLock::new() }
    }

    /// Opens a segment.
    pub(crate) fn open(
        disk: &dyn Disk,
        kind: Kind,
        segment: u32,
        generation: u32,
    ) -> Result<Self, StoreError> {
        let name = kind.file(segment, generation);
        let mode = if generation == 0 { Mode::Write } else { Mode::Read };
        let file = disk.open(&name, mode).map_err(failed(&name))?;
        let table = match generation {
            0 => None,
            _ => Some(read_table(&*file, &name, &header(kind, segment, generation))?),
        };
        Ok(Self { file, table, sealed: OnceLock::new() })
    }

    /// Whether it was compacted.
    pub(crate) fn is_compacted(&self) -> bool {
        self.table.is_some()
    }

    /// Where in the file the record is that was written at `offset`; none if it is gone.
    pub(crate) fn place(&self, offset: u32) -> Option<u32> {
        let Some(table) = &self.table else { return Some(offset) };
        let found = table.binary_search_by_key(&offset, |(first, _)| *first).ok()?;
        table.get(found).map(|(_, now)| *now)
    }

    /// Bytes of the file, to which nothing is appended any more.
    pub(crate) fn sealed_len(&self) -> std::io::Result<u32> {
        if let Some(len) = self.sealed.get() {
            return Ok(*len);
        }
        let len = self.file.len()?.min(u64::from(SEGMENT_BYTES_MAX)) as u32;
        Ok(*self.sealed.get_or_init(|| len))
    }
}

fn header(kind: Kind, segment: u32, generation: u32) -> [u8; HEADER - 4] {
    let [a, b, c, d] = MAGIC;
    let [e, f, g, h] = segment.to_le_bytes();
    let [i, j, k, l] = generation.to_le_bytes();
    [a, b, c, d, kind.tag(), 0, 0, 0, e, f, g, h, i, j, k, l]
}

fn read_table(
    file: &dyn DiskFile,
    name: &str,
    header: &[u8; HEADER - 4],
) -> Result<Table, StoreError> {
    let corrupt = |what: &str| StoreError::Corrupt(format!("{name}: {what}"));
    let mut first = [0; HEADER];
    file.read_at(0, &mut first).map_err(failed(name))?;
    let count = first.strip_prefix(header).and_then(<[u8]>::first_chunk);
    let count = count.ok_or_else(|| corrupt("it is no such segment"))?;
    let bytes = u64::from(u32::from_le_bytes(*count)) * 8;
    let len = file.len().map_err(failed(name))?;
    if bytes > len.min(u64::from(SEGMENT_BYTES_MAX)) {
        return Err(corrupt("its table is longer than it"));
    }
    let mut rest = vec![0; bytes as usize + 4];
    file.read_at(HEADER as u64, &mut rest).map_err(failed(name))?;
    let (table, crc) = rest.split_last_chunk().ok_or_else(|| corrupt("it has no table"))?;
    if crc32c::crc32c_append(crc32c::crc32c(&first), table) != u32::from_le_bytes(*crc) {
        return Err(corrupt("the checksum of its table is wrong"));
    }
    let (table, _) = table.as_chunks::<8>();
    Ok(table
        .iter()
        .map(|[a, b, c, d, e, f, g, h]| {
            (u32::from_le_bytes([*a, *b, *c, *d]), u32::from_le_bytes([*e, *f, *g, *h]))
        })
        .collect())
}

/// The bytes of a compacted segment with these records, which ascend.
pub(crate) fn compacted(
    kind: Kind,
    segment: u32,
    generation: u32,
    records: &[(Location, Vec<u8>)],
) -> Vec<u8> {
    let mut out = header(kind, segment, generation).to_vec();
    out.extend_from_slice(&(records.len() as u32).to_le_bytes());
    let mut place = HEADER + records.len() * 8 + 4;
    for (at, record) in records {
        out.extend_from_slice(&at.offset().to_le_bytes());
        out.extend_from_slice(&(place as u32).to_le_bytes());
        place += record.len();
    }
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    records.iter().for_each(|(_, record)| out.extend_from_slice(record));
    out
}
