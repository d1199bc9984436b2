//! Records of pages in the `pages` stream.
//!
//! | record | bytes after its tag and version (varint) |
//! |---|---|
//! | 0 leaf base | skip:1, count (varint), entries |
//! | 1 leaf delta | links, skip:1, count (varint), changes |
//! | 2 index base | depth:1, count (varint), children |
//! | 3 index delta | links, depth:1, count (varint), children that replace those they overlap |
//!
//! | part | bytes |
//! |---|---|
//! | entry | path without its first `skip` bytes, 1 and value hash:32, or 0; location:6 |
//! | change 0 | entry number before this delta (varint), 1 and value hash:32, or 0; location:6 |
//! | change 1 | an entry, which is new |
//! | child | slot:1, bits:1 (+ 128 for an index page), entries:1 of a leaf page |
//! | | 0, or 1 and hash:32 of its only leaf, or 2 and hash:32; version (varint), location:6 |
//! | links | location:6 of the base and of the record before |
//! | | base bytes, deltas before this one, their bytes: varints |
//!
//! A leaf page without entries has no record: its child's version and location are missing.

use crate::Version;
use crate::bytes::{put_varint, take_array, take_varint};
use crate::hash::Hash;
use crate::location::Location;
use crate::page::{
    Child, DELTAS_MAX, ENTRIES_MAX, Entry, IndexPage, Kind, LeafChange, LeafPage, Links, Loaded,
    Page, Sub, change_index, change_leaf,
};
use crate::tree::Path;

const LEAF_BASE: u8 = 0;
const LEAF_DELTA: u8 = 1;
const INDEX_BASE: u8 = 2;
const INDEX_DELTA: u8 = 3;
const INDEX_CHILD: u8 = 128;

fn put_value(out: &mut Vec<u8>, value: Option<Hash>, at: Location) {
    match value {
        Some(hash) => {
            out.push(1);
            out.extend_from_slice(&hash);
        }
        None => out.push(0),
    }
    out.extend_from_slice(&at.to_bytes());
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry, skip: u8) {
    out.extend_from_slice(entry.path.get(usize::from(skip)..).unwrap_or_default());
    put_value(out, entry.value, entry.at);
}

fn put_child(out: &mut Vec<u8>, child: &Child) {
    out.push(child.slot);
    match child.kind {
        Kind::Leaf(count) => out.extend_from_slice(&[child.bits, count]),
        Kind::Index => out.push(child.bits | INDEX_CHILD),
    }
    match child.sub {
        Sub::Empty => out.push(0),
        Sub::Leaf(hash) => {
            out.push(1);
            out.extend_from_slice(&hash);
        }
        Sub::Node(hash) => {
            out.push(2);
            out.extend_from_slice(&hash);
        }
    }
    if let Some((version, at)) = child.record {
        put_varint(out, version);
        out.extend_from_slice(&at.to_bytes());
    }
}

fn put_links(out: &mut Vec<u8>, links: &Links) {
    out.extend_from_slice(&links.base.to_bytes());
    out.extend_from_slice(&links.newest.to_bytes());
    for number in [links.base_bytes, links.deltas, links.delta_bytes] {
        put_varint(out, number);
    }
}

fn start(out: &mut Vec<u8>, tag: u8, version: Version, links: Option<&Links>) {
    out.push(tag);
    put_varint(out, version);
    if let Some(links) = links {
        put_links(out, links);
    }
}

/// Appends a base of a leaf page whose paths share their first `skip` bytes.
pub fn leaf_base(out: &mut Vec<u8>, version: Version, skip: u8, page: &LeafPage) {
    start(out, LEAF_BASE, version, None);
    out.push(skip);
    put_varint(out, page.entries.len() as u64);
    page.entries.iter().for_each(|entry| put_entry(out, entry, skip));
}

/// Appends a delta of a leaf page after the records that `links` names.
pub fn leaf_delta(
    out: &mut Vec<u8>,
    version: Version,
    links: &Links,
    skip: u8,
    changes: &[LeafChange],
) {
    start(out, LEAF_DELTA, version, Some(links));
    out.push(skip);
    put_varint(out, changes.len() as u64);
    for change in changes {
        match change {
            LeafChange::Set(number, entry) => {
                out.push(0);
                put_varint(out, *number as u64);
                put_value(out, entry.value, entry.at);
            }
            LeafChange::Insert(entry) => {
                out.push(1);
                put_entry(out, entry, skip);
            }
        }
    }
}

