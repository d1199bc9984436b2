//! The manifest: what the store is, and how often it was opened.
//!
//! Magic `LTSM`, format:4, incarnation:4, length of the scheme (varint), scheme, CRC-32C of all
//! that:4; numbers are little-endian. It is replaced at each opening by a rename.

use std::path::Path;

use crate::StoreError;
use crate::disk::{Disk, Mode, failed};
use crate::hash::Hasher;
use crate::stream::{put_varint, take_varint};

const MANIFEST: &str = "manifest";
const MANIFEST_NEW: &str = "manifest.new";
const MAGIC: [u8; 4] = *b"LTSM";
/// Version of the format of all files.
const FORMAT: u32 = 2;

/// Reads the manifest, or makes it, and writes it with the next incarnation.
pub fn next_incarnation<H: Hasher>(disk: &dyn Disk, dir: &Path) -> Result<u32, StoreError> {
    let foreign =
        |found: String| StoreError::Foreign { path: dir.to_owned(), found, expected: H::SCHEME };
    let names = disk.list().map_err(failed(MANIFEST))?;
    let before = if names.iter().any(|name| name == MANIFEST) {
        let file = disk.open(MANIFEST, Mode::Read).map_err(failed(MANIFEST))?;
        let len = file.len().map_err(failed(MANIFEST))?.min(1 << 10);
        let mut bytes = vec![0; len as usize];
        file.read_at(0, &mut bytes).map_err(failed(MANIFEST))?;
        let (format, incarnation, scheme) = read_manifest(&bytes)
            .ok_or_else(|| StoreError::Corrupt(format!("{MANIFEST}: it is none")))?;
        if format != FORMAT {
            return Err(StoreError::Format { found: format, known: FORMAT });
        }
        if scheme != H::SCHEME {
            return Err(foreign(scheme));
        }
        incarnation
    } else if names.iter().all(|name| name == MANIFEST_NEW) {
        0
    } else {
        return Err(foreign(String::new()));
    };
    let next = before
        .checked_add(1)
        .ok_or_else(|| StoreError::Corrupt(format!("{MANIFEST}: no incarnation is left")))?;
    if names.iter().any(|name| name == MANIFEST_NEW) {
        disk.unlink(MANIFEST_NEW).map_err(failed(MANIFEST_NEW))?;
    }
    let file = disk.open(MANIFEST_NEW, Mode::Create).map_err(failed(MANIFEST_NEW))?;
    file.write_at(0, &write_manifest(next, H::SCHEME)).map_err(failed(MANIFEST_NEW))?;
    file.sync().map_err(failed(MANIFEST_NEW))?;
    disk.rename(MANIFEST_NEW, MANIFEST).map_err(failed(MANIFEST))?;
    disk.sync_dir().map_err(failed(MANIFEST))?;
    Ok(next)
}

fn write_manifest(incarnation: u32, scheme: &str) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&incarnation.to_le_bytes());
    put_varint(&mut out, scheme.len() as u64);
    out.extend_from_slice(scheme.as_bytes());
    let crc = crc32c::crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn read_manifest(bytes: &[u8]) -> Option<(u32, u32, String)> {
    let (fields, crc) = bytes.split_last_chunk()?;
    if crc32c::crc32c(fields) != u32::from_le_bytes(*crc) {
        return None;
    }
    let rest = fields.strip_prefix(&MAGIC)?;
    let (format, rest) = rest.split_first_chunk()?;
    let (incarnation, mut rest) = rest.split_first_chunk()?;
    let length = usize::try_from(take_varint(&mut rest)?).ok()?;
    let scheme = String::from_utf8(rest.to_vec()).ok().filter(|_| rest.len() == length)?;
    Some((u32::from_le_bytes(*format), u32::from_le_bytes(*incarnation), scheme))
}
