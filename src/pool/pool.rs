//! Pending transactions: what CheckTx admits and what a recheck still allows (protocol.md
//! section 6, "CheckTx").
//!
//! A pending mark is coin -> transaction. CometBFT may drop a transaction after a positive CheckTx
//! without telling, so a mark counts only if its transaction was admitted or rechecked since the
//! last Commit: every admission and recheck stamps its transaction with the number of the Commit
//! before it. A transaction that missed a whole round of rechecks is forgotten.
//!
//! Each transaction keeps a count of live members, lowered when a pending coin is executed or
//! frozen, so that a recheck takes O(1) however large the bundle is.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plasma_core::code::Code;
use plasma_core::tx::Tx;
use plasma_core::{B256, CoinId};
use plasma_ledger::{Chain, Outcome, ReadError, Verifier, View, find_coin, judge_all};
use sha2::{Digest, Sha256};

/// Heights after which a waiting bundle is dropped.
const BUNDLE_HEIGHTS_MAX: u64 = 10;
/// Plasma blocks that a coin must have rested when the pool is full; less above half full.
const REST_BLOCKS_MAX: u64 = 64;

/// A transaction's id: SHA-256 of its bytes, CometBFT's hash.
type TxId = [u8; 32];

struct Mark {
    tx: TxId,
    digest: B256,
}

struct Pending {
    coins: Vec<CoinId>,
    /// Members listed, and those that can still execute.
    count: usize,
    live: usize,
    bundle: bool,
    /// Why a member died last: the answer when too few are left.
    dead: Code,
    /// Last plasma block in which a member that was admitted can execute.
    max_block: u64,
    /// Number of the Commit before the last admission or recheck.
    stamp: u64,
    admitted_at: u64,
}

#[derive(Default)]
struct Inner {
    marks: HashMap<CoinId, Mark>,
    txs: HashMap<TxId, Pending>,
    /// Live transfers of all transactions.
    transfers: usize,
    commits: u64,
}

/// What CheckTx answers to an admitted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// Transfers that can execute.
    pub live: usize,
    /// Transfers listed.
    pub count: usize,
}

/// The pending transactions of this node.
pub struct Pool {
    inner: Mutex<Inner>,
    /// Transfers at which the pool is full.
    capacity: usize,
}