/// Appends a base of an index page.
pub fn index_base(out: &mut Vec<u8>, version: Version, page: &IndexPage) {
    start(out, INDEX_BASE, version, None);
    index(out, page.depth, &page.children);
}

/// Appends a delta of an index page after the records that `links` names.
pub fn index_delta(
    out: &mut Vec<u8>,
    version: Version,
    links: &Links,
    depth: u8,
    changed: &[Child],
) {
    start(out, INDEX_DELTA, version, Some(links));
    index(out, depth, changed);
}

fn index(out: &mut Vec<u8>, depth: u8, children: &[Child]) {
    out.push(depth);
    put_varint(out, children.len() as u64);
    children.iter().for_each(|child| put_child(out, child));
}

/// A decoded record.
enum Record {
    Base(Page),
    LeafDelta(Links, Vec<RawChange>),
    IndexDelta(Links, u8, Vec<Child>),
}

enum RawChange {
    Set(u64, Option<Hash>, Location),
    Insert(Path, Option<Hash>, Location),
}

/// Reads a record's fields; what is wrong is a text for [`crate::StoreError::Corrupt`].
struct Fields<'a>(&'a [u8]);

type Read<T> = Result<T, &'static str>;

const SHORT: &str = "it ends early";

impl Fields<'_> {
    fn byte(&mut self) -> Read<u8> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        take_array(&mut self.0).ok_or(SHORT)
    }

    fn varint(&mut self) -> Read<u64> {
        take_varint(&mut self.0).ok_or("a bad varint")
    }

    fn location(&mut self) -> Read<Location> {
        Ok(Location::from_bytes(self.array()?))
    }

    /// A number of items of which each takes a byte at least.
    fn count(&mut self) -> Read<usize> {
        let count = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if count > self.0.len() { Err("a count beyond its end") } else { Ok(count) }
    }

    fn value(&mut self) -> Read<(Option<Hash>, Location)> {
        let value = match self.byte()? {
            0 => None,
            1 => Some(self.array()?),
            _ => return Err("a bad value tag"),
        };
        Ok((value, self.location()?))
    }

    fn path(&mut self, prefix: &Path, skip: u8) -> Read<Path> {
        let mut path = *prefix;
        let own = path.get_mut(usize::from(skip)..).ok_or("it skips more than a path")?;
        let (bytes, rest) = self.0.split_at_checked(own.len()).ok_or(SHORT)?;
        own.copy_from_slice(bytes);
        self.0 = rest;
        Ok(path)
    }

    fn child(&mut self) -> Read<Child> {
        let (slot, bits) = (self.byte()?, self.byte()?);
        let kind = match bits & INDEX_CHILD {
            0 => Kind::Leaf(self.byte()?),
            _ => Kind::Index,
        };
        let sub = match self.byte()? {
            0 => Sub::Empty,
            1 => Sub::Leaf(self.array()?),
            2 => Sub::Node(self.array()?),
            _ => return Err("a bad subtree tag"),
        };
        let record = match kind {
            Kind::Leaf(0) => None,
            _ => Some((self.varint()?, self.location()?)),
        };
        let bits = bits & !INDEX_CHILD;
        if bits > 8 || kind == Kind::Index && bits > 0 {
            return Err("a child of too many slots");
        }
        Ok(Child { slot, bits, kind, sub, record })
    }

    fn links(&mut self) -> Read<Links> {
        Ok(Links {
            base: self.location()?,
            newest: self.location()?,
            base_bytes: self.varint()?,
            deltas: self.varint()?,
            delta_bytes: self.varint()?,
        })
    }
}

