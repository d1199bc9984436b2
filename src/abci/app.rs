//! The application: one method of ABCI 2.0 after the other (protocol.md section 6).
//!
//! Only the consensus connection writes, one call at a time, under one lock. Everything else reads
//! the last committed view, an immutable copy that Commit replaces.
//!
//! Crash story: FinalizeBlock computes a version, Commit makes it durable with one store commit
//! and only then moves the view. What is kept beside the store (deposit index, owner index, the
//! open block's leaves, the block archive) is rebuilt from it at start.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use plasma_core::archive::{BlockTree, Job};
use plasma_core::event_window::EventWindow;
use plasma_core::extension::limit;
use plasma_core::signature::SigningKey;
use plasma_core::smt::Leaf;
use plasma_core::state::{
    COIN_PREFIX, CoinRecord, DEPOSIT_PREFIX, coin_key, decode_deposit, key_number,
};
use plasma_ledger::{Chain, Hasher, Outcome, ReadError, Refusal, execute};
use plasma_pool::{Pool, SignatureCache};
use plasma_store::{Commitment, Store, StoreError};
use tendermint_proto::v0_38::abci::{
    RequestExtendVote, RequestFinalizeBlock, RequestPrepareProposal, RequestProcessProposal,
    RequestVerifyVoteExtension,
};

use crate::application::Fatal;
use crate::block_archive::{BlockArchive, leaves_of};
use crate::candidates::{Candidates, ListHash, list_hash};
use crate::committed::{Committed, SharedDeposits};
use crate::owners::Owners;
use crate::votes::{Gathered, extend, gather};
use crate::{prepare, votes};

/// What a node decides for itself; nothing of it touches consensus.
pub struct Options {
    /// The validator's root key; a node without one never signs.
    pub root_key: Option<SigningKey>,
    /// What the follower has read of the contract's queue; it publishes new copies here.
    pub events: Arc<RwLock<Arc<EventWindow>>>,
    /// Whether FinalizeBlock returns an event for each transfer.
    pub transfer_events: bool,
    /// Threads for signatures and trees.
    pub workers: usize,
    /// Transfers at which the pool is full.
    pub pool_transfers: usize,
    /// Signatures that are remembered.
    pub cached_signatures: usize,
}

/// Why the application does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store was made for another scheme than its genesis says.
    #[error("genesis demands store scheme {genesis}, this node is configured for {configured}")]
    Scheme {
        /// The scheme of genesis.
        genesis: String,
        /// The store's.
        configured: &'static str,
    },
    /// The state could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive's directory.
    #[error("block archive: {0}")]
    Archive(#[from] io::Error),
    /// What was rebuilt is not what the state says.
    #[error("the open block's leaves do not match the state: {found} found, {expected} expected")]
    OpenLeaves {
        /// Leaves rebuilt.
        found: u64,
        /// Transfers that the open block has.
        expected: u64,
    },
}

/// A height that was finalized and not committed.
struct Finalized {
    height: u64,
    outcome: Arc<Outcome>,
}

/// What the consensus connection owns.
#[derive(Default)]
struct Consensus {
    open_leaves: Vec<Leaf>,
    candidates: Candidates,
    finalized: Option<Finalized>,
}

/// The application's state.
pub struct App {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) committed: RwLock<Option<Arc<Committed>>>,
    consensus: Mutex<Consensus>,
    pub(crate) archive: BlockArchive,
    pub(crate) owners: RwLock<Owners>,
    pub(crate) pool: Pool,
    pub(crate) verifier: SignatureCache,
    hasher: ThreadHasher,
    pub(crate) options: Options,
}

/// Hashes a large tree on several threads.
struct ThreadHasher {
    workers: usize,
}

/// Fewest leaves for which threads pay.
const PARALLEL_LEAVES_MIN: usize = 4_096;

