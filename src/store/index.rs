//! The index: finds entries and proves them.
//!
//! A version is a root page and all that it leads to; nothing of an older version is ever changed.
//! [`crate::update`] makes the next one.

use std::sync::Arc;

use crate::StoreError;
use crate::forest::{Forest, Id};
use crate::hash::{EMPTY, Hasher};
use crate::location::Location;
use crate::page::{Child, Entry, IndexPage, Kind, LeafPage, Loaded, Page, Sub};
use crate::proof::{Proof, Terminal};
use crate::tree::{Leaf, Path, bit};

/// Gives pages by their newest record.
pub trait Pages: Sync {
    /// The page whose paths begin with `prefix`.
    fn page(&self, newest: Location, prefix: &Path) -> Result<Arc<Loaded>, StoreError>;
}

pub(crate) fn no_index(at: Location) -> StoreError {
    StoreError::Corrupt(format!("pages record at {at:?}: it is no index page"))
}

pub(crate) fn no_leaf(at: Location) -> StoreError {
    StoreError::Corrupt(format!("pages record at {at:?}: it is no leaf page"))
}

/// The index page whose newest record is at `at`.
pub(crate) fn index_at(loaded: &Loaded, at: Location, depth: u8) -> Result<&IndexPage, StoreError> {
    match &loaded.page {
        Page::Index(page) if page.depth == depth => Ok(page),
        _ => Err(no_index(at)),
    }
}

pub(crate) fn leaf_at(loaded: &Loaded, at: Location) -> Result<&LeafPage, StoreError> {
    match &loaded.page {
        Page::Leaf(page) => Ok(page),
        Page::Index(_) => Err(no_leaf(at)),
    }
}

pub(crate) fn slot(path: &Path, depth: u8) -> u8 {
    path.get(usize::from(depth)).copied().unwrap_or_default()
}

/// The path's first `depth` bytes, then `slot`, then zeros: what the pages below need to know.
pub(crate) fn prefix_of(path: &Path, depth: u8, slot: u8) -> Path {
    let mut prefix = *path;
    if let Some(rest) = prefix.get_mut(usize::from(depth)..) {
        rest.fill(0);
        if let Some(first) = rest.first_mut() {
            *first = slot;
        }
    }
    prefix
}

/// First bit below a run of `2^bits` slots at `depth`.
pub(crate) fn level_of(depth: u8, bits: u8) -> usize {
    usize::from(depth) * 8 + 8 - usize::from(bits)
}

/// Calls `each` with every path's entry and its number in its leaf page, or none, in their order.
/// Paths ascend.
pub fn find(
    pages: &impl Pages,
    root: Location,
    paths: &[Path],
    each: &mut impl FnMut(Option<(usize, &Entry)>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    find_below(pages, root, 0, paths, each)
}

fn find_below(
    pages: &impl Pages,
    at: Location,
    depth: u8,
    mut paths: &[Path],
    each: &mut impl FnMut(Option<(usize, &Entry)>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let Some(first) = paths.first() else { return Ok(()) };
    let prefix = prefix_of(first, depth, 0);
    let loaded = pages.page(at, &prefix)?;
    let index = index_at(&loaded, at, depth)?;
    while let Some(first) = paths.first() {
        let child = index.child(slot(first, depth)).ok_or_else(|| no_index(at))?;
        let count = paths.partition_point(|p| u16::from(slot(p, depth)) < child.end());
        let (own, rest) = paths.split_at(count.max(1));
        paths = rest;
        match (child.kind, child.record) {
            (Kind::Index, Some((_, below))) => find_below(pages, below, depth + 1, own, each)?,
            (Kind::Leaf(_), Some((_, below))) => {
                let leaf = pages.page(below, &prefix_of(first, depth, child.slot))?;
                let page = leaf_at(&leaf, below)?;
                for path in own {
                    each(page.find(path))?;
                }
            }
            _ => own.iter().try_for_each(|_| each(None))?,
        }
    }
    Ok(())
}

/// Calls `each` with every page, leaf pages by ascending path.
pub fn visit(
    pages: &impl Pages,
    root: Location,
    each: &mut impl FnMut(&Loaded) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    visit_below(pages, root, 0, &[0; 32], each)
}

fn visit_below(
    pages: &impl Pages,
    at: Location,
    depth: u8,
    prefix: &Path,
    each: &mut impl FnMut(&Loaded) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let loaded = pages.page(at, prefix)?;
    let index = index_at(&loaded, at, depth)?;
    each(&loaded)?;
    for child in &index.children {
        let Some((_, below)) = child.record else { continue };
        let prefix = prefix_of(prefix, depth, child.slot);
        match child.kind {
            Kind::Index => visit_below(pages, below, depth + 1, &prefix, each)?,
            Kind::Leaf(_) => {
                let leaf = pages.page(below, &prefix)?;
                leaf_at(&leaf, below)?;
                each(&leaf)?;
            }
        }
    }
    Ok(())
}

/// Calls `each` with every live entry of which the first 64 bits of the path are in a range, by
/// ascending path.
pub fn visit_between(
    pages: &impl Pages,
    root: Location,
    range: (u128, u128),
    each: &mut impl FnMut(&Entry) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    between_below(pages, root, (0, &[0; 32]), range, each)
}

fn first_bits(path: &Path) -> u128 {
    path.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes).into())
}

