//! The watcher: guards coins by the rules of exit-game.md, and trusts no node.
//!
//! One [`step`](Watcher::step) reads the contract's events up to Ethereum's finalized block and,
//! for warnings, up to the latest ([`chain`]); asks nodes for the proofs of new plasma blocks and
//! checks them against the contract's roots ([`child`]); [`decide`]s about each coin; and sends at
//! most one transaction an account ([`act`]). What is verified is in the [`book`] before anything
//! is done because of it, each transaction in its account's journal before it is broadcast, and
//! every decision is made anew from the contract's state: a crash at any moment costs a repeated
//! look.

mod act;
pub mod book;
mod chain;
mod child;
pub mod decide;
pub mod report;
pub mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use alloy::primitives::U256;
use plasma_client::challenge::Inclusion;
use plasma_client::history::{History, HistoryError};
use plasma_client::rpc::NodeClient;
use plasma_core::coin::Deposit;
use plasma_core::domain::Domain;
use plasma_core::signature::SigningKey;
use plasma_core::{Address, B256, BlockNumber, CoinId};

use crate::contract::{Authorization, RootChain, RootChainContract};
use crate::courier::{Courier, CourierError, Policy};
use crate::ethereum::{At, EthError, Ethereum, Head};
use act::Intent;
use book::{Book, BookError};
use decide::{Rules, SeenCoin};
use report::{Notice, Progress, Report};
use scan::{Event, Scanner};

/// Between two looks.
const POLL: Duration = Duration::from_millis(500);
/// Longest pause after errors.
const BACKOFF_MAX: Duration = Duration::from_secs(15);

