//! The relayer: brings certified roots to the contract.
//!
//! The contract is the truth: each step reads what it has and sends what follows. At most one
//! transaction is outstanding; its nonce is the account's at the latest block, so a nonce that the
//! chain does not know is used again by itself. The journal only helps: an attempt is in it before
//! it is broadcast, so that a restarted relayer waits for it instead of sending another.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plasma_client::rpc::{NodeClient, RpcError};
use plasma_core::B256;
use plasma_core::BlockNumber;
use plasma_core::certificate::Certificate;
use serde::{Deserialize, Serialize};

use crate::contract::{RootChainContract, Submission};
use crate::ethereum::{At, EthError, Fees, Sender};

/// Most roots of one transaction.
const ROOTS_MAX: u64 = 512;
/// Between two steps.
const POLL: Duration = Duration::from_millis(500);
/// Longest pause after errors.
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// Why a step failed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// Ethereum failed.
    #[error(transparent)]
    Ethereum(#[from] EthError),
    /// The child chain's node failed.
    #[error(transparent)]
    Node(#[from] RpcError),
    /// A root or certificate that must be there is not.
    #[error("the node has no {0}")]
    Missing(String),
    /// The journal cannot be written: nothing is sent.
    #[error("journal {path}: {source}")]
    Journal {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Limits on what is paid.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// After this time a transaction that was not mined is replaced.
    pub resubmit_after: Duration,
    /// Most wei a gas.
    pub max_fee_wei: u128,
}

/// One broadcast, as the journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Attempt {
    nonce: u64,
    hash: B256,
    first: BlockNumber,
    last: BlockNumber,
    max_fee_wei: u128,
    tip_wei: u128,
}

/// What the relayer has seen and done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Newest certified block of the child chain.
    pub certified: BlockNumber,
    /// Last block of the contract at Ethereum's latest block.
    pub latest: BlockNumber,
    /// Last block of the contract at Ethereum's finalized block: done.
    pub finalized: BlockNumber,
    /// Transactions broadcast, replacements included.
    pub attempts: u64,
    /// Replacements.
    pub replaced: u64,
}

/// The relayer.
pub struct Relayer {
    node: NodeClient,
    contract: RootChainContract,
    sender: Sender,
    journal: PathBuf,
    policy: Policy,
    outstanding: Option<(Attempt, Instant)>,
    /// What it has seen and done.
    pub progress: Progress,
}

impl Relayer {
    /// A relayer that goes on where its journal ends.
    pub fn new(
        node: NodeClient,
        contract: RootChainContract,
        sender: Sender,
        journal: &Path,
        policy: Policy,
    ) -> Self {
        let outstanding = last_attempt(journal).map(|attempt| (attempt, Instant::now()));
        let journal = journal.to_owned();
        let progress = Progress::default();
        Self { node, contract, sender, journal, policy, outstanding, progress }
    }

