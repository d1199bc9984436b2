//! Sends the transactions of one account, one nonce at a time.
//!
//! The nonce is the account's at the latest block, so a nonce that the chain does not know is used
//! again by itself, whatever became of earlier attempts: of all attempts at a nonce at most one can
//! be mined. The journal only helps: an attempt is in it before it is broadcast, so that a
//! restarted sender waits for it instead of sending another. An attempt that Ethereum takes and
//! does not mine is replaced.

use std::path::Path;
use std::time::{Duration, Instant};

use alloy::primitives::{B256, U256};
use alloy::rpc::types::TransactionRequest;

use crate::ethereum::{EthError, Fees, Sender};
use crate::journal::{Entry, JournalError, JournalOf};

/// Most that is paid, as a multiple of the market's fees.
const MARKET_MULTIPLE_MAX: u128 = 10;

/// Why nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum CourierError {
    /// Ethereum failed, or the contract refused.
    #[error(transparent)]
    Ethereum(#[from] EthError),
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

/// What was sent since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Transactions broadcast, replacements included.
    pub attempts: u64,
    /// Replacements.
    pub replaced: u64,
    /// Transactions that were mined and reverted, mostly because somebody else was faster.
    pub reverted: u64,
    /// Wei paid for mined transactions.
    pub fee_paid_wei: u128,
    /// For how many transactions like the last one the balance lasts.
    pub left: u64,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended<E> {
    /// The attempt.
    pub entry: E,
    /// Whether it did what it was sent for.
    pub success: bool,
    /// Gas used.
    pub gas: u64,
}

/// Attempts at one nonce of which at least one may still be mined.
#[derive(Debug)]
struct Outstanding<E> {
    /// Oldest first; each pays more than the one before.
    attempts: Vec<E>,
    /// When the last one was sent.
    since: Instant,
}

/// The sender of an account.
#[derive(Debug)]
pub struct Courier<E> {
    sender: Sender,
    journal: JournalOf<E>,
    policy: Policy,
    outstanding: Option<Outstanding<E>>,
    /// What it has sent.
    pub sent: Sent,
}

impl<E: Entry + Clone> Courier<E> {
    /// A sender that goes on where its journal ends.
    pub fn new(sender: Sender, journal: &Path, policy: Policy) -> Self {
        let journal = JournalOf::new(journal);
        let attempts = journal.last_attempts();
        let outstanding =
            (!attempts.is_empty()).then(|| Outstanding { attempts, since: Instant::now() });
        Self { sender, journal, policy, outstanding, sent: Sent::default() }
    }

    /// The account and its endpoint.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Goes on at another endpoint, as the same account.
    pub fn set_sender(&mut self, sender: Sender) {
        self.sender = sender;
    }

    /// What may still be mined and is not old enough to be replaced.
    pub fn waits_for(&self) -> Option<&E> {
        let sent = self.outstanding.as_ref()?;
        sent.attempts.last().filter(|_| sent.since.elapsed() < self.policy.resubmit_after)
    }

    /// Forgets the outstanding attempts if none of them can be mined any more; returns the one
    /// that was mined, if any.
    pub async fn reconcile(&mut self) -> Result<Option<Ended<E>>, EthError> {
        let Some(Outstanding { attempts, .. }) = &self.outstanding else { return Ok(None) };
        let Some(nonce) = attempts.first().map(Entry::nonce) else { return Ok(None) };
        let ethereum = self.sender.ethereum();
        let next = ethereum.nonce(self.sender.address()).await?;
        let mut ended = None;
        if next == nonce {
            for attempt in attempts.iter().rev() {
                if ethereum.knows(attempt.hash()).await? {
                    return Ok(None);
                }
            }
            // Refused, dropped or never sent: the nonce is used again.
        } else if next > nonce {
            ended = self.account().await?;
        }
        // The nonce is behind only if a reorganisation took back an earlier transaction.
        self.outstanding = None;
        Ok(ended)
    }

    /// Reads the receipt of the attempt that was mined.
    async fn account(&mut self) -> Result<Option<Ended<E>>, EthError> {
        let Some(Outstanding { attempts, .. }) = &self.outstanding else { return Ok(None) };
        let ethereum = self.sender.ethereum();
        for attempt in attempts.iter().rev() {
            let Some(receipt) = ethereum.receipt(attempt.hash()).await? else { continue };
            let fee = u128::from(receipt.gas_used) * receipt.effective_gas_price;
            let balance = ethereum.balance(self.sender.address()).await?;
            let left = balance / U256::from(fee.max(1));
            self.sent.fee_paid_wei += fee;
            self.sent.left = left.saturating_to();
            self.sent.reverted += u64::from(!receipt.status());
            let (success, gas) = (receipt.status(), receipt.gas_used);
            return Ok(Some(Ended { entry: attempt.clone(), success, gas }));
        }
        Ok(None)
    }

    /// Sends a transaction in place of what is outstanding; `entry` makes the journal's line of
    /// nonce, hash and fees. A revert that is found by estimating the gas sends nothing.
    ///
    /// # Errors
    /// If Ethereum fails, the contract would refuse, the journal cannot be written or the fees
    /// exceed the policy.
    pub async fn send(
        &mut self,
        tx: TransactionRequest,
        entry: impl FnOnce(u64, B256, Fees) -> E,
    ) -> Result<(), CourierError> {
        let gas = self.sender.gas(&tx).await?;
        let nonce = self.sender.ethereum().nonce(self.sender.address()).await?;
        let mut attempts = self.outstanding.as_ref().map_or(Vec::new(), |o| o.attempts.clone());
        attempts.retain(|attempt| attempt.nonce() == nonce);
        let market = self.sender.market_fees().await?;
        let replaced = attempts.last().map(Entry::fees);
        let fees = choose_fees(market, replaced, self.policy.max_fee_wei)?;
        let signed = self.sender.sign(tx, nonce, gas, fees).await?;
        let attempt = entry(nonce, signed.hash, fees);
        self.journal.record(&attempt)?;
        self.sent.attempts += 1;
        self.sent.replaced += u64::from(!attempts.is_empty());
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
}

/// Fees at the market, and in place of `replaced` above its fees by at least the tenth that nodes
/// ask for; an eighth, to be safe of rounding.
fn choose_fees(
    market: Fees,
    replaced: Option<Fees>,
    max_fee_wei: u128,
) -> Result<Fees, CourierError> {
    let within = |needed: u128, limit: u128| {
        if needed > limit { Err(CourierError::FeeLimit { needed, limit }) } else { Ok(()) }
    };
    let limit = max_fee_wei.min(market.max.saturating_mul(MARKET_MULTIPLE_MAX));
    // What does not pay the base fee is not mined.
    within((market.max - market.tip) / 2, limit)?;
    let mut fees = Fees { max: market.max.min(limit), tip: market.tip };
    if let Some(old) = replaced {
        let raised = |wei: u128| wei.saturating_add(wei / 8).saturating_add(1);
        within(raised(old.max), limit)?;
        within(raised(old.tip), market.tip.saturating_mul(MARKET_MULTIPLE_MAX))?;
        fees.max = fees.max.max(raised(old.max));
        fees.tip = fees.tip.max(raised(old.tip));
    }
    Ok(Fees { max: fees.max, tip: fees.tip.min(fees.max) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GWEI: u128 = 1_000_000_000;
    const MARKET: Fees = Fees { max: 21 * GWEI, tip: GWEI };

    fn old(max: u128, tip: u128) -> Fees {
        Fees { max, tip }
    }

    fn limit_of(chosen: Result<Fees, CourierError>) -> (u128, u128) {
        match chosen {
            Err(CourierError::FeeLimit { needed, limit }) => (needed, limit),
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
        let above = choose_fees(MARKET, Some(old(40 * GWEI, 2 * GWEI)), 100 * GWEI).unwrap();
        assert!(above.max * 10 >= 44 * GWEI * 10 && above.tip * 10 >= 22 * GWEI);
        // The market rose above that.
        let below = choose_fees(MARKET, Some(old(3 * GWEI, GWEI / 2)), 100 * GWEI).unwrap();
        assert_eq!(below, MARKET);
        for (max, tip) in [(1, 0), (1, 1), (19, 7), (20 * GWEI, GWEI)] {
            let fees = choose_fees(MARKET, Some(old(max, tip)), 100 * GWEI).unwrap();
            assert!(fees.max * 10 >= max * 11 && fees.tip * 10 >= tip * 11 && fees.tip <= fees.max);
        }
    }

    #[test]
    fn a_replacement_that_may_not_pay_enough_is_not_sent() {
        let stuck = old(40 * GWEI, 2 * GWEI);
        assert_eq!(limit_of(choose_fees(MARKET, Some(stuck), 44 * GWEI)).1, 44 * GWEI);
        // Ten times the market, whatever the configuration allows.
        let stuck = old(200 * GWEI, 2 * GWEI);
        assert_eq!(limit_of(choose_fees(MARKET, Some(stuck), u128::MAX)).1, 210 * GWEI);
        let stuck = old(20 * GWEI, 9 * GWEI);
        assert_eq!(limit_of(choose_fees(MARKET, Some(stuck), u128::MAX)).1, 10 * GWEI);
    }
}
