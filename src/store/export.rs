//! A version as chunks that another store is built from, each verified alone.
//!
//! Chunk 0:
//!
//! | bytes | field |
//! |---|---|
//! | 1 | format, 2 |
//! | 8, 8, 32 | version V, number of earlier commitments n, root_V |
//! | 4 | number of chunks, this one included |
//! | 32 each | peaks of the range of earlier commitments, one a set bit of n, largest first |
//!
//! These give `C_V`. Every other chunk is one subtree, in path order, and together they are the
//! tree:
//!
//! | bytes | field |
//! |---|---|
//! | 8, 1 | first 64 bits of its least path (big-endian), number of bits d that its paths share |
//! | d times | sibling on the way to the root, root first: 0 empty; 1 leaf or 2 node, and hash:32 |
//! | varint | number of pairs |
//! | each | trie, key bytes (varints), key, value bytes (varint), value; by ascending path |
//!
//! Chunks are the largest subtrees of at most the asked bytes: a pure function of the pairs. A
//! chunk that is not as it should be leads to another root, so a bad sender is known at once.

use std::ops;

use crate::ProofError;
use crate::bytes::{put_varint, take_array, take_varint};
use crate::commitment::Committed;
use crate::commits::CommitRecord;
use crate::forest::Forest;
use crate::hash::{Hash, Hasher};
use crate::index;
use crate::letus::Letus;
use crate::page::Sub;
use crate::proof::value_hash;
use crate::prune::Pin;
use crate::range::Range;
use crate::tree::{Leaf, first_bits, path_of};
use crate::trie::Tid;
use crate::{Commitment, KEY_BYTES_MAX, StoreError, VALUE_BYTES_MAX, Version};

const FORMAT: u8 = 2;
/// Most bits that a chunk's paths are told to share: nobody finds more keys that do.
const BITS_MAX: u8 = 64;
/// What chunks are cut to unless asked otherwise.
pub const CHUNK_BYTES: u64 = 4 << 20;
/// Longest chunk that is read: one value of the greatest length with its way to the root.
pub const CHUNK_BYTES_MAX: usize = VALUE_BYTES_MAX + (1 << 20);

const SHORT: ProofError = ProofError::Malformed("the chunk ends early");

/// A key of a trie, with its value.
pub type Pair = (Tid, Vec<u8>, Vec<u8>);

/// A subtree by its place: first 64 bits of its least path, number of shared bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    first: u64,
    bits: u8,
}

impl Place {
    /// The whole tree.
    const ALL: Self = Self { first: 0, bits: 0 };

    /// The first 64 bits of its paths.
    pub fn range(self) -> ops::Range<u128> {
        let first = u128::from(self.first);
        first..first + (1u128 << (BITS_MAX - self.bits))
    }

    fn is_sound(self) -> bool {
        self.bits <= BITS_MAX && u128::from(self.first) % (1u128 << (BITS_MAX - self.bits)) == 0
    }

    fn halves(self) -> (Self, Self) {
        let bits = self.bits + 1;
        let right = self.first | 1u64 << (BITS_MAX - bits);
        (Self { bits, ..self }, Self { first: right, bits })
    }

    /// The subtree beside its ancestor of `level + 1` bits.
    fn sibling(self, level: u8) -> Self {
        let bit = 1u64 << (BITS_MAX - 1 - level);
        Self { first: (self.first ^ bit) & !(bit - 1), bits: level + 1 }
    }
}

/// A version that is being sent. It is not pruned meanwhile.
pub struct Export<'a, H: Hasher> {
    store: &'a Letus<H>,
    _pin: Pin<'a>,
    record: CommitRecord,
    range: Range,
    /// The chunks' subtrees in path order.
    subtrees: Vec<(Place, Sub)>,
}