    /// Relays for ever.
    pub async fn run(mut self) {
        let mut pause = POLL;
        loop {
            let before = self.progress;
            match self.step().await {
                Ok(()) => pause = POLL,
                Err(error) => {
                    tracing::warn!(%error, "relayer");
                    pause = (pause * 2).min(BACKOFF_MAX);
                }
            }
            if self.progress != before {
                let Progress { certified, latest, finalized, attempts, replaced } = self.progress;
                tracing::info!(certified, latest, finalized, attempts, replaced, "relayer");
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Looks once and does what is next.
    pub async fn step(&mut self) -> Result<(), RelayError> {
        self.progress.latest = self.contract.last_block(At::Latest).await?;
        self.progress.finalized = self.contract.last_block(At::Finalized).await.unwrap_or(0);
        self.progress.certified = self.node.tip().await?.last_certified;
        if let Some((attempt, since)) = self.outstanding.take()
            && self.waits(&attempt, since).await?
        {
            if since.elapsed() < self.policy.resubmit_after {
                self.outstanding = Some((attempt, since));
                return Ok(());
            }
            return self.submit(Some(attempt)).await;
        }
        if self.progress.certified > self.progress.latest {
            return self.submit(None).await;
        }
        Ok(())
    }

    /// Whether an attempt may still be mined.
    async fn waits(&mut self, attempt: &Attempt, since: Instant) -> Result<bool, RelayError> {
        let ethereum = self.sender.ethereum().clone();
        let outcome = async {
            if ethereum.nonce(self.sender.address()).await? > attempt.nonce {
                // Mined, or replaced by another of ours: the contract tells what is left.
                return Ok(false);
            }
            ethereum.knows(attempt.hash).await
        };
        match outcome.await {
            Ok(waits) => Ok(waits),
            Err(error) => {
                // Not known: keep waiting for it rather than send twice.
                self.outstanding = Some((attempt.clone(), since));
                Err(EthError::into(error))
            }
        }
    }

    /// Sends the next roots, in place of `replaced` if one is stuck.
    async fn submit(&mut self, replaced: Option<Attempt>) -> Result<(), RelayError> {
        let first = self.progress.latest + 1;
        let submission = self.submission(first).await?;
        let last = submission.certificate.number;
        let tx = self.contract.submission(&submission);
        // A revert here usually means that somebody else delivered: the next step reads again.
        let gas = self.sender.gas(&tx).await?;
        let nonce = self.sender.ethereum().nonce(self.sender.address()).await?;
        let market = self.sender.market_fees().await?;
        let fees = capped(replacement_fees(market, replaced.as_ref()), self.policy.max_fee_wei);
        let signed = self.sender.sign(tx, nonce, gas, fees).await?;
        let attempt = Attempt {
            nonce,
            hash: signed.hash,
            first,
            last,
            max_fee_wei: fees.max,
            tip_wei: fees.tip,
        };
        self.record(&attempt)?;
        self.outstanding = Some((attempt, Instant::now()));
        self.progress.attempts += 1;
        self.progress.replaced += u64::from(replaced.is_some());
        tracing::info!(first, last, nonce, hash = %signed.hash, "submitting roots");
        self.sender.ethereum().broadcast(&signed.raw).await.inspect_err(|_| {
            self.outstanding = None;
        })?;
        Ok(())
    }

    /// The roots from `first` on, up to the highest kept certificate within reach.
    async fn submission(&self, first: BlockNumber) -> Result<Submission, RelayError> {
        let validators = self.node.validators().await?;
        let certificate = self.highest_certificate(first, validators.len()).await?;
        let mut roots = Vec::new();
        for number in first..=certificate.number {
            let block = self.node.block(number).await?;
            roots.push(block.ok_or_else(|| RelayError::Missing(format!("block {number}")))?.root);
        }
        Ok(Submission { first, roots, set: validators.encode(), certificate })
    }

    async fn highest_certificate(
        &self,
        first: BlockNumber,
        validators: usize,
    ) -> Result<Certificate, RelayError> {
        let limit = first - 1 + ROOTS_MAX;
        let mut highest: Option<Certificate> = None;
        // One is kept in each window of 256 blocks, so this takes a few rounds.
        loop {
            let from = highest.as_ref().map_or(first, |c| c.number + 1);
            match self.node.certificate_from(from, validators).await? {
                Some(next) if next.number <= limit => highest = Some(next),
                _ => break,
            }
        }
        highest.ok_or_else(|| RelayError::Missing(format!("certificate from block {first} on")))
    }

    /// Appends an attempt to the journal and waits until it is on disk.
    fn record(&self, attempt: &Attempt) -> Result<(), RelayError> {
        let write = || -> io::Result<()> {
            let mut file: File =
                OpenOptions::new().create(true).append(true).open(&self.journal)?;
            let mut line = serde_json::to_vec(attempt)?;
            line.push(b'\n');
            file.write_all(&line)?;
            file.sync_all()
        };
        write().map_err(|source| RelayError::Journal { path: self.journal.clone(), source })
    }
}

/// The last whole line of the journal.
fn last_attempt(journal: &Path) -> Option<Attempt> {
    let text = std::fs::read_to_string(journal).ok()?;
    text.lines().rev().find_map(|line| serde_json::from_str(line).ok())
}

/// A replacement must raise both fees by at least a tenth; by an eighth, to be safe of rounding.
fn replacement_fees(market: Fees, replaced: Option<&Attempt>) -> Fees {
    let Some(old) = replaced else { return market };
    let raised = |wei: u128| wei + wei / 8 + 1;
    Fees { max: market.max.max(raised(old.max_fee_wei)), tip: market.tip.max(raised(old.tip_wei)) }
}

fn capped(fees: Fees, max: u128) -> Fees {
    Fees { max: fees.max.min(max), tip: fees.tip.min(max) }
}
