//! The manifest: what the store is, how often it was opened, and what was pruned.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | magic `LTSM` |
//! | 4 | format |
//! | varint, then the bytes | scheme |
//! | 4 | incarnation |
//! | 8 | the oldest version that can be read |
//! | 4, then 8 each | of values: number of segments that are not as they were written; of each |
//! | | its number:4 and generation:4, all ones if it was dropped |
//! | 4, then 8 each | the same of pages |
//! | 4 | CRC-32C of all bytes before |
//!
//! Numbers are little-endian. It is replaced as a whole by a rename: at each opening, and when a
//! pruning is decided. Files that it does not name are deleted by the next opening.

use std::collections::BTreeMap;
use std::path::Path;

use crate::bytes::{put_varint, take_array, take_varint};
use crate::disk::{Disk, Mode, failed};
use crate::hash::Hasher;
use crate::location::SEGMENTS_MAX;
use crate::stream::Generations;
use crate::{StoreError, Version};

const MANIFEST: &str = "manifest";
const MANIFEST_NEW: &str = "manifest.new";
const MAGIC: [u8; 4] = *b"LTSM";
/// Version of the format of all files.
const FORMAT: u32 = 2;
/// Longest manifest: with every segment of both streams.
const BYTES_MAX: u64 = 1024 + 2 * 8 * SEGMENTS_MAX as u64;

/// What the manifest says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Which opening of the store this is.
    pub(crate) incarnation: u32,
    /// The oldest version that can be read.
    pub(crate) oldest: Version,
    /// Of values and pages.
    pub(crate) generations: [Generations; 2],
}

impl Manifest {
    /// Reads the manifest; none where nothing is.
    pub(crate) fn read<H: Hasher>(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, StoreError> {
        let names = disk.list().map_err(failed(MANIFEST))?;
        if names.iter().all(|name| name == MANIFEST_NEW) {
            return Ok(None);
        }
        let foreign = |found: String| StoreError::Foreign {
            path: dir.to_owned(),
            found,
            expected: H::SCHEME,
        };
        if !names.iter().any(|name| name == MANIFEST) {
            return Err(foreign(String::new()));
        }
        let file = disk.open(MANIFEST, Mode::Read).map_err(failed(MANIFEST))?;
        let len = file.len().map_err(failed(MANIFEST))?.min(BYTES_MAX);
        let mut bytes = vec![0; len as usize];
        file.read_at(0, &mut bytes).map_err(failed(MANIFEST))?;
        let none = || StoreError::Corrupt(format!("{MANIFEST}: it is none"));
        let (format, scheme, rest) = read_start(&bytes).ok_or_else(none)?;
        if format != FORMAT {
            return Err(StoreError::Format { found: format, known: FORMAT });
        }
        if scheme != H::SCHEME {
            return Err(foreign(scheme));
        }
        read_rest(rest).ok_or_else(none).map(Some)
    }

    /// Reads the manifest, or makes it, and writes it with the next incarnation.
    pub(crate) fn next<H: Hasher>(disk: &dyn Disk, dir: &Path) -> Result<Self, StoreError> {
        let mut manifest = Self::read::<H>(disk, dir)?.unwrap_or_default();
        manifest.incarnation = manifest
            .incarnation
            .checked_add(1)
            .ok_or_else(|| StoreError::Corrupt(format!("{MANIFEST}: no incarnation is left")))?;
        manifest.write::<H>(disk)?;
        Ok(manifest)
    }

    /// Whether all segments are as they were written.
    pub(crate) fn is_unpruned(&self) -> bool {
        self.generations.iter().all(BTreeMap::is_empty)
    }

    /// Replaces the manifest, durably.
    pub(crate) fn write<H: Hasher>(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        let names = disk.list().map_err(failed(MANIFEST))?;
        if names.iter().any(|name| name == MANIFEST_NEW) {
            disk.unlink(MANIFEST_NEW).map_err(failed(MANIFEST_NEW))?;
        }
        let file = disk.open(MANIFEST_NEW, Mode::Create).map_err(failed(MANIFEST_NEW))?;
        file.write_at(0, &self.encode(H::SCHEME)).map_err(failed(MANIFEST_NEW))?;
        file.sync().map_err(failed(MANIFEST_NEW))?;
        disk.rename(MANIFEST_NEW, MANIFEST).map_err(failed(MANIFEST))?;
        disk.sync_dir().map_err(failed(MANIFEST))
    }

    fn encode(&self, scheme: &str) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&FORMAT.to_le_bytes());
        put_varint(&mut out, scheme.len() as u64);
        out.extend_from_slice(scheme.as_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.oldest.to_le_bytes());
        for generations in &self.generations {
            out.extend_from_slice(&(generations.len() as u32).to_le_bytes());
            for (segment, generation) in generations {
                out.extend_from_slice(&segment.to_le_bytes());
                out.extend_from_slice(&generation.to_le_bytes());
            }
        }
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }
}

/// Format, scheme, and what follows.
fn read_start(bytes: &[u8]) -> Option<(u32, String, &[u8])> {
    let (fields, crc) = bytes.split_last_chunk()?;
    if crc32c::crc32c(fields) != u32::from_le_bytes(*crc) {
        return None;
    }
    let mut rest = fields.strip_prefix(&MAGIC)?;
    let format = number(&mut rest)?;
    let length = usize::try_from(take_varint(&mut rest)?).ok()?;
    let (scheme, rest) = rest.split_at_checked(length)?;
    Some((format, String::from_utf8(scheme.to_vec()).ok()?, rest))
}

fn read_rest(mut rest: &[u8]) -> Option<Manifest> {
    let incarnation = number(&mut rest)?;
    let oldest = u64::from_le_bytes(take_array(&mut rest)?);
    let mut manifest = Manifest { incarnation, oldest, ..Default::default() };
    for generations in &mut manifest.generations {
        for _ in 0..number(&mut rest)? {
            generations.insert(number(&mut rest)?, number(&mut rest)?);
        }
    }
    rest.is_empty().then_some(manifest)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    take_array(rest).map(u32::from_le_bytes)
}
