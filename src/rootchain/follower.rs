//! The follower: reads the contract's event queue at Ethereum's finalized block only.
//!
//! It keeps a window from the chain's cursor on, at most a thousand events, and publishes immutable
//! copies. Nothing on the consensus path waits for it: a dead Ethereum node costs this validator's
//! observation, not agreement.
//!
//! What it read is checked in three ways: counts are contiguous, the hash recomputed at the end is
//! the contract's own at that block, and the finalized block of the last look is still there. If
//! the queue has another hash or a finalized block is gone, it says so loudly and reads again from
//! the deployment. An endpoint that lags, or whose answer lacks events, is asked again.
//!
//! The cursor file is one line `count block blockHash`: the last event that the chain has applied,
//! and the Ethereum block that holds it. It is only a start: if it is lost, old, torn or of another
//! Ethereum, everything is read from the deployment.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use alloy::primitives::Address;
use alloy::sol_types::SolEvent;
use plasma_core::B256;
use plasma_core::event::OBSERVATION_REACH;
use plasma_core::event_window::EventWindow;

use crate::contract::{RootChain, RootChainContract};
use crate::ethereum::{At, EthError, Ethereum, Head};

/// Most blocks of one range of logs; halved on an error, doubled after a success.
const RANGE_BLOCKS_MAX: u64 = 2_000;
/// Between two looks.
const POLL: Duration = Duration::from_millis(500);
/// Longest pause after errors.
const BACKOFF_MAX: Duration = Duration::from_secs(15);

/// Where the window is published.
pub type Published = Arc<RwLock<Arc<EventWindow>>>;

/// The chain's cursor: count and hash of the events it has applied.
pub type Cursor = (u64, B256);

/// Where to read.
#[derive(Debug, Clone)]
pub struct Source {
    /// Endpoints, tried in order.
    pub urls: Vec<String>,
    /// The contract.
    pub root_chain: Address,
    /// Block of its deployment.
    pub deployed_at: u64,
    /// File that remembers from which block to read after a restart.
    pub cursor_file: PathBuf,
}

/// Why a look failed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// Ethereum failed.
    #[error(transparent)]
    Ethereum(#[from] EthError),
    /// The endpoint is still syncing, and its answers say nothing.
    #[error("the endpoint is syncing")]
    Syncing,
    /// The endpoint knows no finalized block.
    #[error("the endpoint has no finalized block")]
    NotFinalized,
    /// The endpoint's finalized block is older than one that we have seen.
    #[error("the endpoint's finalized block is {has}, {seen} was seen")]
    Lagging {
        /// Its finalized block.
        has: u64,
        /// The newest that was seen.
        seen: u64,
    },
    /// Logs are missing in an answer.
    #[error("{read} events were read, the contract has {has}")]
    Incomplete {
        /// Events read in order.
        read: u64,
        /// Events that there must be.
        has: u64,
    },
    /// A finalized block was replaced, or the queue's hash differs.
    #[error("the queue does not continue: {0}")]
    Broken(String),
}

/// A block of Ethereum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    number: u64,
    hash: B256,
}

/// Reads the queue.
pub struct Follower {
    source: Source,
    published: Published,
    window: EventWindow,
    /// First block that was not read to its end.
    next_block: u64,
    /// Block of each event in the window, so that a restart need not read from the deployment.
    blocks: VecDeque<Block>,
    /// The finalized block of the last look that succeeded: it must stay.
    last: Option<Block>,
    range: u64,
}

impl Follower {
    /// A follower that starts at the chain's cursor.
    pub fn new(source: Source, published: Published, cursor: Cursor) -> Self {
        let anchor = read_cursor_file(&source.cursor_file)
            .filter(|(count, block)| *count <= cursor.0 && block.number >= source.deployed_at)
            .map(|(_, block)| block);
        let follower = Self {
            next_block: anchor.map_or(source.deployed_at, |block| block.number),
            source,
            published,
            window: EventWindow::new(cursor.0, cursor.1),
            blocks: VecDeque::new(),
            last: anchor,
            range: RANGE_BLOCKS_MAX,
        };
        follower.publish();
        follower
    }