impl<H: Hasher> Letus<H> {
    /// Plans the export of a version in chunks of about `chunk_bytes`. Reads all of it once.
    ///
    /// # Errors
    /// If the version is not there or the store is corrupt.
    pub fn export(&self, version: Version, chunk_bytes: u64) -> Result<Export<'_, H>, StoreError> {
        let (pin, _, record) = self.at(version)?;
        let view = self.view(record.pages_end).passing();
        let mut sizes = Vec::new();
        index::entries(&view, record.root_page, &index::ALL, &mut |entry| {
            let bytes = self.value(&record, entry.at, |record| {
                record.key.len() + record.value.map_or(0, <[u8]>::len)
            })?;
            sizes.push((first_bits(&entry.path), bytes as u64));
            Ok(())
        })?;
        let mut places = Vec::new();
        plan(&sizes, Place::ALL, chunk_bytes, &mut places);
        let mut subtrees = Vec::with_capacity(places.len());
        for place in places {
            let mut leaves = Vec::new();
            index::entries(&view, record.root_page, &place.range(), &mut |entry| {
                leaves.extend(entry.leaf());
                Ok(())
            })?;
            subtrees.push((place, subtree::<H>(place, leaves)));
        }
        let range = self.commits.read_range(record.number)?;
        Ok(Export { store: self, _pin: pin, record, range, subtrees })
    }
}

/// The subtree at a place, of its leaves by ascending path.
fn subtree<H: Hasher>(place: Place, leaves: Vec<Leaf>) -> Sub {
    let mut forest = Forest::default();
    let id = forest.leaves(leaves.into_iter(), place.bits.into());
    forest.hash::<H>();
    forest.sub(id)
}

fn join<H: Hasher>(left: Sub, right: Sub) -> Sub {
    let mut forest = Forest::default();
    let (left, right) = (forest.known(left), forest.known(right));
    let id = forest.join(left, right);
    forest.hash::<H>();
    forest.sub(id)
}

/// The subtree at a place that some of the chunks' tile.
fn joined<H: Hasher>(subtrees: &[(Place, Sub)], place: Place) -> Sub {
    let from = subtrees.partition_point(|(other, _)| other.range().end <= place.range().start);
    let to = subtrees.partition_point(|(other, _)| other.range().start < place.range().end);
    match subtrees.get(from..to).unwrap_or_default() {
        [] => Sub::Empty,
        [(_, sub)] => *sub,
        below => {
            let (left, right) = place.halves();
            join::<H>(joined::<H>(below, left), joined::<H>(below, right))
        }
    }
}

/// The largest subtrees of at most `limit` bytes.
fn plan(sizes: &[(u64, u64)], place: Place, limit: u64, places: &mut Vec<Place>) {
    let bytes: u64 = sizes.iter().map(|(_, bytes)| bytes).sum();
    if bytes <= limit || sizes.len() < 2 || place.bits == BITS_MAX {
        places.push(place);
        return;
    }
    let (left, right) = place.halves();
    let (below, above) = sizes.split_at(sizes.partition_point(|(first, _)| *first < right.first));
    plan(below, left, limit, places);
    plan(above, right, limit, places);
}

impl<H: Hasher> Export<'_, H> {
    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.subtrees.len() + 1
    }

    /// Chunk `number`; none if there are fewer.
    ///
    /// # Errors
    /// If the store is corrupt.
    pub fn chunk(&self, number: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(number) = number.checked_sub(1) else { return Ok(Some(self.head())) };
        let Some((place, _)) = self.subtrees.get(number) else { return Ok(None) };
        let mut out = place.first.to_be_bytes().to_vec();
        out.push(place.bits);
        for level in 0..place.bits {
            let (tag, hash) = match joined::<H>(&self.subtrees, place.sibling(level)) {
                Sub::Empty => (0, None),
                Sub::Leaf(hash) => (1, Some(hash)),
                Sub::Node(hash) => (2, Some(hash)),
            };
            out.push(tag);
            hash.iter().for_each(|hash| out.extend_from_slice(hash));
        }
        let mut pairs = Vec::new();
        let view = self.store.view(self.record.pages_end).passing();
        index::entries(&view, self.record.root_page, &place.range(), &mut |entry| {
            pairs.push(entry.at);
            Ok(())
        })?;
        put_varint(&mut out, pairs.len() as u64);
        for at in pairs {
            self.store.value(&self.record, at, |record| {
                put_varint(&mut out, record.tid);
                for part in [record.key, record.value.unwrap_or_default()] {
                    put_varint(&mut out, part.len() as u64);
                    out.extend_from_slice(part);
                }
            })?;
        }
        Ok(Some(out))
    }

    fn head(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend_from_slice(&self.record.version.to_le_bytes());
        out.extend_from_slice(&self.record.number.to_le_bytes());
        out.extend_from_slice(&self.record.root);
        out.extend_from_slice(&(self.chunks() as u32).to_le_bytes());
        self.range.peaks().iter().for_each(|peak| out.extend_from_slice(peak));
        out
    }
}

