//! The next version of the index.
//!
//! [`apply`] takes the sorted changes of a commit in one pass from left to right and returns the
//! pages that differ, hashed, in memory; [`NewIndex::write`] gives them their records, children
//! before their parents.

use std::sync::Arc;

use crate::forest::{Forest, Id};
use crate::hash::{Hash, Hasher};
use crate::index::{Pages, index_at, leaf_at, level_of, no_index, no_leaf, prefix_of, slot};
use crate::location::Location;
use crate::page::{
    Child, ENTRIES_MAX, ENTRIES_MERGE, Entry, IndexPage, Kind, LeafChange, LeafPage, Links, Loaded,
    Page, Sub, change_leaf,
};
use crate::page_record::{index_base, index_delta, leaf_base, leaf_delta};
use crate::stream::Appender;
use crate::tree::{Path, bit};
use crate::{StoreError, Version};

/// When a page gets a new base.
#[derive(Debug, Clone, Copy)]
pub struct BaseRule {
    /// When its deltas have so many times the bytes of its base.
    pub ratio: u64,
    /// When it has so many deltas.
    pub deltas: u64,
}

/// A key's new value record.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// Its place.
    pub path: Path,
    /// Hash of the value; none for a deletion.
    pub value: Option<Hash>,
    /// The record.
    pub at: Location,
}

/// A leaf page that differs from the version before.
struct NewLeaf {
    page: LeafPage,
    /// The page that it was, and what was done to it; none if its borders are new.
    from: Option<(Arc<Loaded>, Vec<LeafChange>)>,
}

/// An index page that differs.
pub struct NewIndex {
    depth: u8,
    children: Vec<NewChild>,
    sub: Sub,
    from: Option<Arc<Loaded>>,
}

enum What {
    Kept(Child),
    Leaf(NewLeaf),
    Index(Box<NewIndex>),
}

struct NewChild {
    slot: u8,
    bits: u8,
    /// Of a new leaf page: known once the whole index page is hashed.
    sub: Sub,
    what: What,
}

impl NewChild {
    fn leaf(slot: u8, bits: u8, leaf: NewLeaf) -> Self {
        Self { slot, bits, sub: Sub::Empty, what: What::Leaf(leaf) }
    }

    fn index(slot: u8, index: NewIndex) -> Self {
        Self { slot, bits: 0, sub: index.sub, what: What::Index(Box::new(index)) }
    }

    fn kept(child: Child) -> Self {
        Self { slot: child.slot, bits: child.bits, sub: child.sub, what: What::Kept(child) }
    }

    /// Number of entries, if it is a leaf page.
    fn entries(&self) -> Option<usize> {
        match &self.what {
            What::Kept(Child { kind: Kind::Leaf(count), .. }) => Some((*count).into()),
            What::Leaf(leaf) => Some(leaf.page.entries.len()),
            _ => None,
        }
    }
}

/// What all of a commit's pages share.
struct Maker<'a, P> {
    pages: &'a P,
}

/// The pages of the next version; `root` is this one's root page, none in an empty store. Changes
/// ascend by path.
pub fn apply<H: Hasher>(
    pages: &impl Pages,
    root: Option<Location>,
    changes: &[Change],
    workers: usize,
) -> Result<NewIndex, StoreError> {
    let from = root.map(|at| pages.page(at, &[0; 32])).transpose()?;
    let empty = IndexPage::empty(0);
    let page = match (&from, root) {
        (Some(loaded), Some(at)) => index_at(loaded, at, 0)?,
        _ => &empty,
    };
    let maker = Maker { pages };
    let jobs = jobs(page, changes);
    // Contiguous parts of the children, each with about the same number of changes.
    let part = changes.len().div_ceil(workers.max(1)).max(1);
    let mut parts: Vec<&[Job<'_>]> = Vec::new();
    let (mut rest, mut sum, mut taken) = (&jobs[..], 0, 0);
    for job in &jobs {
        (sum, taken) = (sum + job.1.len(), taken + 1);
        if sum >= part {
            let (own, after) = rest.split_at(taken);
            parts.push(own);
            (rest, sum, taken) = (after, 0, 0);
        }
    }
    parts.push(rest);
    let made: Vec<Result<Vec<NewChild>, StoreError>> = std::thread::scope(|scope| {
        let maker = &maker;
        let mut others = parts.iter().skip(1);
        let threads: Vec<_> = others
            .by_ref()
            .map(|jobs| scope.spawn(move || maker.children::<H>(0, &[0; 32], jobs)))
            .collect();
        let first = parts.first().map_or(Ok(Vec::new()), |j| maker.children::<H>(0, &[0; 32], j));
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        std::iter::once(first).chain(threads.into_iter().map(join)).collect()
    });
    let mut children = Vec::with_capacity(page.children.len());
    for made in made {
        children.extend(made?);
    }
    let children = maker.merge(0, &[0; 32], children)?;
    Ok(NewIndex::new::<H>(0, children, from))
}

/// A child with the changes below it.
type Job<'a> = (Child, &'a [Change]);