fn between_below(
    pages: &impl Pages,
    at: Location,
    (depth, prefix): (u8, &Path),
    range: (u128, u128),
    each: &mut impl FnMut(&Entry) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let loaded = pages.page(at, prefix)?;
    let index = index_at(&loaded, at, depth)?;
    for child in &index.children {
        let Some((_, below)) = child.record else { continue };
        let prefix = prefix_of(prefix, depth, child.slot);
        let first = first_bits(&prefix);
        let width = 1 << 64usize.saturating_sub(level_of(depth, child.bits));
        if first >= range.1 || first + width <= range.0 {
            continue;
        }
        if child.kind == Kind::Index {
            between_below(pages, below, (depth + 1, &prefix), range, each)?;
            continue;
        }
        let leaf = pages.page(below, &prefix)?;
        let inside = |e: &&Entry| (range.0..range.1).contains(&first_bits(&e.path));
        let live = leaf_at(&leaf, below)?.entries.iter().filter(|entry| entry.value.is_some());
        live.filter(inside).try_for_each(&mut *each)?;
    }
    Ok(())
}

/// The proof of a path, and its value record if it has one.
pub fn prove<H: Hasher>(
    pages: &impl Pages,
    root: Location,
    path: &Path,
) -> Result<(Proof, Option<Location>), StoreError> {
    let mut forest = Forest::default();
    let mut siblings = Vec::new();
    let end = walk_down(pages, root, path, &mut forest, &mut siblings)?;
    forest.hash::<H>();
    let siblings = siblings.into_iter().map(|id| forest.sub(id).hash()).collect();
    let own = end.filter(|entry| entry.path == *path).map(|entry| entry.at);
    let terminal = match end {
        None => Terminal::Empty,
        Some(_) if own.is_some() => Terminal::Own,
        Some(Entry { path, value, .. }) => {
            Terminal::Other(Leaf { path, value: value.unwrap_or_default() })
        }
    };
    Ok((Proof { siblings, terminal }, own))
}

