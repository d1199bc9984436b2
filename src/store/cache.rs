//! Pages in memory, by the place of their newest record, within a budget.
//!
//! What is under a place never changes, so a page in memory serves every version that has it. Two
//! generations: what is asked for moves to the young one; when that holds half of the budget, the
//! old one goes and the young one becomes it.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::location::Location;
use crate::page::{Child, Entry, Loaded, Page};

/// Bytes of a page without its parts, with what the maps need.
const PAGE_BYTES: usize = 192;

/// Pages in memory.
#[derive(Debug)]
pub struct Cache {
    budget: usize,
    young: FxHashMap<Location, Arc<Loaded>>,
    young_bytes: usize,
    old: FxHashMap<Location, Arc<Loaded>>,
}

fn size(loaded: &Loaded) -> usize {
    PAGE_BYTES
        + match &loaded.page {
            Page::Leaf(page) => page.entries.len() * size_of::<Entry>(),
            Page::Index(page) => page.children.len() * size_of::<Child>(),
        }
}

impl Cache {
    /// An empty cache of at most `budget` bytes.
    pub fn new(budget: u64) -> Self {
        Self {
            budget: usize::try_from(budget).unwrap_or(usize::MAX),
            young: FxHashMap::default(),
            young_bytes: 0,
            old: FxHashMap::default(),
        }
    }

    /// A page that is here.
    pub fn get(&mut self, at: Location) -> Option<Arc<Loaded>> {
        if let Some(page) = self.young.get(&at) {
            return Some(Arc::clone(page));
        }
        let page = self.old.remove(&at)?;
        self.put(at, Arc::clone(&page));
        Some(page)
    }

    /// Keeps a page.
    pub fn put(&mut self, at: Location, page: Arc<Loaded>) {
        self.young_bytes += size(&page);
        if let Some(before) = self.young.insert(at, page) {
            self.young_bytes -= size(&before);
        }
        if self.young_bytes > self.budget / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
    }

    /// Forgets a page that the newest version no longer has.
    pub fn remove(&mut self, at: Location) {
        if let Some(page) = self.young.remove(&at) {
            self.young_bytes -= size(&page);
        } else {
            self.old.remove(&at);
        }
    }
}