fn jobs<'a>(page: &IndexPage, mut changes: &'a [Change]) -> Vec<Job<'a>> {
    page.children
        .iter()
        .map(|child| {
            let end = child.end();
            let count = changes.partition_point(|c| u16::from(slot(&c.path, page.depth)) < end);
            let (own, rest) = changes.split_at(count);
            changes = rest;
            (*child, own)
        })
        .collect()
}

impl<P: Pages> Maker<'_, P> {
    fn children<H: Hasher>(
        &self,
        depth: u8,
        prefix: &Path,
        jobs: &[Job<'_>],
    ) -> Result<Vec<NewChild>, StoreError> {
        let mut out = Vec::with_capacity(jobs.len());
        for (child, changes) in jobs {
            if changes.is_empty() {
                out.push(NewChild::kept(*child));
                continue;
            }
            let prefix = prefix_of(prefix, depth, child.slot);
            match (child.kind, child.record) {
                (Kind::Index, Some((_, at))) => {
                    out.push(self.index::<H>(child.slot, at, depth + 1, &prefix, changes)?);
                }
                (Kind::Index, None) => return Err(no_index(Location::default())),
                (Kind::Leaf(_), record) => {
                    let from = record.map(|(_, at)| self.pages.page(at, &prefix)).transpose()?;
                    let leaf = changed_leaf(from, record, changes)?;
                    place::<H>(&mut out, depth, child.slot, child.bits, leaf);
                }
            }
        }
        Ok(out)
    }

    fn index<H: Hasher>(
        &self,
        slot: u8,
        at: Location,
        depth: u8,
        prefix: &Path,
        changes: &[Change],
    ) -> Result<NewChild, StoreError> {
        let from = self.pages.page(at, prefix)?;
        let page = index_at(&from, at, depth)?;
        let children = self.children::<H>(depth, prefix, &jobs(page, changes))?;
        let mut children = self.merge(depth, prefix, children)?;
        // A page with one leaf page is that leaf page.
        if let [only] = &children[..]
            && only.entries().is_some()
            && let Some(only) = children.pop()
        {
            let page = self.entries(depth, prefix, only)?;
            return Ok(NewChild::leaf(slot, 0, NewLeaf { page, from: None }));
        }
        Ok(NewChild::index(slot, NewIndex::new::<H>(depth, children, Some(from))))
    }

    /// Joins neighbouring leaf pages that have become small.
    fn merge(
        &self,
        depth: u8,
        prefix: &Path,
        children: Vec<NewChild>,
    ) -> Result<Vec<NewChild>, StoreError> {
        let mut out: Vec<NewChild> = Vec::with_capacity(children.len());
        for child in children {
            out.push(child);
            while let [.., left, right] = &out[..] {
                let changed = |child: &NewChild| !matches!(child.what, What::Kept(_));
                let aligned = left.bits < 8 && left.slot.trailing_zeros() > left.bits.into();
                let buddies = left.bits == right.bits
                    && aligned
                    && u16::from(left.slot) + (1 << left.bits) == right.slot.into();
                let small = match (left.entries(), right.entries()) {
                    (Some(a), Some(b)) => a + b < ENTRIES_MERGE,
                    _ => false,
                };
                if !(buddies && small && (changed(left) || changed(right))) {
                    break;
                }
                let (Some(right), Some(left)) = (out.pop(), out.pop()) else { break };
                let (slot, bits) = (left.slot, left.bits + 1);
                let mut page = self.entries(depth, prefix, left)?;
                page.entries.extend(self.entries(depth, prefix, right)?.entries);
                out.push(NewChild::leaf(slot, bits, NewLeaf { page, from: None }));
            }
        }
        Ok(out)
    }

    /// The entries of a child that is a leaf page.
    fn entries(&self, depth: u8, prefix: &Path, child: NewChild) -> Result<LeafPage, StoreError> {
        match child.what {
            What::Leaf(leaf) => Ok(leaf.page),
            What::Kept(Child { record: Some((_, at)), slot, .. }) => {
                let loaded = self.pages.page(at, &prefix_of(prefix, depth, slot))?;
                leaf_at(&loaded, at).cloned()
            }
            _ => Ok(LeafPage::default()),
        }
    }
}

