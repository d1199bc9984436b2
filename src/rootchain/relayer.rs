//! The relayer: brings certified roots to the contract.
//!
//! The contract is the truth: each step reads what it has and sends what follows, by a
//! [`Courier`].
//!
//! Nothing is done until it is final: if a reorganisation removes a submission, the contract's last
//! block goes back and the roots are sent again.

use std::path::Path;
use std::time::{Duration, Instant};

use plasma_client::rpc::{NodeClient, RpcError};
use plasma_core::certificate::Certificate;
use plasma_core::validators::ValidatorSet;
use plasma_core::{B256, BlockNumber};

use crate::contract::{RootChainContract, Submission};
pub use crate::courier::Policy;
use crate::courier::{Courier, CourierError, Ended, Sent};
use crate::ethereum::{At, EthError, Sender};
use crate::journal::{Attempt, JournalError};

/// Most roots of one transaction.
pub const ROOTS_MAX: u64 = 512;
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
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// To be mined it would have to pay more than the policy allows.
    #[error("{needed} wei a gas are needed, the limit is {limit}")]
    FeeLimit {
        /// Wei a gas that must be offered.
        needed: u128,
        /// The most that is allowed now.
        limit: u128,
    },
}

impl From<CourierError> for RelayError {
    fn from(error: CourierError) -> Self {
        match error {
            CourierError::Ethereum(error) => Self::Ethereum(error),
            CourierError::Journal(error) => Self::Journal(error),
            CourierError::FeeLimit { needed, limit } => Self::FeeLimit { needed, limit },
        }
    }
}

/// What the relayer reads of the child chain.
pub trait ChildChain {
    /// Newest block with a certificate; 0 before the first.
    fn last_certified(&self) -> impl Future<Output = Result<BlockNumber, RpcError>> + Send;
    /// The validator set.
    fn validators(&self) -> impl Future<Output = Result<ValidatorSet, RpcError>> + Send;
    /// The lowest kept certificate of a block from `number` on.
    fn certificate_from(
        &self,
        number: BlockNumber,
        validators: usize,
    ) -> impl Future<Output = Result<Option<Certificate>, RpcError>> + Send;
    /// Root of a closed block.
    fn root(
        &self,
        number: BlockNumber,
    ) -> impl Future<Output = Result<Option<B256>, RpcError>> + Send;
}

impl ChildChain for NodeClient {
    async fn last_certified(&self) -> Result<BlockNumber, RpcError> {
        Ok(self.tip().await?.last_certified)
    }

    async fn validators(&self) -> Result<ValidatorSet, RpcError> {
        self.validators().await
    }

    async fn certificate_from(
        &self,
        number: BlockNumber,
        validators: usize,
    ) -> Result<Option<Certificate>, RpcError> {
        self.certificate_from(number, validators).await
    }

    async fn root(&self, number: BlockNumber) -> Result<Option<B256>, RpcError> {
        Ok(self.block(number).await?.map(|block| block.root))
    }
}

/// What the relayer has seen and done; the counters start with the process.
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
    /// Transactions that were mined and reverted, mostly because somebody else was faster.
    pub reverted: u64,
    /// How often the contract's last block went back.
    pub reorgs: u64,
    /// Wei paid for mined transactions.
    pub fee_paid_wei: u128,
    /// For how many submissions like the last one the balance lasts.
    pub submissions_left: u64,
}

/// The relayer.
pub struct Relayer<C> {
    child: C,
    contract: RootChainContract,
    courier: Courier<Attempt>,
    /// Since when there is a certified block that the contract does not have.
    behind_since: Option<Instant>,
    /// What it has seen and done.
    pub progress: Progress,
}

