//! The next version of the index.
//!
//! [`apply`] takes the sorted changes of a commit in one pass from left to right and returns the
//! pages that differ, hashed, in memory; [`NewIndex::write`] gives them their records, children
//! before their parents.

use std::sync::Arc;

use crate::forest::{Forest, Id};
use crate::hash::Hasher;
use crate::index::{Pages, index_at, leaf_at, level_of, no_index, no_leaf, prefix_of, slot};
use crate::letus::full;
use crate::location::Location;
use crate::page::{
    Child, ENTRIES_MAX, ENTRIES_MERGE, Entry, IndexPage, Kind, LeafChange, LeafPage, Links, Loaded,
    Page, Sub, change_leaf,
};
use crate::page_record::{index_base, index_delta, leaf_base, leaf_delta};
use crate::stream::Appender;
use crate::tree::{Leaf, Path, bit};
use crate::{StoreError, Version};

/// When a page gets a new base.
#[derive(Debug, Clone, Copy)]
pub struct BaseRule {
    /// When its deltas have so many times the bytes of its base.
    pub ratio: u64,
    /// When it has so many deltas.
    pub deltas: u64,
    /// The new base is without the tombstones before this place, which no kept version needs.
    pub floor: Location,
}

/// A key's new entry.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// The entry.
    pub entry: Entry,
    /// Number of the entry before in its leaf page, as [`crate::index::find`] gives it.
    pub number: Option<usize>,
}

/// A leaf page that differs from the version before.
enum NewLeaf {
    /// The page that it was, what is done to it, and how many entries it has then.
    Changed(Arc<Loaded>, Vec<LeafChange>, usize),
    /// A page with other borders.
    Whole(LeafPage),
}

impl NewLeaf {
    fn count(&self) -> usize {
        match self {
            Self::Changed(.., count) => *count,
            Self::Whole(page) => page.entries.len(),
        }
    }

    /// Adds the page's subtree below `level` to a forest.
    fn leaves(&self, forest: &mut Forest, level: usize) -> Id {
        match self {
            Self::Changed(from, changes, _) => forest.leaves(changed(from, changes), level),
            Self::Whole(page) => forest.leaves(page.leaves(), level),
        }
    }

    fn page(self) -> Option<LeafPage> {
        match self {
            Self::Changed(from, changes, _) => {
                let Page::Leaf(page) = &from.page else { return None };
                let mut page = page.clone();
                change_leaf(&mut page, &changes)?;
                Some(page)
            }
            Self::Whole(page) => Some(page),
        }
    }
}

/// A page's leaves after changes, which ascend by path: the page itself is not copied.
fn changed<'a>(from: &'a Loaded, changes: &'a [LeafChange]) -> impl Iterator<Item = Leaf> + 'a {
    let entries = match &from.page {
        Page::Leaf(page) => &page.entries[..],
        Page::Index(_) => &[],
    };
    let (mut number, mut next) = (0, 0);
    std::iter::from_fn(move || {
        let entry = match changes.get(next) {
            Some(LeafChange::Set(at, entry)) if *at == number => {
                (number, next) = (number + 1, next + 1);
                entry
            }
            Some(LeafChange::Insert(entry))
                if entries.get(number).is_none_or(|old| entry.path < old.path) =>
            {
                next += 1;
                entry
            }
            _ => {
                number += 1;
                entries.get(number - 1)?
            }
        };
        Some(entry.leaf())
    })
    .flatten()
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

    /// Whether it and the child to its right become one: small leaf pages of one run, of which
    /// one has changed.
    fn merges(&self, right: &Self) -> bool {
        let changed = |child: &Self| !matches!(child.what, What::Kept(_));
        let aligned = self.bits < 8 && self.slot.trailing_zeros() > self.bits.into();
        let buddies = self.bits == right.bits
            && aligned
            && u16::from(self.slot) + (1 << self.bits) == right.slot.into();
        let small = match (self.entries(), right.entries()) {
            (Some(a), Some(b)) => a + b < ENTRIES_MERGE,
            _ => false,
        };
        buddies && small && (changed(self) || changed(right))
    }

    /// Number of entries, if it is a leaf page.
    fn entries(&self) -> Option<usize> {
        match &self.what {
            What::Kept(Child { kind: Kind::Leaf(count), .. }) => Some((*count).into()),
            What::Leaf(leaf) => Some(leaf.count()),
            _ => None,
        }
    }
}

