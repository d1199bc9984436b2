//! The contract's events in ranges of Ethereum's blocks, one pass for all coins.
//!
//! What an endpoint leaves out is noticed where the contract counts: deposits, exits and plasma
//! blocks are numbered without gaps ([`Counts`]).

use alloy::primitives::B256;
use alloy::rpc::types::Log;
use alloy::sol_types::{SolEvent, SolEventInterface};
use plasma_client::challenge::Inclusion;
use plasma_core::{Address, BlockNumber, CoinId};

use super::WatchError;
use crate::contract::{RootChain, RootChainContract, shown_in};
use crate::ethereum::{At, EthError};

/// Most blocks of one range of logs; halved on an error, doubled after a success.
const RANGE_BLOCKS_MAX: u64 = 2_000;

/// What one event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A deposit was made.
    Deposited {
        /// Its id.
        deposit: u64,
        /// Whose coins they are.
        owner: Address,
    },
    /// Roots were stored, the last of this block.
    Stored(BlockNumber),
    /// An exit was opened.
    Started(u64),
    /// A transfer was shown.
    Evidence(Box<Inclusion>),
    /// Something else happened to an exit or the coin; the event's name.
    Changed(&'static str),
}

/// An event with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Number of Ethereum's block.
    pub block: u64,
    /// Identifies the log: block's hash and index.
    pub id: (B256, u64),
    /// The coin; 0 where it is about no coin.
    pub coin: CoinId,
    /// What happened.
    pub what: What,
}

/// How many there are of what the contract counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Deposits.
    pub deposits: u64,
    /// Exits.
    pub exits: u64,
    /// Plasma blocks.
    pub blocks: BlockNumber,
}

impl Counts {
    /// What the contract says at a block.
    pub async fn read(contract: &RootChainContract, at: At) -> Result<Self, EthError> {
        Ok(Self {
            deposits: contract.read(RootChain::lastDepositCall {}, at).await?,
            exits: contract.read(RootChain::lastExitCall {}, at).await?,
            blocks: contract.last_block(at).await?,
        })
    }

    /// The counts after more events, in order.
    pub fn after(self, events: &[Event]) -> Self {
        let mut counts = self;
        for event in events {
            match event.what {
                What::Deposited { deposit, .. } if deposit == counts.deposits + 1 => {
                    counts.deposits = deposit;
                }
                What::Started(exit) if exit == counts.exits + 1 => counts.exits = exit,
                What::Stored(last) => counts.blocks = counts.blocks.max(last),
                _ => {}
            }
        }
        counts
    }
}

/// Reads ranges.
#[derive(Debug)]
pub struct Scanner {
    range: u64,
}

impl Default for Scanner {
    fn default() -> Self {
        Self { range: RANGE_BLOCKS_MAX }
    }
}

impl Scanner {
    /// Events from block `from` on, at most up to `to`; returns them with the last block that was
    /// read.
    pub async fn read(
        &mut self,
        contract: &RootChainContract,
        from: u64,
        to: u64,
    ) -> Result<(Vec<Event>, u64), WatchError> {
        loop {
            let last = to.min(from + (self.range - 1));
            let logs = contract.ethereum.logs(contract.address, topics(), from, last).await;
            match logs {
                Ok(logs) => {
                    self.range = (self.range * 2).min(RANGE_BLOCKS_MAX);
                    return Ok((logs.iter().filter_map(event).collect(), last));
                }
                Err(error) => self.ask_for_less(error)?,
            }
        }
    }

    /// All that ever happened to these coins up to block `to`.
    pub async fn about(
        &mut self,
        contract: &RootChainContract,
        coins: &[CoinId],
        (from, to): (u64, u64),
    ) -> Result<Vec<Event>, WatchError> {
        let words: Vec<B256> =
            coins.iter().map(|coin| B256::left_padding_from(&coin.to_be_bytes())).collect();
        let (mut found, mut from) = (Vec::new(), from);
        while from <= to {
            let last = to.min(from + (self.range - 1));
            let (address, ethereum) = (contract.address, &contract.ethereum);
            match ethereum.logs_about(address, topics(), words.clone(), from, last).await {
                Ok(logs) => {
                    found.extend(logs.iter().filter_map(event));
                    from = last + 1;
                }
                Err(error) => self.ask_for_less(error)?,
            }
        }
        // Deposits and blocks have other numbers in that place.
        found.retain(|event| event.coin != 0);
        Ok(found)
    }

    /// Too much for this endpoint, perhaps. Nothing is less than a block.
    fn ask_for_less(&mut self, error: EthError) -> Result<(), WatchError> {
        if self.range == 1 || matches!(error, EthError::Unreachable { .. }) {
            return Err(error.into());
        }
        self.range = (self.range / 2).max(1);
        Ok(())
    }
}

fn topics() -> Vec<B256> {
    vec![
        RootChain::Deposited::SIGNATURE_HASH,
        RootChain::BlocksSubmitted::SIGNATURE_HASH,
        RootChain::Evidence::SIGNATURE_HASH,
        RootChain::ExitStarted::SIGNATURE_HASH,
        RootChain::ExitChallenged::SIGNATURE_HASH,
        RootChain::ExitCancelled::SIGNATURE_HASH,
        RootChain::ExitFinalized::SIGNATURE_HASH,
        RootChain::ExitSwept::SIGNATURE_HASH,
        RootChain::Withdrawn::SIGNATURE_HASH,
    ]
}

/// What a log says; none if it is not one of ours, or shows what is no proof.
fn event(log: &Log) -> Option<Event> {
    use RootChain::RootChainEvents as E;
    let (coin, what) = match E::decode_log(&log.inner).ok()?.data {
        E::Deposited(e) => (0, What::Deposited { deposit: e.depositId, owner: e.owner }),
        E::BlocksSubmitted(e) => (0, What::Stored(e.lastNumber)),
        // The contract takes only proofs that decode.
        E::Evidence(e) => (e.coin, What::Evidence(Box::new(shown_in(&e)?))),
        E::ExitStarted(e) => (e.coin, What::Started(e.exitId)),
        E::ExitChallenged(e) => (e.coin, What::Changed("challenged")),
        E::ExitCancelled(e) => (e.coin, What::Changed("cancelled")),
        E::ExitFinalized(e) => (e.coin, What::Changed("finalized")),
        E::ExitSwept(e) => (e.coin, What::Changed("swept")),
        E::Withdrawn(e) => (e.coin, What::Changed("withdrawn")),
        E::Queued(_) => return None,
    };
    Some(Event { block: log.block_number?, id: (log.block_hash?, log.log_index?), coin, what })
}