/// Decodes a record of a page whose paths begin with `prefix`.
fn decode(body: &[u8], prefix: &Path) -> Read<Record> {
    let mut fields = Fields(body);
    let tag = fields.byte()?;
    fields.varint()?;
    let record = match tag {
        LEAF_BASE => {
            let skip = fields.byte()?;
            let count = fields.count()?;
            let mut entries = Vec::with_capacity(count.min(ENTRIES_MAX));
            for _ in 0..count {
                let path = fields.path(prefix, skip)?;
                let (value, at) = fields.value()?;
                entries.push(Entry { path, value, at, chain: None });
            }
            Record::Base(Page::Leaf(LeafPage { entries }))
        }
        LEAF_DELTA => {
            let links = fields.links()?;
            let skip = fields.byte()?;
            let count = fields.count()?;
            let mut changes = Vec::with_capacity(count.min(ENTRIES_MAX));
            for _ in 0..count {
                let insert = fields.byte()?;
                changes.push(if insert == 0 {
                    let number = fields.varint()?;
                    let (value, at) = fields.value()?;
                    RawChange::Set(number, value, at)
                } else {
                    let path = fields.path(prefix, skip)?;
                    let (value, at) = fields.value()?;
                    RawChange::Insert(path, value, at)
                });
            }
            Record::LeafDelta(links, changes)
        }
        INDEX_BASE | INDEX_DELTA => {
            let links = if tag == INDEX_DELTA { Some(fields.links()?) } else { None };
            let depth = fields.byte()?;
            let count = fields.count()?;
            let children = (0..count).map(|_| fields.child()).collect::<Read<Vec<Child>>>()?;
            match links {
                None => Record::Base(Page::Index(IndexPage { depth, children })),
                Some(links) => Record::IndexDelta(links, depth, children),
            }
        }
        _ => return Err("an unknown tag"),
    };
    if fields.0.is_empty() { Ok(record) } else { Err("trailing bytes") }
}

/// The record before a delta; none if the body is no delta's.
pub(crate) fn previous(body: &[u8]) -> Option<Location> {
    let mut fields = Fields(body);
    let tag = fields.byte().ok()?;
    fields.varint().ok()?;
    let delta = tag == LEAF_DELTA || tag == INDEX_DELTA;
    delta.then(|| fields.links().ok()).flatten().map(|links| links.newest)
}

/// A delta's changes to the page before it; none if that lacks an entry.
fn leaf_changes(page: &LeafPage, raw: Vec<RawChange>) -> Option<Vec<LeafChange>> {
    raw.into_iter()
        .map(|change| match change {
            RawChange::Set(number, value, at) => {
                let number = usize::try_from(number).ok()?;
                let path = page.entries.get(number)?.path;
                Some(LeafChange::Set(number, Entry { path, value, at, chain: None }))
            }
            RawChange::Insert(path, value, at) => {
                Some(LeafChange::Insert(Entry { path, value, at, chain: None }))
            }
        })
        .collect()
}

/// Builds the page whose newest record is at `newest` and whose paths begin with `prefix`, from its
/// records: `read` gives a record's body.
pub fn load<E>(
    newest: Location,
    prefix: &Path,
    mut read: impl FnMut(Location) -> Result<Vec<u8>, E>,
    corrupt: impl Fn(Location, &str) -> E,
) -> Result<Loaded, E> {
    let mut deltas: Vec<Vec<u8>> = Vec::new();
    let mut at = newest;
    let (mut page, base_bytes) = loop {
        let body = read(at)?;
        match decode(&body, prefix).map_err(|what| corrupt(at, what))? {
            Record::Base(page) => break (page, body.len() as u64),
            Record::LeafDelta(links, _) | Record::IndexDelta(links, ..) => {
                // Each names one that was written before it.
                if links.newest >= at || deltas.len() as u32 >= DELTAS_MAX {
                    return Err(corrupt(at, "its links do not lead to a base"));
                }
                deltas.push(body);
                at = links.newest;
            }
        }
    };
    let base = at;
    let mut delta_bytes = 0;
    for body in deltas.iter().rev() {
        delta_bytes += body.len() as u64;
        let record = decode(body, prefix).map_err(|what| corrupt(newest, what))?;
        let changed = match (record, page) {
            (Record::LeafDelta(links, raw), Page::Leaf(mut page)) if links.base == base => {
                leaf_changes(&page, raw)
                    .and_then(|changes| change_leaf(&mut page, &changes))
                    .map(|()| Page::Leaf(page))
            }
            (Record::IndexDelta(links, depth, changed), Page::Index(page))
                if links.base == base && depth == page.depth =>
            {
                change_index(&page, &changed).map(Page::Index)
            }
            _ => None,
        };
        page = changed.ok_or_else(|| corrupt(newest, "a delta does not fit its base"))?;
    }
    let sound = match &page {
        Page::Leaf(page) => {
            page.entries.len() <= ENTRIES_MAX && page.entries.is_sorted_by(|a, b| a.path < b.path)
        }
        Page::Index(page) => page.tiles(),
    };
    if !sound {
        return Err(corrupt(newest, "its entries are out of order"));
    }
    let links = Links { base, newest, base_bytes, deltas: deltas.len() as u64, delta_bytes };
    Ok(Loaded { page, links })
}