impl Pool {
    /// An empty pool that is full at `capacity` transfers.
    pub fn new(capacity: usize) -> Self {
        Self { inner: Mutex::default(), capacity: capacity.max(2) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges a transaction that is new to this node. `height` and `block` are those of the view:
    /// its height and the plasma block that takes the next transfer.
    pub fn admit(
        &self,
        bytes: &[u8],
        chain: &Chain,
        view: &impl View,
        verifier: &impl Verifier,
        (height, block): (u64, u64),
    ) -> Result<Result<Admission, Code>, ReadError> {
        let tx = match Tx::decode(bytes) {
            Ok(tx) => tx,
            Err(error) => return Ok(Err(error.code())),
        };
        let find = |coin| find_coin(view, &chain.domain, coin);
        let verdicts = judge_all(tx.transfers(), find, block, &chain.domain, verifier)?;
        let mut inner = self.lock();
        let rest = rest_required(inner.transfers + tx.transfers().len(), self.capacity);
        let mut live = Vec::new();
        let mut max_block = 0;
        let mut refused = None;
        for (transfer, verdict) in tx.transfers().iter().zip(verdicts) {
            let verdict = verdict.and_then(|authorised| {
                inner.free(transfer.coin, authorised.hash)?;
                let rested = block - authorised.prev_block;
                if rested < rest { Err(Code::NotRested) } else { Ok(authorised.hash) }
            });
            match verdict {
                Ok(digest) => {
                    live.push((transfer.coin, digest));
                    max_block = max_block.max(transfer.max_block);
                }
                Err(code) => refused = Some(code),
            }
        }
        let count = tx.transfers().len();
        let bundle = matches!(tx, Tx::Bundle(_));
        if let Some(code) = refused.filter(|_| 2 * live.len() < count) {
            return Ok(Err(if bundle { Code::BundleBelowHalf } else { code }));
        }
        let admission = Admission { live: live.len(), count };
        let id = Sha256::digest(bytes).into();
        inner.forget(&id);
        for (coin, digest) in &live {
            // A mark that is left does not count any more; its transaction must not either.
            inner.kill(*coin, Code::CoinPending);
            inner.marks.insert(*coin, Mark { tx: id, digest: *digest });
        }
        inner.transfers += live.len();
        let pending = Pending {
            live: live.len(),
            coins: live.into_iter().map(|(coin, _)| coin).collect(),
            count,
            bundle,
            dead: Code::NotOwner,
            max_block,
            stamp: inner.commits,
            admitted_at: height,
        };
        inner.txs.insert(id, pending);
        Ok(Ok(admission))
    }

    /// Judges a transaction that waits in the mempool, in O(1); none if this node does not know
    /// it (it was restarted): then it is judged as new.
    pub fn recheck(&self, bytes: &[u8], (height, block): (u64, u64)) -> Option<Result<(), Code>> {
        let id: TxId = Sha256::digest(bytes).into();
        let mut inner = self.lock();
        let commits = inner.commits;
        let pending = inner.txs.get_mut(&id)?;
        let verdict = if pending.bundle && height >= pending.admitted_at + BUNDLE_HEIGHTS_MAX {
            Err(Code::StaleBundle)
        } else if pending.max_block < block {
            Err(Code::Expired)
        } else if pending.bundle && 2 * pending.live < pending.count {
            Err(Code::BundleBelowHalf)
        } else if pending.live == 0 {
            Err(pending.dead)
        } else {
            Ok(())
        };
        match verdict {
            Ok(()) => pending.stamp = commits,
            Err(_) => inner.forget(&id),
        }
        Some(verdict)
    }

    /// Follows a committed height: coins that moved, froze or are gone are pending no more.
    pub fn commit(&self, outcome: &Outcome) {
        let mut inner = self.lock();
        for executed in outcome.results.iter().flat_map(|result| &result.executed) {
            inner.kill(executed.coin, Code::NotOwner);
        }
        for coin in &outcome.frozen {
            inner.kill(*coin, Code::Frozen);
        }
        for (coin, _) in &outcome.gone {
            inner.kill(*coin, Code::Gone);
        }
        inner.commits += 1;
        let commits = inner.commits;
        // Rechecked after the last Commit means stamped with its number.
        let stale: Vec<TxId> = inner
            .txs
            .iter()
            .filter(|(_, pending)| pending.stamp + 1 < commits)
            .map(|(id, _)| *id)
            .collect();
        for id in stale {
            inner.forget(&id);
        }
    }
}

impl Inner {
    /// Whether no other transaction holds the coin.
    fn free(&self, coin: CoinId, digest: B256) -> Result<(), Code> {
        let Some(mark) = self.marks.get(&coin) else { return Ok(()) };
        let counts = self.txs.get(&mark.tx).is_some_and(|pending| pending.stamp == self.commits);
        match (counts, mark.digest == digest) {
            (false, _) => Ok(()),
            (true, true) => Err(Code::AlreadyPending),
            (true, false) => Err(Code::CoinPending),
        }
    }

    /// The coin of a pending transaction can no longer move by it.
    fn kill(&mut self, coin: CoinId, why: Code) {
        let Some(mark) = self.marks.remove(&coin) else { return };
        if let Some(pending) = self.txs.get_mut(&mark.tx) {
            pending.live -= 1;
            pending.dead = why;
            self.transfers -= 1;
        }
    }

    /// Removes a transaction and its marks.
    fn forget(&mut self, id: &TxId) {
        let Some(pending) = self.txs.remove(id) else { return };
        self.transfers -= pending.live;
        for coin in pending.coins {
            if self.marks.get(&coin).is_some_and(|mark| mark.tx == *id) {
                self.marks.remove(&coin);
            }
        }
    }
}

/// Plasma blocks that a coin must have rested to be admitted: 1 (none, as it moves once a block)
/// up to half full, then growing; a full pool admits nothing. Local policy against dust.
fn rest_required(transfers: usize, capacity: usize) -> u64 {
    let half = capacity / 2;
    if transfers > capacity {
        return u64::MAX;
    }
    let above = transfers.saturating_sub(half) as u64;
    1 + above * REST_BLOCKS_MAX / (capacity - half) as u64
}
