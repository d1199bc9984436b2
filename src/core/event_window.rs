//! The part of the contract's event queue that a node needs: from the chain's cursor to what the
//! follower has read, at most [`OBSERVATION_REACH`] events.
//!
//! The follower publishes immutable copies; vote extensions and proposals read them. Events are
//! shared between copies, so that a copy costs a pointer an event.

use std::collections::VecDeque;
use std::sync::Arc;

use alloy_primitives::B256;

use crate::event::{OBSERVATION_REACH, event_hash};

#[derive(Debug, Clone)]
struct Entry {
    bytes: Arc<[u8]>,
    /// Hash of the queue after this event.
    hash: B256,
}

/// A run of the queue's events with the hash at each count.
#[derive(Debug, Clone, Default)]
pub struct EventWindow {
    base_count: u64,
    base_hash: B256,
    entries: VecDeque<Entry>,
}

/// The window holds as many events as a proposal may list; advance it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the event window is full at {count} events")]
pub struct WindowFull {
    /// Events read.
    pub count: u64,
}

impl EventWindow {
    /// An empty window at a point of the queue.
    pub fn new(base_count: u64, base_hash: B256) -> Self {
        Self { base_count, base_hash, entries: VecDeque::new() }
    }

    /// Count before the first event that the window holds.
    pub fn base_count(&self) -> u64 {
        self.base_count
    }

    /// Events read: the count after the last event that the window holds.
    pub fn count(&self) -> u64 {
        self.base_count + self.entries.len() as u64
    }

    /// Hash of the queue at the count.
    pub fn hash(&self) -> B256 {
        self.entries.back().map_or(self.base_hash, |entry| entry.hash)
    }

    /// Hash of the queue after its first `count` events; none outside the window.
    pub fn hash_at(&self, count: u64) -> Option<B256> {
        match count.checked_sub(self.base_count)? {
            0 => Some(self.base_hash),
            after => Some(self.entries.get(usize::try_from(after - 1).ok()?)?.hash),
        }
    }

    /// The events number `from ..= to` (1 is the queue's first); none if one is outside.
    pub fn events(&self, from: u64, to: u64) -> Option<Vec<Arc<[u8]>>> {
        let start = usize::try_from(from.checked_sub(self.base_count + 1)?).ok()?;
        let end = usize::try_from(to.checked_sub(self.base_count)?).ok()?;
        if start > end || end > self.entries.len() {
            return None;
        }
        Some(self.entries.range(start..end).map(|entry| Arc::clone(&entry.bytes)).collect())
    }

    /// Appends the queue's next event and returns the queue's hash after it.
    pub fn push(&mut self, e: &[u8]) -> Result<B256, WindowFull> {
        if self.entries.len() as u64 >= OBSERVATION_REACH {
            return Err(WindowFull { count: self.count() });
        }
        let hash = event_hash(self.hash(), e);
        self.entries.push_back(Entry { bytes: e.into(), hash });
        Ok(hash)
    }

    /// Forgets the events up to the chain's cursor, as far as the window has read.
    pub fn advance(&mut self, cursor: u64) {
        while self.base_count < cursor
            && let Some(entry) = self.entries.pop_front()
        {
            self.base_count += 1;
            self.base_hash = entry.hash;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_hashes_are_found_by_number() {
        let mut window = EventWindow::new(0, B256::ZERO);
        let hashes: Vec<B256> = (0..5u8).map(|i| window.push(&[i]).unwrap()).collect();
        window.advance(2);
        assert_eq!((window.base_count(), window.count()), (2, 5));
        assert_eq!(window.hash_at(1), None);
        assert_eq!(window.hash_at(2), Some(hashes[1]));
        assert_eq!(window.hash_at(5), Some(hashes[4]));
        assert_eq!(window.hash_at(6), None);
        let bytes: Vec<_> = window.events(3, 4).unwrap();
        assert_eq!(bytes.iter().map(|e| e[0]).collect::<Vec<_>>(), [2, 3]);
        assert!(window.events(2, 4).is_none() && window.events(3, 6).is_none());
        window.advance(9);
        assert_eq!((window.base_count(), window.count(), window.hash()), (5, 5, hashes[4]));
    }

    #[test]
    fn a_full_window_waits() {
        let mut window = EventWindow::new(7, B256::ZERO);
        for _ in 0..OBSERVATION_REACH {
            window.push(&[0]).unwrap();
        }
        assert_eq!(window.push(&[0]), Err(WindowFull { count: 7 + OBSERVATION_REACH }));
        window.advance(8);
        assert!(window.push(&[0]).is_ok());
    }
}