fn changed_leaf(
    from: Option<Arc<Loaded>>,
    record: Option<(Version, Location)>,
    changes: &[Change],
) -> Result<NewLeaf, StoreError> {
    let at = record.map(|(_, at)| at).unwrap_or_default();
    // Searched in the copy: it is in the processor's cache.
    let old = match &from {
        Some(loaded) => leaf_at(loaded, at)?.clone(),
        None => LeafPage::default(),
    };
    let changes: Vec<LeafChange> = changes
        .iter()
        .map(|change| match old.find(&change.path) {
            Some((number, _)) => LeafChange::Set(number, change.value, change.at),
            None => {
                let Change { path, value, at } = *change;
                LeafChange::Insert(Entry { path, value, at })
            }
        })
        .collect();
    let page = change_leaf(old, &changes).ok_or_else(|| no_leaf(at))?;
    Ok(NewLeaf { page, from: from.map(|from| (from, changes)) })
}

/// Puts a leaf page into its run, split until every part is small enough.
fn place<H: Hasher>(out: &mut Vec<NewChild>, depth: u8, slot: u8, bits: u8, leaf: NewLeaf) {
    let level = level_of(depth, bits);
    if leaf.page.entries.len() <= ENTRIES_MAX {
        out.push(NewChild::leaf(slot, bits, leaf));
    } else if bits == 0 {
        let mut children = Vec::new();
        place::<H>(&mut children, depth + 1, 0, 8, NewLeaf { from: None, ..leaf });
        out.push(NewChild::index(slot, NewIndex::new::<H>(depth + 1, children, None)));
    } else {
        let mut left = leaf.page.entries;
        let right = left.split_off(left.partition_point(|entry| !bit(&entry.path, level)));
        for (slot, entries) in [(slot, left), (slot + (1 << (bits - 1)), right)] {
            let leaf = NewLeaf { page: LeafPage { entries }, from: None };
            place::<H>(out, depth, slot, bits - 1, leaf);
        }
    }
}

/// What writing the pages of a commit gives.
#[derive(Default)]
pub struct Written {
    /// New pages by their newest record.
    pub made: Vec<(Location, Arc<Loaded>)>,
    /// Newest records of pages that are no longer of the newest version.
    pub replaced: Vec<Location>,
}

/// The stream has no room.
#[derive(Debug)]
pub struct Full;