/// Chunk 0, checked against a commitment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// What the commitment hashes.
    pub committed: Committed,
    /// The range of earlier commitments.
    pub range: Range,
    /// Number of chunks, this one included.
    pub chunks: u32,
}

impl Head {
    /// Reads chunk 0 of the export of the version that has `commitment`.
    ///
    /// # Errors
    /// If it is none.
    pub fn read<H: Hasher>(mut bytes: &[u8], commitment: Commitment) -> Result<Self, ProofError> {
        let rest = &mut bytes;
        let [format] = array(rest)?;
        if format != FORMAT {
            return Err(ProofError::Malformed("unknown format of chunks"));
        }
        let (version, earlier) =
            (u64::from_le_bytes(array(rest)?), u64::from_le_bytes(array(rest)?));
        let root = array(rest)?;
        let chunks = u32::from_le_bytes(array(rest)?);
        let peaks = (0..earlier.count_ones()).map(|_| array(rest)).collect::<Result<_, _>>()?;
        if !rest.is_empty() {
            return Err(ProofError::Malformed("trailing bytes"));
        }
        let range = Range::from_parts(earlier, peaks).ok_or(SHORT)?;
        let committed = Committed { version, earlier, root, range: range.root::<H>() };
        if committed.commitment::<H>() != commitment {
            return Err(ProofError::Invalid("chunk 0 leads to another commitment".into()));
        }
        Ok(Self { committed, range, chunks })
    }
}

/// Reads a chunk of the tree with this root: its place and pairs.
///
/// # Errors
/// If it is none.
pub fn read_chunk<H: Hasher>(
    mut bytes: &[u8],
    root: Hash,
) -> Result<(Place, Vec<Pair>), ProofError> {
    let rest = &mut bytes;
    let place = Place { first: u64::from_be_bytes(array(rest)?), bits: array::<1>(rest)?[0] };
    if !place.is_sound() {
        return Err(ProofError::Malformed("the chunk is no subtree"));
    }
    let mut siblings = Vec::with_capacity(place.bits.into());
    for _ in 0..place.bits {
        siblings.push(match array(rest)? {
            [0] => Sub::Empty,
            [1] => Sub::Leaf(array(rest)?),
            [2] => Sub::Node(array(rest)?),
            _ => return Err(ProofError::Malformed("unknown kind of subtree")),
        });
    }
    let count = take_varint(rest).ok_or(SHORT)?;
    // Each pair takes three bytes at least.
    if count > rest.len() as u64 / 3 {
        return Err(SHORT);
    }
    let mut pairs = Vec::with_capacity(count as usize);
    let mut leaves = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let tid = take_varint(rest).ok_or(SHORT)?;
        let key = part(rest, KEY_BYTES_MAX)?;
        let value = part(rest, VALUE_BYTES_MAX)?;
        let path = path_of::<H>(tid, key);
        let inside = place.range().contains(&u128::from(first_bits(&path)));
        let ascends = leaves.last().is_none_or(|last: &Leaf| last.path < path);
        if !inside || !ascends {
            return Err(ProofError::Malformed("a key is out of place"));
        }
        leaves.push(Leaf { path, value: value_hash::<H>(value) });
        pairs.push((tid, key.to_vec(), value.to_vec()));
    }
    if !rest.is_empty() {
        return Err(ProofError::Malformed("trailing bytes"));
    }
    let mut own = subtree::<H>(place, leaves);
    for (level, sibling) in siblings.into_iter().enumerate().rev() {
        let right = place.first >> (usize::from(BITS_MAX) - 1 - level) & 1 == 1;
        own = if right { join::<H>(sibling, own) } else { join::<H>(own, sibling) };
    }
    if own.hash() != root {
        return Err(ProofError::Invalid("the chunk leads to another root".into()));
    }
    Ok((place, pairs))
}

fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], ProofError> {
    take_array(rest).ok_or(SHORT)
}

fn part<'a>(rest: &mut &'a [u8], max: usize) -> Result<&'a [u8], ProofError> {
    let length = take_varint(rest).and_then(|length| usize::try_from(length).ok()).ok_or(SHORT)?;
    let (part, after) = rest.split_at_checked(length).filter(|_| length <= max).ok_or(SHORT)?;
    *rest = after;
    Ok(part)
}