    fn publish(&self) {
        *self.published.write().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(self.window.clone());
    }

    /// Reads for ever; `cursor` gives the chain's. Errors are logged and tried again, each time at
    /// the next endpoint.
    pub async fn run(mut self, cursor: impl Fn() -> Cursor) {
        let mut endpoints = Vec::new();
        for url in &self.source.urls {
            match Ethereum::new(url) {
                Ok(ethereum) => endpoints.push(ethereum),
                Err(error) => tracing::error!(%error, "follower"),
            }
        }
        let mut pause = POLL;
        for ethereum in endpoints.iter().cycle() {
            let error = loop {
                match self.look(ethereum, cursor()).await {
                    Ok(()) => pause = POLL,
                    Err(error) => break error,
                }
                tokio::time::sleep(POLL).await;
            };
            tracing::warn!(%error, url = ethereum.url(), "follower");
            if matches!(error, FollowError::Broken(_)) {
                self.restart(cursor());
            }
            pause = (pause * 2).min(BACKOFF_MAX);
            tokio::time::sleep(pause).await;
        }
        tracing::error!("the follower has no endpoint");
    }

    /// Forgets everything and reads again from the deployment.
    fn restart(&mut self, cursor: Cursor) {
        self.window = EventWindow::new(cursor.0, cursor.1);
        self.blocks.clear();
        self.next_block = self.source.deployed_at;
        self.last = None;
        self.publish();
    }

    /// Follows the chain's cursor and reads up to the finalized block, as far as the window has
    /// room.
    ///
    /// # Errors
    /// If Ethereum does not answer, or its answer says nothing or does not continue what was read.
    /// What was published before stays.
    pub async fn look(&mut self, ethereum: &Ethereum, cursor: Cursor) -> Result<(), FollowError> {
        self.advance(cursor)?;
        if ethereum.syncing().await? {
            return Err(FollowError::Syncing);
        }
        let head = ethereum.head(At::Finalized).await?.ok_or(FollowError::NotFinalized)?;
        let block = Block { number: head.number, hash: head.hash };
        if self.last == Some(block) && self.next_block > head.number {
            return Ok(());
        }
        self.check_last(ethereum, head).await?;
        if head.number < self.source.deployed_at {
            return Ok(());
        }
        let read = self.read_to(ethereum, head.number).await;
        if matches!(read, Err(FollowError::Incomplete { .. })) {
            self.next_block = self.source.deployed_at;
        }
        read?;
        if self.next_block > head.number {
            self.check_queue(ethereum, head).await?;
        }
        self.last = Some(block);
        self.publish();
        Ok(())
    }