/// What one thread works with.
#[derive(Default)]
struct Work {
    forest: Forest,
    /// Newest records of the pages that it has replaced.
    replaced: Vec<Location>,
}

/// What all of a commit's pages share.
struct Maker<'a, P> {
    pages: &'a P,
    rule: BaseRule,
}

/// The pages of the next version, and the newest records of those that they replace; `root` is
/// this one's root page, none in an empty store. Changes ascend by path.
pub fn apply<H: Hasher>(
    pages: &impl Pages,
    root: Option<Location>,
    changes: &[Change],
    rule: BaseRule,
    workers: usize,
) -> Result<(NewIndex, Vec<Location>), StoreError> {
    let from = root.map(|at| pages.page(at, &[0; 32])).transpose()?;
    let empty = IndexPage::empty(0);
    let page = match (&from, root) {
        (Some(loaded), Some(at)) => index_at(loaded, at, 0)?,
        _ => &empty,
    };
    let maker = Maker { pages, rule };
    let jobs: Vec<Job<'_>> = jobs(page, changes).collect();
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
    let make = |jobs: &[Job<'_>]| {
        let mut work = Work::default();
        let children = maker.children::<H>(&mut work, 0, &[0; 32], jobs.iter().copied());
        children.map(|children| (children, work.replaced))
    };
    let made: Vec<Result<_, StoreError>> = std::thread::scope(|scope| {
        let make = &make;
        let others = parts.iter().skip(1);
        let threads: Vec<_> = others.map(|jobs| scope.spawn(move || make(jobs))).collect();
        let first = parts.first().map(|jobs| make(jobs));
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        first.into_iter().chain(threads.into_iter().map(join)).collect()
    });
    let mut children = Vec::with_capacity(page.children.len());
    let mut work = Work::default();
    work.replaced.extend(root);
    for made in made {
        let (part, replaced) = made?;
        children.extend(part);
        work.replaced.extend(replaced);
    }
    let children = maker.merge(&mut work, 0, &[0; 32], children)?;
    let root = NewIndex::new::<H>(&mut work.forest, 0, children, from);
    Ok((root, work.replaced))
}

/// A child with the changes below it.
type Job<'a> = (Child, &'a [Change]);

fn jobs<'a>(page: &'a IndexPage, mut changes: &'a [Change]) -> impl Iterator<Item = Job<'a>> + 'a {
    page.children.iter().map(move |child| {
        let below = |c: &Change| u16::from(slot(&c.entry.path, page.depth)) < child.end();
        let (own, rest) = changes.split_at(changes.partition_point(below));
        changes = rest;
        (*child, own)
    })
}

