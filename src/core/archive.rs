//! A closed plasma block as it is kept to serve proofs (protocol.md section 3).
//!
//! The leaves in path order and the interior hashes of every 6th level, down to the level at which
//! no group has more than 64 leaves; so a proof reads at most 64 entries of each stored level and
//! one bucket of at most 64 leaves. All integers are little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | magic `PLSMBLK1` |
//! | 8 | block number |
//! | 32 | coin tree root |
//! | 8 | leaves |
//! | 10 x 8 | entries of the levels at depth 6, 12 .. 60; 0 = not stored |
//! | leaves x 40 | coin:8, transferHash:32 |
//! | entries x 48, level by level | index of the first leaf:8, its coin:8, hash:32 |
//!
//! The file carries no checksum: a proof is verified against its root before it is handed out, and
//! a file that yields a wrong one is rebuilt from the store.

use std::ops::Range;

use alloy_primitives::B256;

use crate::smt::{
    DEPTH_MAX, End, Hashed, Item, Leaf, LevelEntry, Proof, ProofBuilder, Subtree, descend,
    hash_leaves,
};
use crate::wire::{Reader, WireError};
use crate::{BlockNumber, CoinId};

const MAGIC: &[u8; 8] = b"PLSMBLK1";
/// Levels that can be stored: 6, 12 .. 60.
const LEVELS: usize = 10;
/// Depths between two stored levels; a group has at most 2^6 entries of the next level.
const LEVEL_STEP: u8 = 6;
/// Most leaves of a bucket below the last stored level.
const BUCKET: usize = 64;
const HEADER_LEN: usize = 8 + 8 + 32 + 8 + LEVELS * 8;
const LEAF_LEN: u64 = 40;
const ENTRY_LEN: u64 = 48;

/// The tree of a closed block with the levels that the archive keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockTree {
    leaves: Vec<Leaf>,
    levels: Vec<Vec<LevelEntry>>,
    root: B256,
}

/// A part of a block's tree that can be hashed apart from the others.
#[derive(Debug)]
pub struct Job<'a> {
    leaves: &'a [Leaf],
    top: u8,
    levels: &'a [u8],
}

impl Job<'_> {
    /// Hashes the part.
    pub fn run(&self) -> Hashed {
        hash_leaves(self.leaves, self.top, self.levels)
    }
}