impl Hasher for ThreadHasher {
    fn tree(&self, leaves: Vec<Leaf>) -> BlockTree {
        if self.workers == 1 || leaves.len() < PARALLEL_LEAVES_MIN {
            return BlockTree::build_serial(leaves);
        }
        let top = self.workers.next_power_of_two().ilog2().min(5) as u8;
        BlockTree::build(leaves, top, |jobs| {
            std::thread::scope(|scope| {
                let threads: Vec<_> =
                    jobs.iter().map(|job: &Job<'_>| scope.spawn(move || job.run())).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
                    .collect()
            })
        })
    }
}

fn unpoisoned<T>(guard: Result<T, PoisonError<T>>) -> T {
    // A panic ends the process (see `server`): nobody reads what a dead call left behind.
    guard.unwrap_or_else(PoisonError::into_inner)
}

impl App {
    /// Opens the application over a store: rebuilds what is kept beside it.
    pub fn open(
        store: Arc<dyn Store>,
        archive_dir: &Path,
        options: Options,
    ) -> Result<Self, StartError> {
        let app = Self {
            committed: RwLock::new(None),
            consensus: Mutex::default(),
            archive: BlockArchive::open(archive_dir)?,
            owners: RwLock::default(),
            pool: Pool::new(options.pool_transfers),
            verifier: SignatureCache::new(options.cached_signatures, options.workers),
            hasher: ThreadHasher { workers: options.workers.max(1) },
            store: Arc::clone(&store),
            options,
        };
        if let Some((version, _)) = store.latest() {
            let deposits = SharedDeposits::default();
            let view = Committed::load(Arc::clone(&store), deposits, version)?;
            let scheme = &view.chain.params.scheme;
            if scheme != store.scheme() {
                let (genesis, configured) = (scheme.clone(), store.scheme());
                return Err(StartError::Scheme { genesis, configured });
            }
            app.rebuild(&view)?;
            *unpoisoned(app.committed.write()) = Some(Arc::new(view));
        }
        Ok(app)
    }

    /// Rebuilds the indexes and the open block's leaves from the state.
    fn rebuild(&self, view: &Committed) -> Result<(), StartError> {
        let mut deposits = Vec::new();
        let mut bad = None;
        self.store.scan(view.version, &[DEPOSIT_PREFIX], &mut |key, value| {
            let Some(id) = key_number(key, DEPOSIT_PREFIX) else { return };
            match decode_deposit(id, value) {
                Ok(deposit) => deposits.push(deposit),
                Err(source) => bad = Some(ReadError::Record { key: key.to_vec(), source }),
            }
        })?;
        let mut owners = unpoisoned(self.owners.write());
        let mut index = unpoisoned(view.deposits().write());
        for deposit in &deposits {
            index.push(deposit);
            owners.add(deposit.owner, deposit.first_coin, deposit.count.into());
        }
        let first_owner = |coin| {
            let id = index.find(coin)?;
            let at = deposits.binary_search_by_key(&id, |deposit| deposit.deposit_id).ok()?;
            Some(deposits[at].owner)
        };
        self.store.scan(view.version, &[COIN_PREFIX], &mut |key, value| {
            let Some(coin) = key_number(key, COIN_PREFIX) else { return };
            match CoinRecord::decode(value) {
                Ok(record) => {
                    if let Some(owner) = first_owner(coin) {
                        owners.remove(owner, coin);
                    }
                    if !record.gone {
                        owners.add(record.owner, coin, 1);
                    }
                }
                Err(source) => bad = Some(ReadError::Record { key: key.to_vec(), source }),
            }
        })?;
        if let Some(error) = bad {
            return Err(error.into());
        }
        drop(index);
        let tip = &view.tip;
        if tip.open != 0 {
            let leaves = leaves_of(view, tip.open, tip.opened_at, tip.height)?;
            if leaves.len() as u64 != tip.open_count {
                let (found, expected) = (leaves.len() as u64, tip.open_count);
                return Err(StartError::OpenLeaves { found, expected });
            }
            self.check_open_leaves(view, &leaves)?;
            unpoisoned(self.consensus.lock()).open_leaves = leaves;
        }
        Ok(())
    }

    /// Each leaf of the open block is its coin's state.
    fn check_open_leaves(&self, view: &Committed, leaves: &[Leaf]) -> Result<(), StartError> {
        for leaf in leaves {
            let key = coin_key(leaf.coin).to_vec();
            let value = self
                .store
                .get(view.version, &key)?
                .ok_or_else(|| ReadError::Missing { key: key.clone() })?;
            let record =
                CoinRecord::decode(&value).map_err(|source| ReadError::Record { key, source })?;
            if record.hash != leaf.hash || record.block != view.tip.open {
                let expected = leaves.len() as u64;
                return Err(StartError::OpenLeaves { found: expected - 1, expected });
            }
        }
        Ok(())
    }