impl<P: Pages> Maker<'_, P> {
    fn children<'j, H: Hasher>(
        &self,
        work: &mut Work,
        depth: u8,
        prefix: &Path,
        jobs: impl Iterator<Item = Job<'j>>,
    ) -> Result<Vec<NewChild>, StoreError> {
        let mut out = Vec::with_capacity(jobs.size_hint().0);
        for (child, changes) in jobs {
            if changes.is_empty() {
                out.push(NewChild::kept(child));
                continue;
            }
            let prefix = prefix_of(prefix, depth, child.slot);
            work.replaced.extend(child.record.map(|(_, at)| at));
            match (child.kind, child.record) {
                (Kind::Index, Some((_, at))) => {
                    let below = (child.slot, at, depth + 1);
                    out.push(self.index::<H>(work, below, &prefix, changes)?);
                }
                (Kind::Index, None) => return Err(no_index(Location::default())),
                (Kind::Leaf(_), record) => {
                    let from = record.map(|(_, at)| self.pages.page(at, &prefix)).transpose()?;
                    let leaf = changed_leaf(from, record, changes, self.rule)?;
                    place::<H>(&mut work.forest, &mut out, depth, (child.slot, child.bits), leaf)
                        .ok_or_else(|| no_leaf(record.map(|(_, at)| at).unwrap_or_default()))?;
                }
            }
        }
        Ok(out)
    }

    fn index<H: Hasher>(
        &self,
        work: &mut Work,
        (slot, at, depth): (u8, Location, u8),
        prefix: &Path,
        changes: &[Change],
    ) -> Result<NewChild, StoreError> {
        let from = self.pages.page(at, prefix)?;
        let page = index_at(&from, at, depth)?;
        let children = self.children::<H>(work, depth, prefix, jobs(page, changes))?;
        let mut children = self.merge(work, depth, prefix, children)?;
        // A page with one leaf page is that leaf page.
        if let [only] = &children[..]
            && only.entries().is_some()
            && let Some(only) = children.pop()
        {
            let page = self.entries(work, depth, prefix, only)?;
            return Ok(NewChild::leaf(slot, 0, NewLeaf::Whole(page)));
        }
        Ok(NewChild::index(slot, NewIndex::new::<H>(&mut work.forest, depth, children, Some(from))))
    }

    /// Joins neighbouring leaf pages that have become small.
    fn merge(
        &self,
        work: &mut Work,
        depth: u8,
        prefix: &Path,
        children: Vec<NewChild>,
    ) -> Result<Vec<NewChild>, StoreError> {
        if !children.array_windows().any(|[left, right]| left.merges(right)) {
            return Ok(children);
        }
        let mut out: Vec<NewChild> = Vec::with_capacity(children.len());
        for child in children {
            out.push(child);
            while let [.., left, right] = &out[..] {
                if !left.merges(right) {
                    break;
                }
                let (Some(right), Some(left)) = (out.pop(), out.pop()) else { break };
                let (slot, bits) = (left.slot, left.bits + 1);
                let mut page = self.entries(work, depth, prefix, left)?;
                page.entries.extend(self.entries(work, depth, prefix, right)?.entries);
                out.push(NewChild::leaf(slot, bits, NewLeaf::Whole(page)));
            }
        }
        Ok(out)
    }

    /// The entries of a child that is a leaf page.
    fn entries(
        &self,
        work: &mut Work,
        depth: u8,
        prefix: &Path,
        child: NewChild,
    ) -> Result<LeafPage, StoreError> {
        match child.what {
            What::Leaf(leaf) => leaf.page().ok_or_else(|| no_leaf(Location::default())),
            What::Kept(Child { record: Some((_, at)), slot, .. }) => {
                work.replaced.push(at);
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
    rule: BaseRule,
) -> Result<NewLeaf, StoreError> {
    let Some((from, (_, at))) = from.zip(record) else {
        let entries = changes.iter().map(|change| change.entry).collect();
        return Ok(NewLeaf::Whole(LeafPage { entries }));
    };
    let count = leaf_at(&from, at)?.entries.len();
    let count = count + changes.iter().filter(|change| change.number.is_none()).count();
    let changes = changes
        .iter()
        .map(|change| match change.number {
            Some(number) => LeafChange::Set(number, change.entry),
            None => LeafChange::Insert(change.entry),
        })
        .collect();
    let delta = count <= ENTRIES_MAX && may_delta(&from.links, rule);
    let leaf = NewLeaf::Changed(from, changes, count);
    if delta {
        return Ok(leaf);
    }
    let mut page = leaf.page().ok_or_else(|| no_leaf(at))?;
    page.entries.retain(|entry| entry.value.is_some() || entry.at >= rule.floor);
    Ok(NewLeaf::Whole(page))
}

/// Puts a leaf page into its run, split until every part is small enough; none if its changes do
/// not fit it.
fn place<H: Hasher>(
    forest: &mut Forest,
    out: &mut Vec<NewChild>,
    depth: u8,
    (slot, bits): (u8, u8),
    leaf: NewLeaf,
) -> Option<()> {
    if leaf.count() <= ENTRIES_MAX {
        out.push(NewChild::leaf(slot, bits, leaf));
        return Some(());
    }
    let page = leaf.page()?;
    if bits == 0 {
        let mut children = Vec::new();
        place::<H>(forest, &mut children, depth + 1, (0, 8), NewLeaf::Whole(page))?;
        out.push(NewChild::index(slot, NewIndex::new::<H>(forest, depth + 1, children, None)));
        return Some(());
    }
    let level = level_of(depth, bits);
    let mut left = page.entries;
    let right = left.split_off(left.partition_point(|entry| !bit(&entry.path, level)));
    for (slot, entries) in [(slot, left), (slot + (1 << (bits - 1)), right)] {
        place::<H>(forest, out, depth, (slot, bits - 1), NewLeaf::Whole(LeafPage { entries }))?;
    }
    Some(())
}

/// A page of the next version for the cache.
pub enum Made {
    /// All of it.
    Page(Arc<Loaded>),
    /// A leaf page with its changes and its records then: they are made when the commit is durable,
    /// in place if nobody reads the page.
    Changed(Arc<Loaded>, Vec<LeafChange>, Links),
}

/// New pages by their newest record.
pub type Written = Vec<(Location, Made)>;

impl Made {
    /// The page; none if the changes do not fit it. Its version before is no longer in the cache.
    pub fn page(self) -> Option<Arc<Loaded>> {
        match self {
            Self::Page(page) => Some(page),
            Self::Changed(mut from, changes, links) => {
                let loaded = Arc::make_mut(&mut from);
                let Page::Leaf(page) = &mut loaded.page else { return None };
                change_leaf(page, &changes)?;
                loaded.links = links;
                Some(from)
            }
        }
    }
}

impl NewIndex {
    /// Hashes the new leaf pages and the page itself.
    fn new<H: Hasher>(
        forest: &mut Forest,
        depth: u8,
        mut children: Vec<NewChild>,
        from: Option<Arc<Loaded>>,
    ) -> Self {
        forest.clear();
        let ids: Vec<(u8, u8, Id)> = children
            .iter()
            .map(|child| {
                let id = match &child.what {
                    What::Leaf(leaf) => leaf.leaves(forest, level_of(depth, child.bits)),
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
    ) -> Result<Location, StoreError> {
        let mut children = Vec::with_capacity(self.children.len());
        let mut changed = Vec::new();
        for NewChild { slot, bits, sub, what } in self.children {
            let child = match what {
                What::Kept(child) => {
                    children.push(child);
                    continue;
                }
                What::Leaf(leaf) if leaf.count() == 0 => Child::empty(slot, bits),
                What::Leaf(leaf) => {
                    let count = leaf.count() as u8;
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
                let delta = |out: &mut _| index_delta(out, version, &links, page.depth, &changed);
                append(appender, delta, Some(links))?
            }
            None => append(appender, |out| index_base(out, version, &page), None)?,
        };
        let loaded = Loaded { page: Page::Index(page), links };
        written.push((links.newest, Made::Page(Arc::new(loaded))));
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
    ) -> Result<Location, StoreError> {
        let (links, made) = match self {
            Self::Changed(from, changes, _) if may_delta(&from.links, rule) => {
                let delta = |out: &mut _| leaf_delta(out, version, &from.links, skip, &changes);
                let links = append(appender, delta, Some(from.links))?;
                (links, Made::Changed(from, changes, links))
            }
            leaf => {
                let page = leaf.page().ok_or_else(|| no_leaf(Location::default()))?;
                let links = append(appender, |out| leaf_base(out, version, skip, &page), None)?;
                (links, Made::Page(Arc::new(Loaded { page: Page::Leaf(page), links })))
            }
        };
        written.push((links.newest, made));
        Ok(links.newest)
    }
}

fn may_delta(links: &Links, rule: BaseRule) -> bool {
    links.deltas < rule.deltas && links.delta_bytes < rule.ratio * links.base_bytes
}

/// Appends a record and says where the page's records are then.
fn append(
    appender: &mut Appender,
    encode: impl FnOnce(&mut Vec<u8>),
    before: Option<Links>,
) -> Result<Links, StoreError> {
    let (at, bytes) = appender.encode(encode).ok_or_else(|| full("pages"))?;
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