impl NewIndex {
    /// Hashes the new leaf pages and the page itself.
    fn new<H: Hasher>(depth: u8, mut children: Vec<NewChild>, from: Option<Arc<Loaded>>) -> Self {
        let mut forest = Forest::default();
        let ids: Vec<(u8, u8, Id)> = children
            .iter()
            .map(|child| {
                let id = match &child.what {
                    What::Leaf(leaf) => {
                        forest.entries(&leaf.page.live(), level_of(depth, child.bits))
                    }
                    _ => forest.known(child.sub),
                };
                (child.slot, child.bits, id)
            })
            .collect();
        let own = forest.run(&ids, 0, 8);
        forest.hash::<H>();
        for (child, (.., id)) in children.iter_mut().zip(ids) {
            child.sub = forest.sub(id);
        }
        Self { depth, children, sub: forest.sub(own), from }
    }

    /// Its subtree.
    pub fn sub(&self) -> Sub {
        self.sub
    }

    /// Appends the records of all new pages; the place of this one's.
    pub fn write(
        self,
        appender: &mut Appender,
        version: Version,
        rule: BaseRule,
        written: &mut Written,
    ) -> Result<Location, Full> {
        let mut children = Vec::with_capacity(self.children.len());
        let mut changed = Vec::new();
        for NewChild { slot, bits, sub, what } in self.children {
            let child = match what {
                What::Kept(child) => {
                    children.push(child);
                    continue;
                }
                What::Leaf(leaf) if leaf.page.entries.is_empty() => Child::empty(slot, bits),
                What::Leaf(leaf) => {
                    let count = leaf.page.entries.len() as u8;
                    if self.depth == 0 {
                        appender.frame(version, slot);
                    }
                    let skip = self.depth + u8::from(bits == 0);
                    let at = leaf.write(appender, version, skip, rule, written)?;
                    Child { slot, bits, kind: Kind::Leaf(count), sub, record: Some((version, at)) }
                }
                What::Index(index) => {
                    if self.depth == 0 {
                        appender.frame(version, slot);
                    }
                    let at = index.write(appender, version, rule, written)?;
                    Child { slot, bits, kind: Kind::Index, sub, record: Some((version, at)) }
                }
            };
            children.push(child);
            changed.push(child);
        }
        let page = IndexPage { depth: self.depth, children };
        let from = self.from.map(|loaded| loaded.links);
        let links = match from.filter(|links| may_delta(links, rule)) {
            Some(links) => {
                let delta = index_delta(version, &links, page.depth, &changed);
                append(appender, &delta, Some(links))?
            }
            None => append(appender, &index_base(version, &page), None)?,
        };
        written.replaced.extend(from.map(|links| links.newest));
        let loaded = Loaded { page: Page::Index(page), links };
        written.made.push((links.newest, Arc::new(loaded)));
        Ok(links.newest)
    }
}

impl NewLeaf {
    fn write(
        self,
        appender: &mut Appender,
        version: Version,
        skip: u8,
        rule: BaseRule,
        written: &mut Written,
    ) -> Result<Location, Full> {
        let from = self.from.as_ref().map(|(loaded, changes)| (loaded.links, changes));
        let links = match from.filter(|(links, _)| may_delta(links, rule)) {
            Some((links, changes)) => {
                let delta = leaf_delta(version, &links, skip, changes);
                append(appender, &delta, Some(links))?
            }
            None => append(appender, &leaf_base(version, skip, &self.page), None)?,
        };
        written.replaced.extend(self.from.map(|(loaded, _)| loaded.links.newest));
        let loaded = Loaded { page: Page::Leaf(self.page), links };
        written.made.push((links.newest, Arc::new(loaded)));
        Ok(links.newest)
    }
}

fn may_delta(links: &Links, rule: BaseRule) -> bool {
    links.deltas < rule.deltas && links.delta_bytes < rule.ratio * links.base_bytes
}

/// Appends a record and says where the page's records are then.
fn append(appender: &mut Appender, body: &[u8], before: Option<Links>) -> Result<Links, Full> {
    let at = appender.record(body).ok_or(Full)?;
    let bytes = body.len() as u64;
    Ok(match before {
        None => Links { base: at, newest: at, base_bytes: bytes, deltas: 0, delta_bytes: 0 },
        Some(links) => Links {
            newest: at,
            deltas: links.deltas + 1,
            delta_bytes: links.delta_bytes + bytes,
            ..links
        },
    })
}
