//! Pages of the index: what a page holds, its hash, and its records in the `pages` stream.
//!
//! An **index page** stands at a whole byte of the path and has 256 slots, one a value of the next
//! byte. Its children tile the slots in aligned runs of a power of two: a **leaf page** covers a
//! run, a further index page one slot. The root is the index page of depth 0. Page borders are
//! not hashed: the root hash is that of the leaves alone ([`crate::tree`]).
//!
//! A leaf page also keeps the tombstones of deleted keys, so that their history is found; they are
//! not hashed.
//!
//! Their records: [`crate::page_record`].

use crate::Version;
use crate::hash::{EMPTY, Hash};
use crate::location::Location;
use crate::tree::{Leaf, Path, order};

/// Most entries of a leaf page.
pub const ENTRIES_MAX: usize = 32;
/// Two neighbours with fewer entries than this become one page.
pub const ENTRIES_MERGE: usize = 12;
/// Slots of an index page.
pub const SLOTS: u16 = 256;
/// Most deltas that any options may demand between two bases.
pub const DELTAS_MAX: u32 = 1_024;

/// A subtree as its parent sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sub {
    /// No leaf.
    Empty,
    /// One leaf: the subtree is that leaf.
    Leaf(Hash),
    /// An inner node.
    Node(Hash),
}

impl Sub {
    /// Its hash.
    pub fn hash(self) -> Hash {
        match self {
            Self::Empty => EMPTY,
            Self::Leaf(hash) | Self::Node(hash) => hash,
        }
    }
}

/// What the next record of a key must know of the newest one: how long its chain is and where its
/// jump pointers lead ([`crate::values`]). It is not in page records: a page that was read does not
/// know it, and the value record is read instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    /// Number of records up to the newest.
    pub length: u32,
    /// Where the newest jumps to.
    pub jump: Option<Location>,
    /// Where that one jumps to, if it is known.
    pub below: Option<Location>,
}

/// A key in a leaf page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its place.
    pub path: Path,
    /// Hash of its value; none for a tombstone.
    pub value: Option<Hash>,
    /// Its newest value record.
    pub at: Location,
    /// How that is chained, if it is known.
    pub chain: Option<Chain>,
}

impl Entry {
    /// Its leaf; none for a tombstone.
    pub fn leaf(&self) -> Option<Leaf> {
        self.value.map(|value| Leaf { path: self.path, value })
    }
}

/// Entries by ascending path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeafPage {
    /// Ascending.
    pub entries: Vec<Entry>,
}

impl LeafPage {
    /// Its leaves: the entries without the tombstones.
    pub fn leaves(&self) -> impl Iterator<Item = Leaf> {
        self.entries.iter().filter_map(Entry::leaf)
    }

    /// The entries without the tombstones.
    pub fn live(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.value.is_some())
    }

    /// The entry of a path, and its place.
    pub fn find(&self, path: &Path) -> Option<(usize, &Entry)> {
        let at = self.entries.binary_search_by(|entry| order(&entry.path, path)).ok()?;
        Some((at, self.entries.get(at)?))
    }
}

/// What a child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A leaf page with so many entries.
    Leaf(u8),
    /// An index page.
    Index,
}

/// A run of slots of an index page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// Its first slot.
    pub slot: u8,
    /// Binary logarithm of its number of slots, at most 8.
    pub bits: u8,
    /// What stands there.
    pub kind: Kind,
    /// Its subtree.
    pub sub: Sub,
    /// Version and place of its newest record; none for a leaf page without entries.
    pub record: Option<(Version, Location)>,
}

impl Child {
    /// A run without entries.
    pub fn empty(slot: u8, bits: u8) -> Self {
        Self { slot, bits, kind: Kind::Leaf(0), sub: Sub::Empty, record: None }
    }

    /// The slot after its last one.
    pub fn end(&self) -> u16 {
        u16::from(self.slot) + (1 << self.bits)
    }
}

/// Children by ascending slot, which tile all slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPage {
    /// Bytes of the path above it.
    pub depth: u8,
    /// Ascending, without gaps.
    pub children: Vec<Child>,
}

impl IndexPage {
    /// A page without entries.
    pub fn empty(depth: u8) -> Self {
        Self { depth, children: vec![Child::empty(0, 8)] }
    }

    /// The child that covers a slot.
    pub fn child(&self, slot: u8) -> Option<&Child> {
        let after = self.children.partition_point(|child| child.slot <= slot);
        self.children.get(after.checked_sub(1)?)
    }

    /// Whether the children cover every slot once.
    pub(crate) fn tiles(&self) -> bool {
        let mut next = 0;
        for child in &self.children {
            let aligned = child.bits <= 8 && child.slot.trailing_zeros() >= child.bits.into();
            if !aligned || u16::from(child.slot) != next {
                return false;
            }
            next = child.end();
        }
        next == SLOTS
    }
}

/// A page of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page {
    /// Entries.
    Leaf(LeafPage),
    /// Children.
    Index(IndexPage),
}

/// Where a page's records are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Links {
    /// Its newest base.
    pub base: Location,
    /// Its newest record.
    pub newest: Location,
    /// Bytes of the base.
    pub base_bytes: u64,
    /// Deltas since.
    pub deltas: u64,
    /// Their bytes.
    pub delta_bytes: u64,
}

/// A page as it is after one of its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The page.
    pub page: Page,
    /// Its records.
    pub links: Links,
}

/// What a delta does to a leaf page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafChange {
    /// The entry with this number before the delta becomes another of the same path.
    Set(usize, Entry),
    /// A new entry.
    Insert(Entry),
}

/// Makes the changes of one delta, whose new entries ascend; none if they do not fit.
pub fn change_leaf(page: &mut LeafPage, changes: &[LeafChange]) -> Option<()> {
    for change in changes {
        if let LeafChange::Set(number, entry) = change {
            *page.entries.get_mut(*number)? = *entry;
        }
    }
    for change in changes {
        if let LeafChange::Insert(entry) = change {
            let place =
                page.entries.binary_search_by(|other| order(&other.path, &entry.path)).err()?;
            page.entries.insert(place, *entry);
        }
    }
    Some(())
}

/// The index page after some of its runs were replaced.
pub fn change_index(page: &IndexPage, changed: &[Child]) -> Option<IndexPage> {
    let overlaps = |old: &Child| {
        changed.iter().any(|new| u16::from(new.slot) < old.end() && u16::from(old.slot) < new.end())
    };
    let mut children: Vec<Child> =
        page.children.iter().filter(|old| !overlaps(old)).chain(changed).copied().collect();
    children.sort_unstable_by_key(|child| child.slot);
    let page = IndexPage { depth: page.depth, children };
    page.tiles().then_some(page)
}