/// Why a step failed; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Ethereum failed.
    #[error(transparent)]
    Ethereum(#[from] EthError),
    /// What is remembered cannot be written: nothing is done.
    #[error(transparent)]
    Book(#[from] BookError),
    /// A transaction could not be sent.
    #[error(transparent)]
    Courier(#[from] CourierError),
    /// A history could not be kept.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The endpoint is still syncing, and its answers say nothing.
    #[error("the endpoint is syncing")]
    Syncing,
    /// The endpoint knows no such block.
    #[error("the endpoint has no {0} block")]
    NoBlock(&'static str),
    /// The endpoint's finalized block is older than one that was read.
    #[error("the endpoint's finalized block is {has}, {read} was read")]
    Lagging {
        /// Its finalized block.
        has: u64,
        /// The newest that was read.
        read: u64,
    },
    /// Events are missing in an answer.
    #[error("events up to {read:?} were read, the contract has {has:?}")]
    Incomplete {
        /// What was read.
        read: scan::Counts,
        /// What there is.
        has: scan::Counts,
    },
    /// A finalized block was replaced: everything is read again.
    #[error("finalized block {0} of Ethereum is gone")]
    Reorganised(u64),
}

/// What to guard and how.
#[derive(Debug)]
pub struct Settings {
    /// Endpoints of Ethereum, tried in order.
    pub ethereum: Vec<Ethereum>,
    /// The contract's address.
    pub root_chain: Address,
    /// Block of its deployment.
    pub deployed_at: u64,
    /// Nodes of the child chain, none of them trusted, tried in order.
    pub nodes: Vec<NodeClient>,
    /// Directory for what is remembered; one watcher at a time.
    pub dir: PathBuf,
    /// Keys of guarded owners.
    pub keys: Vec<SigningKey>,
    /// Guarded owners without a key here.
    pub owners: Vec<Address>,
    /// Coins that are guarded whoever owns them.
    pub coins: Vec<CoinId>,
    /// Who pays for transactions and bonds; without one the watcher only warns.
    pub payer: Option<SigningKey>,
    /// Seconds that a block's data may be missing before the owner exits.
    pub data_grace_s: u64,
    /// Pay finalized coins and bonds out.
    pub withdraw: bool,
    /// Say what would be sent, and send nothing.
    pub dry_run: bool,
    /// Limits on fees.
    pub policy: Policy,
}

/// The watcher.
#[derive(Debug)]
pub struct Watcher {
    settings: Settings,
    /// Which endpoint is in use.
    endpoint: usize,
    contract: RootChainContract,
    domain: Domain,
    rules: Rules,
    bond: U256,
    book: Book,
    scanner: Scanner,
    /// Deposits of watched coins by their first coin.
    deposits: BTreeMap<CoinId, Deposit>,
    /// Coins that a node says are the owners', until they are verified.
    candidates: BTreeMap<CoinId, History>,
    /// Candidates that are not the owners', and at which block that was seen.
    refused: BTreeMap<CoinId, BlockNumber>,
    /// Roots that were read at a finalized block.
    roots: Arc<BTreeMap<BlockNumber, B256>>,
    /// The finalized and the latest block of the last look.
    heads: Option<(Head, Head)>,
    /// Events of watched coins above the finalized block, by coin.
    recent: BTreeMap<CoinId, Vec<Event>>,
    /// Histories with what is shown above the finalized block.
    latest: BTreeMap<CoinId, History>,
    /// Coins in the contract that ever had an exit.
    seen: BTreeMap<CoinId, SeenCoin>,
    /// Coins whose state in the contract must be read.
    dirty: BTreeSet<CoinId>,
    /// Coins for which a block's data is missing: the block, and since when.
    missing: BTreeMap<CoinId, (BlockNumber, u64)>,
    /// Where nodes were last asked for the owners' coins.
    listed_at: Option<BlockNumber>,
    couriers: BTreeMap<Address, Courier<Intent>>,
    /// Actions that the contract refused or that were told in a dry run, until this time.
    put_off: BTreeMap<(CoinId, String), u64>,
    /// Consents of owners without a key here, by coin, hash of the state and who signed: anybody
    /// can sign for a state that is not his.
    authorizations: BTreeMap<(CoinId, B256, Address), Authorization>,
    /// Bonds may have come back.
    credits_due: bool,
    report: Report,
}

impl Watcher {
    /// A watcher that goes on where its book ends.
    ///
    /// # Errors
    /// If Ethereum does not answer or the book cannot be opened.
    pub async fn new(settings: Settings) -> Result<Self, WatchError> {
        let Some(ethereum) = settings.ethereum.first().cloned() else {
            return Err(EthError::Url(String::new()).into());
        };
        let contract = RootChainContract { ethereum, address: settings.root_chain };
        let domain = Domain::new(contract.ethereum.chain_id().await?, settings.root_chain);
        let exit_period_s = contract.read(RootChain::exitPeriodCall {}, At::Latest).await?;
        let owners = settings.keys.iter().map(SigningKey::address);
        let rules = Rules {
            owners: owners.chain(settings.owners.iter().copied()).collect(),
            exit_period_s,
            data_grace_s: settings.data_grace_s,
            withdraw: settings.withdraw,
        };
        let bond = contract.bond().await?;
        let mut book = Book::open(&settings.dir, domain)?;
        book.guard(rules.owners.clone(), settings.coins.iter().copied().collect())?;
        let deposits =
            book.coins().values().map(|h| (h.deposit().first_coin, *h.deposit())).collect();
        Ok(Self {
            endpoint: 0,
            contract,
            domain,
            rules,
            bond,
            scanner: Scanner::default(),
            deposits,
            candidates: BTreeMap::new(),
            refused: BTreeMap::new(),
            roots: Arc::new(BTreeMap::new()),
            heads: None,
            recent: BTreeMap::new(),
            latest: BTreeMap::new(),
            seen: BTreeMap::new(),
            dirty: book.touched().clone(),
            missing: BTreeMap::new(),
            listed_at: None,
            couriers: BTreeMap::new(),
            put_off: BTreeMap::new(),
            authorizations: BTreeMap::new(),
            credits_due: true,
            report: Report::default(),
            book,
            settings,
        })
    }

    /// Looks once and does what is next.
    ///
    /// # Errors
    /// If Ethereum fails or something cannot be written; nothing is lost, the next step looks
    /// again, at the next endpoint if this one does not answer.
    pub async fn step(&mut self) -> Result<(), WatchError> {
        let done = self.look().await;
        if let Err(error) = &done {
            self.report.progress.errors += 1;
            if matches!(error, WatchError::Reorganised(_)) {
                self.read_again();
            }
            self.next_endpoint();
        }
        done
    }

    async fn look(&mut self) -> Result<(), WatchError> {
        // Before the contract is read: what is mined in between is then in what is read.
        self.reconcile().await?;
        self.follow_ethereum().await?;
        self.follow_child().await?;
        self.act().await
    }

    /// Goes on at the next endpoint.
    fn next_endpoint(&mut self) {
        self.endpoint = (self.endpoint + 1) % self.settings.ethereum.len();
        self.contract.ethereum = self.settings.ethereum[self.endpoint].clone();
        // Their journals remember what is outstanding.
        self.couriers.clear();
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.report.take()
    }

    /// The numbers.
    pub fn progress(&self) -> &Progress {
        &self.report.progress
    }

    /// Status and metrics.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Watched coins with what is known of them.
    pub fn coins(&self) -> &BTreeMap<CoinId, History> {
        self.book.coins()
    }

    /// Contract and chain whose coins are guarded.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Takes an owner's consent to the exit of one state, which `owner` has signed. Of several the
    /// one that lasts longest counts.
    pub fn authorize(
        &mut self,
        coin: CoinId,
        state_hash: B256,
        owner: Address,
        authorization: Authorization,
    ) {
        let key = (coin, state_hash, owner);
        let known = self.authorizations.entry(key).or_insert_with(|| authorization.clone());
        if known.not_after < authorization.not_after {
            *known = authorization;
        }
    }

    /// Looks for ever, and calls `between` after each look.
    pub async fn run(&mut self, mut between: impl FnMut(&mut Self)) {
        let mut pause = POLL;
        loop {
            match self.step().await {
                Ok(()) => pause = POLL,
                Err(error) => {
                    tracing::warn!(%error, url = self.contract.ethereum.url(), "watcher");
                    pause = (pause * 2).min(BACKOFF_MAX);
                }
            }
            between(self);
            tokio::time::sleep(pause).await;
        }
    }
}

/// Where an inclusion goes: the receiver, who may know it from nobody else.
fn receiver(shown: &Inclusion) -> Address {
    shown.transfer.transfer.new_owner
}
