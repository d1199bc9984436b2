//! The index: finds entries.
//!
//! A version is a root page and all that it leads to; nothing of an older version is ever changed.
//! [`crate::update`] makes the next one, [`crate::walk`] proves.

use std::ops::Range;
use std::sync::Arc;

use crate::StoreError;
use crate::location::Location;
use crate::page::{Entry, IndexPage, Kind, LeafPage, Loaded, Page};
use crate::tree::{Path, first_bits};

/// All paths, by their first 64 bits.
pub const ALL: Range<u128> = 0..1 << 64;

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

/// Calls `each` with every page of which the first 64 bits of the paths are in a range, leaf pages
/// by ascending path.
pub fn visit(
    pages: &impl Pages,
    root: Location,
    range: &Range<u128>,
    each: &mut impl FnMut(&Loaded) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    visit_below(pages, root, (0, &[0; 32]), range, each)
}

fn visit_below(
    pages: &impl Pages,
    at: Location,
    (depth, prefix): (u8, &Path),
    range: &Range<u128>,
    each: &mut impl FnMut(&Loaded) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let loaded = pages.page(at, prefix)?;
    let index = index_at(&loaded, at, depth)?;
    each(&loaded)?;
    for child in &index.children {
        let Some((_, below)) = child.record else { continue };
        let prefix = prefix_of(prefix, depth, child.slot);
        let first = u128::from(first_bits(&prefix));
        let width = 1 << 64usize.saturating_sub(level_of(depth, child.bits));
        if first >= range.end || first + width <= range.start {
            continue;
        }
        match child.kind {
            Kind::Index => visit_below(pages, below, (depth + 1, &prefix), range, each)?,
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
pub fn entries(
    pages: &impl Pages,
    root: Location,
    range: &Range<u128>,
    each: &mut impl FnMut(&Entry) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    visit(pages, root, range, &mut |loaded| {
        let Page::Leaf(page) = &loaded.page else { return Ok(()) };
        let inside = |e: &&Entry| range.contains(&u128::from(first_bits(&e.path)));
        page.live().filter(inside).try_for_each(&mut *each)
    })
}
