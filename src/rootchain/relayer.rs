//! The relayer: brings certified roots to the contract.
//!
//! The contract is the truth: each step reads what it has and sends what follows. At most one
//! nonce is in use at a time; it is the account's at the latest block, so a nonce that the chain
//! does not know is used again by itself, whatever became of earlier attempts. The journal only
//! helps: an attempt is in it before it is broadcast, so that a restarted relayer waits for it
//! instead of sending another. An attempt that Ethereum takes and does not mine is replaced.
//!
//! Nothing is done until it is final: if a reorganisation removes a submission, the contract's last
//! block goes back and the roots are sent again.

use std::path::Path;
use std::time::{Duration, Instant};

use alloy::primitives::U256;
use plasma_client::rpc::{NodeClient, RpcError};
use plasma_core::certificate::Certificate;
use plasma_core::validators::ValidatorSet;
use plasma_core::{B256, BlockNumber};

use crate::contract::{RootChainContract, Submission};
use crate::ethereum::{At, EthError, Fees, Sender};
use crate::journal::{Attempt, Journal, JournalError};

/// Most roots of one transaction.
pub const ROOTS_MAX: u64 = 512;
/// Most that is paid, as a multiple of the market's fees.
const MARKET_MULTIPLE_MAX: u128 = 10;
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

/// Limits on what is paid.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// After this time a transaction that was not mined is replaced.
    pub resubmit_after: Duration,
    /// Most wei a gas.
    pub max_fee_wei: u128,
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

/// Attempts at one nonce of which at least one may still be mined.
#[derive(Debug)]
struct Outstanding {
    /// Oldest first; each pays more than the one before.
    attempts: Vec<Attempt>,
    /// When the last one was sent.
    since: Instant,
}

/// The relayer.
pub struct Relayer<C> {
    child: C,
    contract: RootChainContract,
    sender: Sender,
    journal: Journal,
    policy: Policy,
    outstanding: Option<Outstanding>,
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
        let journal = Journal::new(journal);
        let attempts = journal.last_attempts();
        let outstanding =
            (!attempts.is_empty()).then(|| Outstanding { attempts, since: Instant::now() });
        let progress = Progress::default();
        let behind_since = None;
        Self { child, contract, sender, journal, policy, outstanding, behind_since, progress }
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
        match &self.outstanding {
            Some(sent) if sent.since.elapsed() < self.policy.resubmit_after => Ok(()),
            _ => self.submit().await,
        }
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

    /// Forgets the outstanding attempts if none of them can be mined any more.
    async fn reconcile(&mut self) -> Result<(), RelayError> {
        let Some(Outstanding { attempts, .. }) = &self.outstanding else { return Ok(()) };
        let Some(nonce) = attempts.first().map(|attempt| attempt.nonce) else { return Ok(()) };
        let ethereum = self.sender.ethereum();
        let next = ethereum.nonce(self.sender.address()).await?;
        if next == nonce {
            for attempt in attempts.iter().rev() {
                if ethereum.knows(attempt.hash).await? {
                    return Ok(());
                }
            }
            // Refused, dropped or never sent: the nonce is used again.
        } else if next > nonce {
            self.account().await?;
        }
        // The nonce is behind only if a reorganisation took back an earlier transaction.
        self.outstanding = None;
        Ok(())
    }

    /// Reads the receipt of the attempt that was mined.
    async fn account(&mut self) -> Result<(), RelayError> {
        let Some(Outstanding { attempts, .. }) = &self.outstanding else { return Ok(()) };
        let ethereum = self.sender.ethereum();
        for attempt in attempts.iter().rev() {
            let Some(receipt) = ethereum.receipt(attempt.hash).await? else { continue };
            let fee = u128::from(receipt.gas_used) * receipt.effective_gas_price;
            let balance = ethereum.balance(self.sender.address()).await?;
            let left = balance / U256::from(fee.max(1));
            self.progress.fee_paid_wei += fee;
            self.progress.submissions_left = left.saturating_to();
            self.progress.reverted += u64::from(!receipt.status());
            let Attempt { first, last, hash, .. } = attempt;
            let (mined, gas) = (receipt.status(), receipt.gas_used);
            tracing::info!(first, last, %hash, gas, mined, "submission ended");
            break;
        }
        Ok(())
    }