    /// Reads ranges of blocks until `head`, or until the window is full: the rest is read when the
    /// chain's cursor has advanced.
    async fn read_to(&mut self, ethereum: &Ethereum, head: u64) -> Result<(), FollowError> {
        while self.next_block <= head && !self.is_full() {
            let from = self.next_block;
            let to = head.min(from + (self.range - 1));
            let topic = RootChain::Queued::SIGNATURE_HASH;
            let logs = match ethereum.logs(self.source.root_chain, topic, from, to).await {
                Ok(logs) => logs,
                // Too much for this endpoint, perhaps: ask for less. Nothing is less than a block.
                Err(error) => {
                    let smallest = self.range == 1;
                    self.range = (self.range / 2).max(1);
                    if smallest || matches!(error, EthError::Unreachable { .. }) {
                        return Err(error.into());
                    }
                    continue;
                }
            };
            self.range = (self.range * 2).min(RANGE_BLOCKS_MAX);
            self.next_block = to + 1;
            for log in &logs {
                let event = RootChain::Queued::decode_log(&log.inner)
                    .map_err(|error| FollowError::Broken(error.to_string()))?;
                let (Some(number), Some(hash)) = (log.block_number, log.block_hash) else {
                    return Err(FollowError::Broken("a log without its block".into()));
                };
                if event.n > self.window.count() && self.is_full() {
                    self.next_block = number;
                    // So dense are the events: no need to ask for much more than has room.
                    self.range = number.saturating_sub(from) + 1;
                    break;
                }
                self.take(event.n, &event.e, Block { number, hash })?;
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.window.count() - self.window.base_count() >= OBSERVATION_REACH
    }

    fn advance(&mut self, cursor: Cursor) -> Result<(), FollowError> {
        let before = self.window.base_count();
        if cursor.0 <= before {
            return Ok(());
        }
        if self.window.hash_at(cursor.0).is_some_and(|hash| hash != cursor.1) {
            let text = format!("after event {} the hash is not the chain's", cursor.0);
            return Err(FollowError::Broken(text));
        }
        if cursor.0 > self.window.count() {
            // The others have read further; go on from where the chain is.
            self.window = EventWindow::new(cursor.0, cursor.1);
            self.blocks.clear();
        } else {
            self.window.advance(cursor.0);
            let mut block = None;
            for _ in before..cursor.0 {
                block = self.blocks.pop_front().or(block);
            }
            if let Some(block) = block {
                write_cursor_file(&self.source.cursor_file, cursor.0, block);
            }
        }
        self.publish();
        Ok(())
    }

    /// Takes the queue's next event; one that was read before is skipped.
    fn take(&mut self, n: u64, e: &[u8], block: Block) -> Result<(), FollowError> {
        let read = self.window.count();
        if n <= read {
            return Ok(());
        }
        if n != read + 1 {
            return Err(FollowError::Incomplete { read, has: n });
        }
        let pushed = self.window.push(e);
        pushed.map_err(|full| FollowError::Broken(full.to_string()))?;
        self.blocks.push_back(block);
        Ok(())
    }

    /// The finalized block of the last look must still be there.
    async fn check_last(&self, ethereum: &Ethereum, head: Head) -> Result<(), FollowError> {
        let Some(last) = self.last else { return Ok(()) };
        if head.number < last.number {
            return Err(FollowError::Lagging { has: head.number, seen: last.number });
        }
        match ethereum.head(At::Number(last.number)).await? {
            Some(head) if head.hash == last.hash => Ok(()),
            _ => Err(FollowError::Broken(format!("finalized block {} is gone", last.number))),
        }
    }

    /// Everything up to the finalized block was read: count and hash must be the contract's there.
    async fn check_queue(&mut self, ethereum: &Ethereum, head: Head) -> Result<(), FollowError> {
        let contract =
            RootChainContract { ethereum: ethereum.clone(), address: self.source.root_chain };
        let (has, hash) = contract.queue(At::Number(head.number)).await?;
        let read = self.window.count();
        // More may have been read: the chain may be ahead of this endpoint.
        if read < has {
            self.next_block = self.source.deployed_at;
            return Err(FollowError::Incomplete { read, has });
        }
        if self.window.hash_at(has).is_some_and(|own| own != hash) {
            let text = format!("after event {has} the hash is not the contract's, {hash}");
            return Err(FollowError::Broken(text));
        }
        Ok(())
    }
}

/// Event count and block of the file; none if there is none that reads.
fn read_cursor_file(path: &Path) -> Option<(u64, Block)> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut words = text.split_whitespace();
    let count = words.next()?.parse().ok()?;
    let number = words.next()?.parse().ok()?;
    Some((count, Block { number, hash: words.next()?.parse().ok()? }))
}

/// A lost or old file only costs reading again.
fn write_cursor_file(path: &Path, count: u64, block: Block) {
    let temporary = path.with_extension("tmp");
    let written = std::fs::write(&temporary, format!("{count} {} {}\n", block.number, block.hash))
        .and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = written {
        tracing::warn!(%error, path = %path.display(), "follower's cursor file");
    }
}
