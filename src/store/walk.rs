//! Walks from the root along paths: what one proof, or a proof of many keys, is made of.

use std::ops::Range;

use crate::StoreError;
use crate::forest::{Forest, Id};
use crate::hash::{EMPTY, Hash, Hasher};
use crate::index::{Pages, index_at, leaf_at, level_of, no_index, no_leaf, prefix_of, slot};
use crate::location::Location;
use crate::page::{Child, Entry, IndexPage, Kind, Sub};
use crate::proof::{Proof, Terminal};
use crate::tree::{Leaf, Path, bit};

/// What a walk meets, a subtree before its halves, left before right.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// An inner node on the way of a path.
    Node,
    /// A subtree that no path enters, below so many bits.
    Sibling(usize, Id),
    /// The leaf of a path.
    Own(Entry),
    /// The only leaf of a subtree, which is none of the paths'.
    Other(Entry),
    /// An empty subtree that paths enter.
    Empty,
}

impl Entry {
    fn other(&self) -> Leaf {
        Leaf { path: self.path, value: self.value.unwrap_or_default() }
    }
}

/// A walk along some paths.
pub(crate) struct Walk {
    forest: Forest,
    /// In preorder.
    pub(crate) steps: Vec<Step>,
}

impl Walk {
    /// Walks along ascending paths in the tree of a root page.
    pub(crate) fn new<H: Hasher>(
        pages: &impl Pages,
        root: Location,
        paths: &[Path],
    ) -> Result<Self, StoreError> {
        let mut walk = Self { forest: Forest::default(), steps: Vec::new() };
        walk.page(pages, root, 0, paths)?;
        walk.forest.hash::<H>();
        Ok(walk)
    }

    /// Hash of a sibling.
    pub(crate) fn hash(&self, sibling: Id) -> Hash {
        self.forest.sub(sibling).hash()
    }

    fn page(
        &mut self,
        pages: &impl Pages,
        at: Location,
        depth: u8,
        paths: &[Path],
    ) -> Result<(), StoreError> {
        let first = paths.first().copied().unwrap_or_default();
        let loaded = pages.page(at, &prefix_of(&first, depth, 0))?;
        let index = index_at(&loaded, at, depth)?;
        let known = |child: &Child| (child.slot, child.bits, self.forest.known(child.sub));
        let ids: Vec<(u8, u8, Id)> = index.children.iter().map(known).collect();
        self.run(pages, (at, index), &ids, (0, 8), paths)
    }

    /// A run of `2^bits` slots.
    fn run(
        &mut self,
        pages: &impl Pages,
        (at, index): (Location, &IndexPage),
        ids: &[(u8, u8, Id)],
        (start, bits): (u8, u8),
        paths: &[Path],
    ) -> Result<(), StoreError> {
        let depth = index.depth;
        let level = level_of(depth, bits);
        let range = in_run(&index.children, start, bits);
        let Some(first) = paths.first() else {
            let ids = ids.get(range).unwrap_or_default();
            let id = self.forest.run(ids, start, bits);
            self.steps.push(Step::Sibling(level, id));
            return Ok(());
        };
        let children = index.children.get(range).unwrap_or_default();
        match shape(children) {
            Sub::Empty => self.steps.push(Step::Empty),
            Sub::Leaf(_) => {
                let lone = lone_leaf(pages, index, first, (start, bits))?;
                self.end(lone, paths);
            }
            Sub::Node(_) => match children {
                [Child { kind: Kind::Index, record: Some((_, below)), .. }] => {
                    self.page(pages, *below, depth + 1, paths)?;
                }
                [Child { kind: Kind::Leaf(_), record: Some((_, below)), slot, bits, .. }] => {
                    let leaf = pages.page(*below, &prefix_of(first, depth, *slot))?;
                    let live: Vec<&Entry> = leaf_at(&leaf, *below)?.live().collect();
                    self.leaf(&live, level_of(depth, *bits), paths);
                }
                [Child { record: None, .. }] => return Err(no_leaf(at)),
                _ if bits == 0 => return Err(no_index(at)),
                _ => {
                    self.steps.push(Step::Node);
                    let middle = start + (1 << (bits - 1));
                    let left = paths.partition_point(|path| slot(path, depth) < middle);
                    let (left, right) = paths.split_at(left);
                    self.run(pages, (at, index), ids, (start, bits - 1), left)?;
                    self.run(pages, (at, index), ids, (middle, bits - 1), right)?;
                }
            },
        }
        Ok(())
    }

    /// Entries of a leaf page below `level` bits.
    fn leaf(&mut self, live: &[&Entry], level: usize, paths: &[Path]) {
        if paths.is_empty() {
            let leaves = live.iter().filter_map(|entry| entry.leaf());
            let id = self.forest.leaves(leaves, level);
            self.steps.push(Step::Sibling(level, id));
            return;
        }
        match live {
            [] => self.steps.push(Step::Empty),
            [lone] => self.end(**lone, paths),
            _ => {
                self.steps.push(Step::Node);
                let (left, right) =
                    live.split_at(live.partition_point(|entry| !bit(&entry.path, level)));
                let (below, above) = paths.split_at(paths.partition_point(|p| !bit(p, level)));
                self.leaf(left, level + 1, below);
                self.leaf(right, level + 1, above);
            }
        }
    }

    fn end(&mut self, lone: Entry, paths: &[Path]) {
        let own = paths.binary_search(&lone.path).is_ok();
        self.steps.push(if own { Step::Own(lone) } else { Step::Other(lone) });
    }
}

/// The proof of a path, and its value record if it has one.
pub(crate) fn prove<H: Hasher>(
    pages: &impl Pages,
    root: Location,
    path: &Path,
) -> Result<(Proof, Option<Location>), StoreError> {
    let walk = Walk::new::<H>(pages, root, &[*path])?;
    let (mut siblings, mut terminal, mut own) = (Vec::new(), Terminal::Empty, None);
    for step in &walk.steps {
        match step {
            Step::Node | Step::Empty => {}
            Step::Sibling(level, id) => siblings.push((*level, walk.hash(*id))),
            Step::Own(entry) => (terminal, own) = (Terminal::Own, Some(entry.at)),
            Step::Other(entry) => terminal = Terminal::Other(entry.other()),
        }
    }
    siblings.sort_unstable_by_key(|(level, _)| *level);
    let siblings = siblings.into_iter().map(|(_, hash)| hash).collect();
    Ok((Proof { siblings, terminal }, own))
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

/// The children that have slots of a run.
fn in_run(children: &[Child], start: u8, bits: u8) -> Range<usize> {
    let end = u16::from(start) + (1 << bits);
    let from = children.partition_point(|child| child.end() <= start.into());
    let to = children.partition_point(|child| u16::from(child.slot) < end);
    from..to
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
                let live = leaf_at(&loaded, at)?.live().next();
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