    /// Sends the next roots, in place of what is outstanding.
    async fn submit(&mut self) -> Result<(), RelayError> {
        let first = self.progress.latest + 1;
        let submission = self.submission(first).await?;
        let tx = self.contract.submission(&submission);
        // A revert here usually means that somebody else delivered: the next step reads again.
        let gas = self.sender.gas(&tx).await?;
        let nonce = self.sender.ethereum().nonce(self.sender.address()).await?;
        let mut attempts = self.outstanding.as_ref().map_or(Vec::new(), |o| o.attempts.clone());
        attempts.retain(|attempt| attempt.nonce == nonce);
        let market = self.sender.market_fees().await?;
        let fees = choose_fees(market, attempts.last(), self.policy.max_fee_wei)?;
        let signed = self.sender.sign(tx, nonce, gas, fees).await?;
        let attempt = Attempt {
            nonce,
            hash: signed.hash,
            first,
            last: submission.certificate.number,
            max_fee_wei: fees.max,
            tip_wei: fees.tip,
        };
        self.journal.record(&attempt)?;
        let Attempt { last, hash, .. } = attempt;
        tracing::info!(first, last, nonce, %hash, max_fee_wei = fees.max, "submitting roots");
        self.progress.attempts += 1;
        self.progress.replaced += u64::from(!attempts.is_empty());
        attempts.push(attempt);
        let before = self.outstanding.as_ref().map(|sent| sent.since);
        self.outstanding = Some(Outstanding { attempts, since: Instant::now() });
        let sent = self.sender.ethereum().broadcast(&signed.raw).await;
        if let (Err(EthError::Rpc(_)), Some(since), Some(outstanding)) =
            (&sent, before, &mut self.outstanding)
        {
            // Refused, for example as underpriced: the older one is as stuck as before.
            outstanding.since = since;
        }
        Ok(sent?)
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

/// Fees at the market, and in place of `replaced` above its fees by at least the tenth that nodes
/// ask for; an eighth, to be safe of rounding.
fn choose_fees(
    market: Fees,
    replaced: Option<&Attempt>,
    max_fee_wei: u128,
) -> Result<Fees, RelayError> {
    let within = |needed: u128, limit: u128| {
        if needed > limit { Err(RelayError::FeeLimit { needed, limit }) } else { Ok(()) }
    };
    let limit = max_fee_wei.min(market.max.saturating_mul(MARKET_MULTIPLE_MAX));
    // What does not pay the base fee is not mined.
    within((market.max - market.tip) / 2, limit)?;
    let mut fees = Fees { max: market.max.min(limit), tip: market.tip };
    if let Some(old) = replaced {
        let raised = |wei: u128| wei.saturating_add(wei / 8).saturating_add(1);
        within(raised(old.max_fee_wei), limit)?;
        within(raised(old.tip_wei), market.tip.saturating_mul(MARKET_MULTIPLE_MAX))?;
        fees.max = fees.max.max(raised(old.max_fee_wei));
        fees.tip = fees.tip.max(raised(old.tip_wei));
    }
    Ok(Fees { max: fees.max, tip: fees.tip.min(fees.max) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GWEI: u128 = 1_000_000_000;
    const MARKET: Fees = Fees { max: 21 * GWEI, tip: GWEI };

    fn old(max_fee_wei: u128, tip_wei: u128) -> Attempt {
        Attempt { nonce: 1, hash: B256::ZERO, first: 1, last: 1, max_fee_wei, tip_wei }
    }

    fn limit_of(chosen: Result<Fees, RelayError>) -> (u128, u128) {
        match chosen {
            Err(RelayError::FeeLimit { needed, limit }) => (needed, limit),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_first_attempt_pays_the_market_within_the_limit() {
        assert_eq!(choose_fees(MARKET, None, 100 * GWEI).unwrap(), MARKET);
        let capped = choose_fees(MARKET, None, 12 * GWEI).unwrap();
        assert_eq!(capped, Fees { max: 12 * GWEI, tip: GWEI });
        // The base fee is 10 gwei.
        let limit = 10 * GWEI - 1;
        assert_eq!(limit_of(choose_fees(MARKET, None, limit)), (10 * GWEI, limit));
    }

    #[test]
    fn a_replacement_raises_both_fees_by_a_tenth_and_more() {
        let above = choose_fees(MARKET, Some(&old(40 * GWEI, 2 * GWEI)), 100 * GWEI).unwrap();
        assert!(above.max * 10 >= 44 * GWEI * 10 && above.tip * 10 >= 22 * GWEI);
        // The market rose above that.
        let below = choose_fees(MARKET, Some(&old(3 * GWEI, GWEI / 2)), 100 * GWEI).unwrap();
        assert_eq!(below, MARKET);
        for (max, tip) in [(1, 0), (1, 1), (19, 7), (20 * GWEI, GWEI)] {
            let fees = choose_fees(MARKET, Some(&old(max, tip)), 100 * GWEI).unwrap();
            assert!(fees.max * 10 >= max * 11 && fees.tip * 10 >= tip * 11 && fees.tip <= fees.max);
        }
    }

    #[test]
    fn a_replacement_that_may_not_pay_enough_is_not_sent() {
        let stuck = old(40 * GWEI, 2 * GWEI);
        assert_eq!(limit_of(choose_fees(MARKET, Some(&stuck), 44 * GWEI)).1, 44 * GWEI);
        // Ten times the market, whatever the configuration allows.
        let stuck = old(200 * GWEI, 2 * GWEI);
        assert_eq!(limit_of(choose_fees(MARKET, Some(&stuck), u128::MAX)).1, 210 * GWEI);
        let stuck = old(20 * GWEI, 9 * GWEI);
        assert_eq!(limit_of(choose_fees(MARKET, Some(&stuck), u128::MAX)).1, 10 * GWEI);
    }
}
