//! The follower: reads the contract's event queue at Ethereum's finalized block only.
//!
//! It keeps a window from the chain's cursor on, at most a thousand events, and publishes immutable
//! copies. Nothing on the consensus path waits for it: a dead Ethereum node costs this validator's
//! observation, not agreement.
//!
//! What it read is checked in three ways: counts are contiguous, the hash recomputed at the end is
//! the contract's own at that block, and the finalized block of the last look is still there. If
//! one fails, it says so loudly and reads again from the deployment.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use alloy::primitives::Address;
use alloy::sol_types::SolEvent;
use plasma_core::B256;
use plasma_core::event_window::EventWindow;

use crate::contract::{RootChain, RootChainContract};
use crate::ethereum::{At, EthError, Ethereum, Head};

/// Blocks of one range of logs; halved on an error, down to one.
const RANGE_BLOCKS: u64 = 2_000;
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
    /// A finalized block was replaced, or events are not contiguous, or the hash differs.
    #[error("the queue does not continue: {0}")]
    Broken(String),
}

/// Reads the queue.
pub struct Follower {
    source: Source,
    published: Published,
    window: EventWindow,
    /// First block that was not read to its end.
    next_block: u64,
    /// Block of each event in the window, so that a restart need not read from the deployment.
    blocks: std::collections::VecDeque<u64>,
    last: Option<Head>,
    range: u64,
}

impl Follower {
    /// A follower that starts at the chain's cursor.
    pub fn new(source: Source, published: Published, cursor: Cursor) -> Self {
        let next_block = read_cursor_file(&source.cursor_file)
            .filter(|(count, _)| *count <= cursor.0)
            .map_or(source.deployed_at, |(_, block)| block.max(source.deployed_at));
        let window = EventWindow::new(cursor.0, cursor.1);
        let follower = Self {
            source,
            published,
            window,
            next_block,
            blocks: std::collections::VecDeque::new(),
            last: None,
            range: RANGE_BLOCKS,
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
        let mut pause = POLL;
        for endpoint in (0..self.source.urls.len().max(1)).cycle() {
            let Some(url) = self.source.urls.get(endpoint).cloned() else { return };
            loop {
                let result = match Ethereum::new(&url) {
                    Ok(ethereum) => self.look(&ethereum, cursor()).await,
                    Err(error) => Err(error.into()),
                };
                match result {
                    Ok(()) => pause = POLL,
                    Err(error) => {
                        tracing::warn!(%error, url, "follower");
                        if matches!(error, FollowError::Broken(_)) {
                            self.restart(cursor());
                        }
                        pause = (pause * 2).min(BACKOFF_MAX);
                    }
                }
                tokio::time::sleep(pause).await;
                if pause > POLL {
                    break;
                }
            }
        }
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
    pub async fn look(&mut self, ethereum: &Ethereum, cursor: Cursor) -> Result<(), FollowError> {
        self.advance(cursor)?;
        if ethereum.syncing().await? {
            return Err(FollowError::Syncing);
        }
        let head = ethereum.head(At::Finalized).await?.ok_or(FollowError::NotFinalized)?;
        if head.number < self.source.deployed_at {
            return Ok(());
        }
        self.check_last(ethereum).await?;
        let contract =
            RootChainContract { ethereum: ethereum.clone(), address: self.source.root_chain };
        while self.next_block <= head.number {
            let to = head.number.min(self.next_block + self.range - 1);
            let logs = ethereum
                .logs(
                    self.source.root_chain,
                    RootChain::Queued::SIGNATURE_HASH,
                    self.next_block,
                    to,
                )
                .await
                .inspect_err(|_| self.range = (self.range / 2).max(1))?;
            self.range = RANGE_BLOCKS;
            for log in logs {
                let event = RootChain::Queued::decode_log(&log.inner)
                    .map_err(|error| FollowError::Broken(error.to_string()))?;
                let block = log.block_number.unwrap_or(self.next_block);
                if !self.take(event.n, &event.e, block)? {
                    // Full: the rest is read when the chain's cursor has advanced.
                    self.next_block = block;
                    self.publish();
                    return Ok(());
                }
            }
            self.next_block = to + 1;
        }
        self.check_queue(&contract, head).await?;
        self.last = Some(head);
        self.publish();
        Ok(())
    }

    fn advance(&mut self, cursor: Cursor) -> Result<(), FollowError> {
        let before = self.window.base_count();
        if cursor.0 <= before {
            return Ok(());
        }
        if self.window.hash_at(cursor.0).is_some_and(|hash| hash != cursor.1) {
            let text = format!("event {} has another hash than the chain's", cursor.0);
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

    /// Takes an event; false if the window is full.
    fn take(&mut self, n: u64, e: &[u8], block: u64) -> Result<bool, FollowError> {
        if n <= self.window.count() {
            return Ok(true);
        }
        if n != self.window.count() + 1 {
            let text = format!("event {n} follows event {}", self.window.count());
            return Err(FollowError::Broken(text));
        }
        if self.window.push(e).is_err() {
            return Ok(false);
        }
        self.blocks.push_back(block);
        Ok(true)
    }

    /// The finalized block of the last look must still be there.
    async fn check_last(&self, ethereum: &Ethereum) -> Result<(), FollowError> {
        let Some(last) = self.last else { return Ok(()) };
        match ethereum.head(At::Number(last.number)).await? {
            Some(head) if head.hash == last.hash => Ok(()),
            _ => Err(FollowError::Broken(format!("finalized block {} is gone", last.number))),
        }
    }

    /// Everything up to the finalized block was read: count and hash must be the contract's there.
    async fn check_queue(
        &self,
        contract: &RootChainContract,
        head: Head,
    ) -> Result<(), FollowError> {
        let (count, hash) = contract.queue(At::Number(head.number)).await?;
        let ours = self.window.count();
        // The chain may be ahead of a lagging endpoint.
        if ours < count || self.window.hash_at(count).is_some_and(|own| own != hash) {
            let text = format!("{ours} events read, the contract has {count} with hash {hash}");
            return Err(FollowError::Broken(text));
        }
        Ok(())
    }
}

/// Event count and block of the file; none if there is none that reads.
fn read_cursor_file(path: &Path) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(path).ok()?;
    let (count, block) = text.trim().split_once(' ')?;
    Some((count.parse().ok()?, block.parse().ok()?))
}

/// A lost or old file only costs reading again.
fn write_cursor_file(path: &Path, count: u64, block: u64) {
    let temporary = path.with_extension("tmp");
    let written = std::fs::write(&temporary, format!("{count} {block}\n"))
        .and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = written {
        tracing::warn!(%error, path = %path.display(), "follower's cursor file");
    }
}