impl BlockTree {
    /// Builds the tree in 2^`top` parts (`top` at most 5), which `run` may hash side by side; it
    /// returns their results in the order of the jobs.
    pub fn build<F>(mut leaves: Vec<Leaf>, top: u8, run: F) -> Self
    where
        F: FnOnce(&[Job<'_>]) -> Vec<Hashed>,
    {
        assert!(top < LEVEL_STEP, "parts lie above the first stored level");
        leaves.sort_unstable_by_key(Leaf::path);
        let depths = stored_depths(&leaves);
        let mut jobs = Vec::with_capacity(1 << top);
        let mut rest = &leaves[..];
        for part in 1..=1u64 << top {
            let end = match part.checked_shl(u32::from(64 - top)) {
                Some(limit) if part < 1 << top => rest.partition_point(|l| l.path() < limit),
                _ => rest.len(),
            };
            let (own, others) = rest.split_at(end);
            jobs.push(Job { leaves: own, top, levels: &depths });
            rest = others;
        }
        let starts: Vec<u64> = jobs
            .iter()
            .scan(0, |next, job| Some(std::mem::replace(next, *next + job.leaves.len() as u64)))
            .collect();
        let parts = run(&jobs);
        assert_eq!(parts.len(), jobs.len(), "one result a job");
        let (root, levels) = combine(parts, &starts, depths.len());
        Self { leaves, levels, root }
    }

    /// Builds the tree on this thread.
    pub fn build_serial(leaves: Vec<Leaf>) -> Self {
        Self::build(leaves, 0, |jobs| jobs.iter().map(Job::run).collect())
    }

    /// Root of the coin tree.
    pub fn root(&self) -> B256 {
        self.root
    }

    /// The leaves in path order.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The archive file of block `number`.
    pub fn encode(&self, number: BlockNumber) -> Vec<u8> {
        let entries: usize = self.levels.iter().map(Vec::len).sum();
        let mut out = Vec::with_capacity(
            HEADER_LEN + self.leaves.len() * LEAF_LEN as usize + entries * ENTRY_LEN as usize,
        );
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(self.root.as_slice());
        out.extend_from_slice(&(self.leaves.len() as u64).to_le_bytes());
        for level in 0..LEVELS {
            let count = self.levels.get(level).map_or(0, Vec::len) as u64;
            out.extend_from_slice(&count.to_le_bytes());
        }
        for leaf in &self.leaves {
            out.extend_from_slice(&leaf.coin.to_le_bytes());
            out.extend_from_slice(leaf.hash.as_slice());
        }
        for entry in self.levels.iter().flatten() {
            out.extend_from_slice(&entry.start.to_le_bytes());
            out.extend_from_slice(&self.leaves[entry.start as usize].coin.to_le_bytes());
            out.extend_from_slice(entry.hash.as_slice());
        }
        out
    }
}

/// Depths of the levels to store: every 6th until no group has more than 64 leaves.
fn stored_depths(leaves: &[Leaf]) -> Vec<u8> {
    let mut depths = Vec::new();
    let mut depth = 0;
    while largest_group(leaves, depth) > BUCKET && depths.len() < LEVELS {
        depth += LEVEL_STEP;
        depths.push(depth);
    }
    depths
}

fn largest_group(leaves: &[Leaf], depth: u8) -> usize {
    leaves
        .chunk_by(|a, b| (a.path() ^ b.path()).leading_zeros() as u8 >= depth)
        .map(<[Leaf]>::len)
        .max()
        .unwrap_or(0)
}

fn combine(parts: Vec<Hashed>, starts: &[u64], depths: usize) -> (B256, Vec<Vec<LevelEntry>>) {
    let mut levels = vec![Vec::new(); depths];
    let mut roots = Vec::with_capacity(parts.len());
    for (part, start) in parts.into_iter().zip(starts) {
        roots.push(part.root);
        for (level, entries) in levels.iter_mut().zip(part.levels) {
            level.extend(entries.into_iter().map(|e| LevelEntry { start: e.start + start, ..e }));
        }
    }
    while roots.len() > 1 {
        roots = roots.chunks(2).map(|pair| Subtree::join(pair[0], pair[1])).collect();
    }
    (roots[0].hash(), levels)
}

/// Why an archive file serves no proof.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError<E> {
    /// Reading failed.
    #[error("reading the block archive: {0}")]
    Read(E),
    /// The file is not what its header says.
    #[error("the block archive is damaged: {0}")]
    Damaged(&'static str),
}

impl<E> From<WireError> for ArchiveError<E> {
    fn from(_: WireError) -> Self {
        Self::Damaged("a read came back short")
    }
}

struct Header {
    number: BlockNumber,
    leaves: u64,
    entries: [u64; LEVELS],
}

impl Header {
    fn decode<E>(bytes: &[u8]) -> Result<Self, ArchiveError<E>> {
        let mut reader = Reader::new(bytes);
        if reader.take(8)? != MAGIC {
            return Err(ArchiveError::Damaged("wrong magic"));
        }
        let number = le64(&mut reader)?;
        reader.hash()?;
        let leaves = le64(&mut reader)?;
        let mut entries = [0; LEVELS];
        for count in &mut entries {
            *count = le64(&mut reader)?;
            if *count > leaves {
                return Err(ArchiveError::Damaged("a level with more entries than leaves"));
            }
        }
        if leaves > u64::from(u32::MAX) {
            return Err(ArchiveError::Damaged("too many leaves"));
        }
        Ok(Self { number, leaves, entries })
    }

    /// Offset of the first entry of `level`.
    fn level_at(&self, level: usize) -> u64 {
        let before: u64 = self.entries[..level].iter().sum();
        HEADER_LEN as u64 + self.leaves * LEAF_LEN + before * ENTRY_LEN
    }
}

fn le64(reader: &mut Reader<'_>) -> Result<u64, WireError> {
    Ok(u64::from_le_bytes(reader.array()?))
}

/// One stored level's entry with its position.
#[derive(Clone, Copy)]
struct Stored {
    start: u64,
    coin: CoinId,
    hash: B256,
}

/// Proves `coin` in or out of the block whose archive file `read(offset, length)` reads: at most
/// 3,072 bytes at a time, also from a damaged file, and never more than the file should have, so
/// that `read` fails past its end. The caller verifies the proof before it hands it out.
pub fn prove<E>(
    number: BlockNumber,
    coin: CoinId,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Proof, ArchiveError<E>> {
    let header = Header::decode(&read(0, HEADER_LEN).map_err(ArchiveError::Read)?)?;
    if header.number != number {
        return Err(ArchiveError::Damaged("the file is another block's"));
    }
    let mut builder = ProofBuilder::default();
    let mut group = 0..header.leaves;
    let mut depth = 0;
    for level in 0..LEVELS {
        if header.entries[level] == 0 {
            break;
        }
        let floor = depth + LEVEL_STEP;
        let entries = entries_in(&header, level, &group, depth..floor, &mut read)?;
        let ends = entries.iter().skip(1).map(|e| e.start).chain([group.end]);
        let items: Vec<Item> = entries
            .iter()
            .zip(ends.clone())
            .map(|(e, end)| Item {
                coin: e.coin,
                subtree: if end == e.start + 1 {
                    Subtree::Leaf(e.hash)
                } else {
                    Subtree::Node(e.hash)
                },
            })
            .collect();
        match descend(&items, coin, depth, floor, &mut builder) {
            End::Empty => return Ok(builder.finish(coin, None)),
            End::Leaf(index) => {
                let leaf =
                    leaves_in(&(entries[index].start..entries[index].start + 1), depth, &mut read)?;
                return Ok(builder.finish(coin, leaf.first().copied()));
            }
            End::Node(index) => {
                let end = ends.clone().nth(index).unwrap_or(group.end);
                group = entries[index].start..end;
                depth = floor;
            }
        }
    }
    if group.end - group.start > BUCKET as u64 {
        return Err(ArchiveError::Damaged("a bucket has more than 64 leaves"));
    }
    let leaves = leaves_in(&group, depth, &mut read)?;
    let items: Vec<Item> = leaves.iter().map(Item::lone).collect();
    let leaf = match descend(&items, coin, depth, DEPTH_MAX, &mut builder) {
        End::Empty => None,
        End::Leaf(index) | End::Node(index) => Some(leaves[index]),
    };
    Ok(builder.finish(coin, leaf))
}

/// All leaves of an archive file, in path order, in one read: `read` must compare its length with
/// the file's before it allocates.
pub fn leaves<E>(
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Vec<Leaf>, ArchiveError<E>> {
    let header = Header::decode(&read(0, HEADER_LEN).map_err(ArchiveError::Read)?)?;
    leaves_in(&(0..header.leaves), 0, &mut read)
}

/// The leaves of one group at `depth`, in path order.
fn leaves_in<E>(
    range: &Range<u64>,
    depth: u8,
    read: &mut impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Vec<Leaf>, ArchiveError<E>> {
    let count = range.end - range.start;
    let at = HEADER_LEN as u64 + range.start * LEAF_LEN;
    let bytes = read(at, (count * LEAF_LEN) as usize).map_err(ArchiveError::Read)?;
    let mut reader = Reader::new(&bytes);
    let mut leaves = Vec::with_capacity(bytes.len() / LEAF_LEN as usize);
    for _ in 0..count {
        leaves.push(Leaf { coin: le64(&mut reader)?, hash: reader.hash()? });
    }
    if leaves.windows(2).any(|pair| !part(pair[0].coin, pair[1].coin, depth..DEPTH_MAX)) {
        return Err(ArchiveError::Damaged("leaves out of order"));
    }
    Ok(leaves)
}

/// Whether `a` comes before `b` in path order and their paths part at one of `depths`. A walk
/// ends only because this holds for all neighbours of its items.
fn part(a: CoinId, b: CoinId, depths: Range<u8>) -> bool {
    let (a, b) = (a.reverse_bits(), b.reverse_bits());
    a < b && depths.contains(&((a ^ b).leading_zeros() as u8))
}

/// The entries of a level whose groups lie in the leaf range `group`: at most 64. Their paths
/// part at one of `depths`.
fn entries_in<E>(
    header: &Header,
    level: usize,
    group: &Range<u64>,
    depths: Range<u8>,
    read: &mut impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Vec<Stored>, ArchiveError<E>> {
    let base = header.level_at(level);
    let count = header.entries[level];
    let mut start_of = |index: u64| -> Result<u64, ArchiveError<E>> {
        let bytes = read(base + index * ENTRY_LEN, 8).map_err(ArchiveError::Read)?;
        Ok(le64(&mut Reader::new(&bytes))?)
    };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if start_of(middle)? < group.start {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let wanted = (count - low).min(1 << LEVEL_STEP);
    let bytes =
        read(base + low * ENTRY_LEN, (wanted * ENTRY_LEN) as usize).map_err(ArchiveError::Read)?;
    let mut reader = Reader::new(&bytes);
    let mut entries = Vec::with_capacity(wanted as usize);
    for _ in 0..wanted {
        let (start, coin) = (le64(&mut reader)?, le64(&mut reader)?);
        entries.push(Stored { start, coin, hash: reader.hash()? });
    }
    entries.retain(|entry| group.contains(&entry.start));
    if entries.first().is_none_or(|entry| entry.start != group.start)
        || entries.windows(2).any(|pair| {
            pair[0].start >= pair[1].start || !part(pair[0].coin, pair[1].coin, depths.clone())
        })
    {
        return Err(ArchiveError::Damaged("level entries out of order"));
    }
    Ok(entries)
}