    /// The last committed view; none before InitChain.
    pub fn committed(&self) -> Option<Arc<Committed>> {
        unpoisoned(self.committed.read()).clone()
    }

    pub(crate) fn required_view(&self, height: i64) -> Result<Arc<Committed>, Fatal> {
        self.committed().ok_or_else(|| Fatal::new(height, "InitChain has not run"))
    }

    fn consensus(&self) -> MutexGuard<'_, Consensus> {
        unpoisoned(self.consensus.lock())
    }

    fn events(&self) -> Arc<EventWindow> {
        let events = unpoisoned(self.options.events.read());
        Arc::clone(&events)
    }

    /// Makes genesis durable, or compares a repeated one with the state.
    pub(crate) fn start_chain(&self, chain: &Chain) -> Result<Commitment, Fatal> {
        let fatal = |error: StoreError| Fatal::new(0, error);
        let writes = chain.genesis_writes();
        match self.store.latest() {
            None => {
                let commitment = self.store.commit(0, &writes).map_err(fatal)?;
                self.store.persist(0).map_err(fatal)?;
                let view = Committed::load(Arc::clone(&self.store), SharedDeposits::default(), 0)
                    .map_err(|error| Fatal::new(0, error))?;
                *unpoisoned(self.committed.write()) = Some(Arc::new(view));
                Ok(commitment)
            }
            Some((0, commitment)) => {
                for (key, value) in writes {
                    if self.store.get(0, &key).map_err(fatal)? != value {
                        let cause = "the genesis differs from the one this store was made with";
                        return Err(Fatal::new(0, cause));
                    }
                }
                Ok(commitment)
            }
            Some((version, _)) => {
                let cause = format!("InitChain, but the state is at height {version}");
                Err(Fatal::new(0, cause))
            }
        }
    }

    /// The outcome of a transaction list over the committed state: the kept one, or executed anew.
    fn outcome(
        &self,
        consensus: &mut Consensus,
        view: &Committed,
        height: u64,
        txs: &[Bytes],
    ) -> Result<(ListHash, Arc<Outcome>), Refusal> {
        let list = list_hash(txs);
        // Kept outcomes are those of the height after the view: Commit clears them.
        if height == view.version + 1
            && let Some(outcome) = consensus.candidates.find(&list)
        {
            return Ok((list, outcome));
        }
        let open = &consensus.open_leaves;
        let (verifier, hasher) = (&self.verifier, &self.hasher);
        let outcome = Arc::new(execute(&view.chain, view, verifier, hasher, height, txs, open)?);
        consensus.candidates.insert(list, Arc::clone(&outcome));
        Ok((list, outcome))
    }

    pub(crate) fn prepare(&self, request: &RequestPrepareProposal) -> Result<Vec<Bytes>, Fatal> {
        let height = request.height;
        let view = self.required_view(height)?;
        let commit = request.local_last_commit.as_ref();
        let gathered = gather(&view, commit, &self.events(), &self.verifier)
            .map_err(|error| Fatal::new(height, error))?;
        let most = u64::try_from(request.max_tx_bytes).unwrap_or(0);
        let mut consensus = self.consensus();
        match self.build_and_judge(&mut consensus, &view, gathered, &request.txs, most) {
            Ok(txs) => Ok(txs),
            Err(Refusal::Read(error)) => Err(Fatal::new(height, error)),
            Err(refusal) => {
                tracing::error!(height, %refusal, "own proposal refused; proposing the least");
                let nothing = Gathered::default();
                self.build_and_judge(&mut consensus, &view, nothing, &[], most)
                    .map_err(|refusal| Fatal::new(height, refusal))
            }
        }
    }

    /// Builds a block and judges it as every other validator will.
    fn build_and_judge(
        &self,
        consensus: &mut Consensus,
        view: &Committed,
        gathered: votes::Gathered,
        txs: &[Bytes],
        most: u64,
    ) -> Result<Vec<Bytes>, Refusal> {
        let open = &consensus.open_leaves;
        let (verifier, hasher) = (&self.verifier, &self.hasher);
        let block = prepare::build(view, verifier, hasher, open, gathered, txs, most)?;
        self.outcome(consensus, view, view.version + 1, &block)?;
        Ok(block)
    }