/// Collects the siblings along a path, root first, and returns the entry at its end.
fn walk_down(
    pages: &impl Pages,
    root: Location,
    path: &Path,
    forest: &mut Forest,
    siblings: &mut Vec<Id>,
) -> Result<Option<Entry>, StoreError> {
    let (mut at, mut depth) = (root, 0);
    loop {
        let loaded = pages.page(at, &prefix_of(path, depth, 0))?;
        let index = index_at(&loaded, at, depth)?;
        let known = |child: &Child| (child.slot, child.bits, forest.known(child.sub));
        let ids: Vec<(u8, u8, Id)> = index.children.iter().map(known).collect();
        let (mut start, mut bits) = (0u8, 8u8);
        let below = loop {
            match shape(in_run(&index.children, start, bits)) {
                Sub::Empty => return Ok(None),
                Sub::Leaf(_) => return lone_leaf(pages, index, path, (start, bits)).map(Some),
                Sub::Node(_) => {}
            }
            let child = index.child(slot(path, depth)).ok_or_else(|| no_index(at))?;
            if child.bits >= bits {
                break *child;
            }
            bits -= 1;
            let middle = start + (1 << bits);
            let right = slot(path, depth) >= middle;
            let (own, other) = if right { (middle, start) } else { (start, middle) };
            let from = index.children.partition_point(|child| child.end() <= other.into());
            let run = in_run(&index.children, other, bits).len();
            let run = ids.get(from..from + run).unwrap_or_default();
            siblings.push(forest.run(run, other, bits));
            start = own;
        };
        match below {
            Child { kind: Kind::Index, record: Some((_, below)), .. } => {
                (at, depth) = (below, depth + 1);
            }
            Child { kind: Kind::Leaf(_), record: Some((_, below)), slot, bits, .. } => {
                let leaf = pages.page(below, &prefix_of(path, depth, slot))?;
                let page = leaf_at(&leaf, below)?;
                let live: Vec<&Entry> =
                    page.entries.iter().filter(|entry| entry.value.is_some()).collect();
                return Ok(walk_leaf(&live, path, level_of(depth, bits), forest, siblings));
            }
            Child { record: None, .. } => return Err(no_leaf(at)),
        }
    }
}

/// What children's subtree is, without its hash.
fn shape(children: &[Child]) -> Sub {
    let mut shape = Sub::Empty;
    for child in children {
        shape = match (shape, child.sub) {
            (shape, Sub::Empty) => shape,
            (Sub::Empty, sub) => sub,
            _ => return Sub::Node(EMPTY),
        };
    }
    shape
}

fn in_run(children: &[Child], start: u8, bits: u8) -> &[Child] {
    let end = u16::from(start) + (1 << bits);
    let from = children.partition_point(|child| child.end() <= start.into());
    let to = children.partition_point(|child| u16::from(child.slot) < end);
    children.get(from..to).unwrap_or_default()
}

/// The only live entry below a run of slots.
fn lone_leaf(
    pages: &impl Pages,
    index: &IndexPage,
    path: &Path,
    (start, bits): (u8, u8),
) -> Result<Entry, StoreError> {
    let (mut index, mut depth) = (index.clone(), index.depth);
    let mut prefix = *path;
    let (mut start, mut end) = (u16::from(start), u16::from(start) + (1 << bits));
    loop {
        let child = index
            .children
            .iter()
            .find(|c| c.sub != Sub::Empty && u16::from(c.slot) < end && c.end() > start)
            .copied();
        let Some(Child { kind, record: Some((_, at)), slot, .. }) = child else {
            return Err(StoreError::Corrupt(format!("no leaf below slot {start}")));
        };
        prefix = prefix_of(&prefix, depth, slot);
        let loaded = pages.page(at, &prefix)?;
        match kind {
            Kind::Leaf(_) => {
                let live = leaf_at(&loaded, at)?.entries.iter().find(|e| e.value.is_some());
                return live.copied().ok_or_else(|| no_leaf(at));
            }
            Kind::Index => {
                depth += 1;
                index = index_at(&loaded, at, depth)?.clone();
                (start, end) = (0, 256);
            }
        }
    }
}

/// The same within a leaf page.
fn walk_leaf(
    live: &[&Entry],
    path: &Path,
    mut level: usize,
    forest: &mut Forest,
    siblings: &mut Vec<Id>,
) -> Option<Entry> {
    let mut below = live;
    loop {
        match below {
            [] => return None,
            [lone] => return Some(**lone),
            _ => {}
        }
        let (left, right) = below.split_at(below.partition_point(|e| !bit(&e.path, level)));
        let (own, other) = if bit(path, level) { (right, left) } else { (left, right) };
        level += 1;
        siblings.push(forest.leaves(other.iter().filter_map(|entry| entry.leaf()), level));
        below = own;
    }
}