impl<C: ChildChain> Relayer<C> {
    /// A relayer that goes on where its journal ends.
    pub fn new(
        child: C,
        contract: RootChainContract,
        sender: Sender,
        journal: &Path,
        policy: Policy,
    ) -> Self {
        let courier = Courier::new(sender, journal, policy);
        let progress = Progress::default();
        Self { child, contract, courier, behind_since: None, progress }
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
                let oldest_unsent_s =
                    self.behind_since.map_or(0, |since| since.elapsed().as_secs());
                tracing::info!(oldest_unsent_s, progress = ?self.progress, "relayer");
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Looks once and does what is next.
    ///
    /// # Errors
    /// If one of the two chains fails or the fees exceed the policy; nothing is lost, the next step
    /// looks again.
    pub async fn step(&mut self) -> Result<(), RelayError> {
        // Before the contract is read: what is mined in between is then in what is read.
        self.reconcile().await?;
        self.look().await?;
        if self.progress.certified <= self.progress.latest {
            return Ok(());
        }
        if self.courier.waits_for().is_some() {
            return Ok(());
        }
        let sent = self.submit().await;
        self.count();
        sent
    }

    /// Reads how far both chains are.
    async fn look(&mut self) -> Result<(), RelayError> {
        let latest = self.contract.last_block(At::Latest).await?;
        self.progress.reorgs += u64::from(latest < self.progress.latest);
        self.progress.latest = latest;
        match self.contract.last_block(At::Finalized).await {
            Ok(finalized) => self.progress.finalized = finalized,
            Err(error @ EthError::Unreachable { .. }) => return Err(error.into()),
            // The contract's deployment is not final yet.
            Err(_) => {}
        }
        self.progress.certified = self.child.last_certified().await?;
        if self.progress.certified <= latest {
            self.behind_since = None;
        } else {
            self.behind_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    /// Says how the outstanding submission ended, if it did.
    async fn reconcile(&mut self) -> Result<(), RelayError> {
        let ended = self.courier.reconcile().await?;
        self.count();
        if let Some(Ended { entry: Attempt { first, last, hash, .. }, success, gas }) = ended {
            tracing::info!(first, last, %hash, gas, mined = success, "submission ended");
        }
        Ok(())
    }

    fn count(&mut self) {
        let Sent { attempts, replaced, reverted, fee_paid_wei, left } = self.courier.sent;
        self.progress.attempts = attempts;
        self.progress.replaced = replaced;
        self.progress.reverted = reverted;
        self.progress.fee_paid_wei = fee_paid_wei;
        self.progress.submissions_left = left;
    }

    /// Sends the next roots, in place of what is outstanding.
    async fn submit(&mut self) -> Result<(), RelayError> {
        let first = self.progress.latest + 1;
        let submission = self.submission(first).await?;
        let tx = self.contract.submission(&submission);
        let last = submission.certificate.number;
        // A revert usually means that somebody else delivered: the next step reads again.
        let sent = self.courier.send(tx, |nonce, hash, fees| {
            tracing::info!(first, last, nonce, %hash, max_fee_wei = fees.max, "submitting roots");
            Attempt { nonce, hash, first, last, max_fee_wei: fees.max, tip_wei: fees.tip }
        });
        Ok(sent.await?)
    }

    /// The roots from `first` on, up to the highest kept certificate within reach.
    async fn submission(&self, first: BlockNumber) -> Result<Submission, RelayError> {
        let validators = self.child.validators().await?;
        let certificate = self.highest_certificate(first, validators.len()).await?;
        let mut roots = Vec::new();
        for number in first..=certificate.number {
            let root = self.child.root(number).await?;
            roots.push(root.ok_or_else(|| RelayError::Missing(format!("block {number}")))?);
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
        let mut from = first;
        // One is kept in each window of 256 blocks, and the newest: this takes a few rounds.
        while let Some(next) = self.child.certificate_from(from, validators).await?
            && (from..=limit).contains(&next.number)
        {
            from = next.number + 1;
            highest = Some(next);
        }
        highest.ok_or_else(|| {
            RelayError::Missing(format!("certificate of a block from {first} to {limit}"))
        })
    }
}