    pub(crate) fn process(&self, request: &RequestProcessProposal) -> Result<bool, Fatal> {
        let view = self.required_view(request.height)?;
        let height = u64::try_from(request.height).unwrap_or(0);
        let mut consensus = self.consensus();
        match self.outcome(&mut consensus, &view, height, &request.txs) {
            Ok((list, _)) => {
                consensus.candidates.bind(&list, &request.hash);
                Ok(true)
            }
            Err(Refusal::Read(error)) => Err(Fatal::new(request.height, error)),
            Err(refusal) => {
                tracing::warn!(height, %refusal, "proposal refused");
                Ok(false)
            }
        }
    }

    pub(crate) fn extend(&self, request: &RequestExtendVote) -> Vec<u8> {
        // Never fails: without a state of the height before there is nothing to say.
        match self.committed() {
            Some(view) if i64::try_from(view.version + 1) == Ok(request.height) => {
                extend(&view, self.options.root_key.as_ref(), &self.events())
            }
            _ => Vec::new(),
        }
    }

    pub(crate) fn verify_extension(&self, request: &RequestVerifyVoteExtension) -> bool {
        let pad = self.committed().map_or(0, |view| view.chain.params.extension_pad_bytes);
        request.vote_extension.len() <= limit(pad)
    }

    /// Executes a decided block and computes its version.
    pub(crate) fn finalize(
        &self,
        request: &RequestFinalizeBlock,
    ) -> Result<(Arc<Outcome>, Commitment), Fatal> {
        let height = request.height;
        let view = self.required_view(height)?;
        let number = u64::try_from(height).unwrap_or(0);
        let mut consensus = self.consensus();
        let bound = consensus.candidates.bound(&request.hash);
        let outcome = match bound.filter(|outcome| outcome.tip.height == number) {
            Some(outcome) => outcome,
            None => {
                self.outcome(&mut consensus, &view, number, &request.txs)
                    .map_err(|refusal| Fatal::new(height, refusal))?
                    .1
            }
        };
        let commitment = self
            .store
            .commit(number, &outcome.writes)
            .map_err(|error| Fatal::new(height, error))?;
        consensus.finalized = Some(Finalized { height: number, outcome: Arc::clone(&outcome) });
        Ok((outcome, commitment))
    }

    /// Makes the finalized height durable and moves everything else after it.
    pub(crate) fn commit_finalized(&self) -> Result<(), Fatal> {
        let mut consensus = self.consensus();
        let finalized = consensus.finalized.take();
        let Finalized { height, outcome } =
            finalized.ok_or_else(|| Fatal::new(0, "Commit without FinalizeBlock"))?;
        let view = self.required_view(height as i64)?;
        self.store.persist(height).map_err(|error| Fatal::new(height as i64, error))?;

        self.index(&view, &outcome);
        match &outcome.closed {
            None => consensus.open_leaves.extend_from_slice(&outcome.leaves),
            Some((number, record, tree)) => {
                consensus.open_leaves.clear();
                if let Err(error) = self.archive.write(*number, tree) {
                    tracing::warn!(%error, number, "block archive; it is rebuilt when asked for");
                }
                let (root, transfers) = (record.root, tree.leaves().len());
                tracing::info!(height, plasma_block = number, %root, transfers, "block closed");
            }
        }
        consensus.candidates.clear();
        *unpoisoned(self.committed.write()) = Some(Arc::new(view.next(outcome.tip)));
        self.pool.commit(&outcome);
        Ok(())
    }

    /// Follows a height in the indexes of deposits and owners.
    fn index(&self, view: &Committed, outcome: &Outcome) {
        let mut owners = unpoisoned(self.owners.write());
        let mut deposits = unpoisoned(view.deposits().write());
        for deposit in &outcome.deposits {
            deposits.push(deposit);
            owners.add(deposit.owner, deposit.first_coin, deposit.count.into());
        }
        drop(deposits);
        for executed in outcome.results.iter().flat_map(|result| &result.executed) {
            owners.remove(executed.from, executed.coin);
            owners.add(executed.to, executed.coin, 1);
        }
        for (coin, owner) in &outcome.gone {
            owners.remove(*owner, *coin);
        }
    }
}
