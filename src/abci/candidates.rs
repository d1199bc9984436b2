//! Blocks of the height in progress that were executed already.
//!
//! Keyed by the hash of the transaction list and bound to a block hash in ProcessProposal, so that
//! FinalizeBlock takes the outcome of just the block that was decided. Many blocks can be proposed
//! at one height: at most [`CANDIDATES_MAX`] outcomes are kept, and the oldest unbound goes first.

use std::sync::Arc;

use bytes::Bytes;
use plasma_ledger::Outcome;
use sha2::{Digest, Sha256};

/// Outcomes kept for one height.
const CANDIDATES_MAX: usize = 4;

/// Identity of a transaction list.
pub type ListHash = [u8; 32];

/// The hash of a transaction list: each transaction after its length.
pub fn list_hash(txs: &[Bytes]) -> ListHash {
    let mut hasher = Sha256::new();
    for tx in txs {
        hasher.update((tx.len() as u64).to_le_bytes());
        hasher.update(tx);
    }
    hasher.finalize().into()
}

struct Candidate {
    list: ListHash,
    block_hash: Option<Bytes>,
    outcome: Arc<Outcome>,
}

/// The outcomes of one height.
#[derive(Default)]
pub struct Candidates {
    entries: Vec<Candidate>,
}

impl Candidates {
    /// The outcome of a transaction list.
    pub fn find(&self, list: &ListHash) -> Option<Arc<Outcome>> {
        self.entries.iter().find(|c| c.list == *list).map(|c| Arc::clone(&c.outcome))
    }

    /// The outcome of the block that ProcessProposal saw under this hash.
    pub fn bound(&self, block_hash: &Bytes) -> Option<Arc<Outcome>> {
        let entry = self.entries.iter().find(|c| c.block_hash.as_ref() == Some(block_hash))?;
        Some(Arc::clone(&entry.outcome))
    }

    /// Keeps an outcome.
    pub fn insert(&mut self, list: ListHash, outcome: Arc<Outcome>) {
        if self.entries.iter().any(|c| c.list == list) {
            return;
        }
        if self.entries.len() == CANDIDATES_MAX {
            let oldest = self.entries.iter().position(|c| c.block_hash.is_none()).unwrap_or(0);
            self.entries.remove(oldest);
        }
        self.entries.push(Candidate { list, block_hash: None, outcome });
    }

    /// Binds a kept outcome to the hash of its block. Copied: the request's buffer is not kept.
    pub fn bind(&mut self, list: &ListHash, block_hash: &Bytes) {
        if let Some(entry) = self.entries.iter_mut().find(|c| c.list == *list) {
            entry.block_hash = Some(Bytes::copy_from_slice(block_hash));
        }
    }

    /// Forgets all: the height is over.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}
