//! Several applications driven through heights as CometBFT drives them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};

use bytes::Bytes;
use plasma_abci::app::{App, Options as AppOptions};
use plasma_abci::application::Application;
use plasma_abci::grammar::{Call, Method};
use plasma_core::coin::{CoinState, Deposit, asset};
use plasma_core::domain::Domain;
use plasma_core::event::RootEvent;
use plasma_core::event_window::EventWindow;
use plasma_core::signature::SigningKey;
use plasma_core::transfer::SignedTransfer;
use plasma_core::validators::{Validator, ValidatorSet};
use plasma_core::{Address, B256, CoinId, U256};
use plasma_ledger::{Genesis, GenesisParams, GenesisValidator, find_coin};
use plasma_store::jmt_sled::{JmtSled, SCHEME};
use sha2::{Digest, Sha256};
use tendermint_proto::v0_38::abci::response_process_proposal::ProposalStatus;
use tendermint_proto::v0_38::abci::response_verify_vote_extension::VerifyStatus;
use tendermint_proto::v0_38::abci::{
    CheckTxType, ExtendedCommitInfo, ExtendedVoteInfo, RequestCheckTx, RequestExtendVote,
    RequestFinalizeBlock, RequestInfo, RequestInitChain, RequestPrepareProposal,
    RequestProcessProposal, RequestVerifyVoteExtension, ResponseCheckTx, ResponseFinalizeBlock,
    Validator as ProtoValidator, ValidatorUpdate,
};
use tendermint_proto::v0_38::crypto::PublicKey;
use tendermint_proto::v0_38::crypto::public_key::Sum;
use tendermint_proto::v0_38::types::{AbciParams, BlockIdFlag, BlockParams, ConsensusParams};

use crate::wallet::{key, sign};

/// What a network is made of.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Validators, all of power 10.
    pub validators: usize,
    /// Heights that a plasma block stays open.
    pub max_heights: u64,
    /// Transfers at which a plasma block closes.
    pub max_transfers: u64,
    /// Most transfers that a height lists.
    pub max_height_transfers: u64,
    /// Transfers at which each pool is full.
    pub pool_transfers: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            validators: 4,
            max_heights: 2,
            max_transfers: 1_000_000,
            max_height_transfers: 1_000,
            pool_transfers: 1_000,
        }
    }
}

/// One validator.
pub struct Node {
    dir: tempfile::TempDir,
    root_key: SigningKey,
    consensus_key: [u8; 32],
    /// What its follower has read.
    pub events: Arc<RwLock<Arc<EventWindow>>>,
    /// Its application.
    pub app: App,
    /// The driver's calls of each life of the application, for `plasma_abci::grammar`.
    calls: Mutex<Vec<Vec<Call>>>,
}

impl Node {
    fn record(&self, method: Method, height: i64) {
        self.calls.lock().unwrap().last_mut().unwrap().push(Call { method, height });
    }

    /// Starts a life: CometBFT asks where the application stands.
    fn start(&self) {
        self.calls.lock().unwrap().push(Vec::new());
        self.record(Method::Info, 0);
        self.app.info(RequestInfo::default());
    }

    /// The driver's calls by life of the application.
    pub fn lives(&self) -> Vec<Vec<Call>> {
        self.calls.lock().unwrap().clone()
    }
}

/// Validators, a root chain and the last commit.
pub struct Network {
    options: Options,
    /// In set order: the index is the validator's.
    pub nodes: Vec<Node>,
    /// The domain of the chain.
    pub domain: Domain,
    /// Height to be decided.
    pub height: i64,
    /// Extensions of the last commit by validator; none: no vote.
    pub extensions: Vec<Option<Vec<u8>>>,
    queue: Vec<Vec<u8>>,
    next: (u64, CoinId),
    down: BTreeSet<usize>,
    /// Decided blocks from height 1 on, with what a node answered.
    decided: Vec<(Vec<Bytes>, ResponseFinalizeBlock)>,
}

/// The contract of every test network.
fn root_chain() -> Address {
    Address::repeat_byte(0xcc)
}

fn open_app(
    dir: &Path,
    root_key: &SigningKey,
    events: &Arc<RwLock<Arc<EventWindow>>>,
    pool_transfers: usize,
) -> App {
    let store = JmtSled::open(&dir.join("state"), 16 << 20).unwrap();
    let options = AppOptions {
        root_key: Some(root_key.clone()),
        events: Arc::clone(events),
        transfer_events: true,
        workers: 2,
        pool_transfers,
        cached_signatures: 10_000,
    };
    App::open(Arc::new(store), &dir.join("blocks"), options).unwrap()
}

impl Network {
    /// Makes the validators and runs InitChain on each.
    pub fn start(options: Options) -> Self {
        let mut validators: Vec<(SigningKey, Validator)> = (0..options.validators)
            .map(|i| {
                let root_key = key(1_000 + i as u64);
                let consensus_key = Sha256::digest([i as u8]).into();
                let v = Validator { root_key: root_key.address(), power: 10, consensus_key };
                (root_key, v)
            })
            .collect();
        validators.sort_by_key(|(_, v)| v.root_key);
        let nodes = validators
            .into_iter()
            .map(|(root_key, v)| {
                let dir = tempfile::tempdir().unwrap();
                let events = Arc::default();
                let app = open_app(dir.path(), &root_key, &events, options.pool_transfers);
                let (consensus_key, calls) = (v.consensus_key, Mutex::default());
                Node { dir, root_key, consensus_key, events, app, calls }
            })
            .collect();
        let network = Self {
            options,
            nodes,
            domain: Domain::new(31_337, root_chain()),
            height: 1,
            extensions: vec![None; options.validators],
            queue: Vec::new(),
            next: (1, 1),
            down: BTreeSet::new(),
            decided: Vec::new(),
        };
        let request = network.init_chain();
        let hashes: Vec<Bytes> = network
            .nodes
            .iter()
            .map(|node| {
                node.start();
                node.record(Method::InitChain, 1);
                node.app.init_chain(request.clone()).unwrap().app_hash
            })
            .collect();
        assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]));
        network
    }

    /// The validators in set order.
    pub fn set(&self) -> ValidatorSet {
        let validators = self.nodes.iter().map(|node| Validator {
            root_key: node.root_key.address(),
            power: 10,
            consensus_key: node.consensus_key,
        });
        ValidatorSet::new(1, validators.collect()).unwrap()
    }

    /// The genesis application state.
    pub fn genesis(&self) -> Genesis {
        use base64::Engine;
        let encode = |key: [u8; 32]| base64::engine::general_purpose::STANDARD.encode(key);
        let validators = self.nodes.iter().map(|node| GenesisValidator {
            consensus_key: encode(node.consensus_key),
            root_key: node.root_key.address(),
            power: 10,
        });
        Genesis {
            chain_id: 31_337,
            root_chain: root_chain(),
            store: SCHEME.into(),
            params: GenesisParams {
                max_transfers: self.options.max_transfers,
                max_height_transfers: self.options.max_height_transfers,
                max_heights: self.options.max_heights,
                extension_pad_bytes: 0,
            },
            validator_set_id: 1,
            validators: validators.collect(),
        }
    }

    /// A valid InitChain.
    pub fn init_chain(&self) -> RequestInitChain {
        let update = |node: &Node| ValidatorUpdate {
            pub_key: Some(PublicKey { sum: Some(Sum::Ed25519(node.consensus_key.to_vec())) }),
            power: 10,
        };
        RequestInitChain {
            chain_id: "test".into(),
            consensus_params: Some(ConsensusParams {
                block: Some(BlockParams { max_bytes: 33_554_432, max_gas: -1 }),
                abci: Some(AbciParams { vote_extensions_enable_height: 1 }),
                ..Default::default()
            }),
            validators: self.nodes.iter().map(update).collect(),
            app_state_bytes: serde_json::to_vec(&self.genesis()).unwrap().into(),
            initial_height: 1,
            ..Default::default()
        }
    }

    /// Queues an event on the root chain; every follower reads it at once.
    pub fn queue(&mut self, event: &RootEvent) {
        self.queue.push(event.encode());
        for i in 0..self.nodes.len() {
            self.follow(i, self.queue.len());
        }
    }

    /// Queues an event that no follower has read yet.
    pub fn queue_unseen(&mut self, event: &RootEvent) {
        self.queue.push(event.encode());
    }

    /// Lets the follower of a node have read the first `count` events.
    pub fn follow(&self, node: usize, count: usize) {
        let mut window = EventWindow::default();
        self.queue[..count].iter().for_each(|e| {
            window.push(e).unwrap();
        });
        *self.nodes[node].events.write().unwrap() = Arc::new(window);
    }

    /// The bytes of the queued events.
    pub fn queued(&self) -> &[Vec<u8>] {
        &self.queue
    }

    /// A deposit of `count` coins for `owner`, to be queued.
    pub fn deposit(&mut self, owner: Address, count: u16) -> Deposit {
        let (deposit_id, first_coin) = self.next;
        self.next = (deposit_id + 1, first_coin + u64::from(count));
        Deposit {
            deposit_id,
            first_coin,
            count,
            owner,
            asset_kind: asset::ETH,
            token: Address::ZERO,
            token_id: U256::ZERO,
            value: U256::from(1),
            deposit_block: 0,
        }
    }

    /// Makes coins for `owner` and runs heights until they exist; returns the first.
    pub fn credit(&mut self, owner: Address, count: u16) -> CoinId {
        let deposit = self.deposit(owner, count);
        self.queue(&RootEvent::Deposited(deposit));
        for _ in 0..3 {
            self.step(&[]);
        }
        assert!(self.tip().last_coin >= deposit.first_coin, "the deposit was credited");
        deposit.first_coin
    }

    /// The nodes that are up.
    fn up(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().enumerate().filter(|(i, _)| !self.down.contains(i)).map(|(_, node)| node)
    }

    fn first_up(&self) -> &Node {
        self.up().next().unwrap()
    }

    /// The position of the first node that is up.
    pub fn tip(&self) -> plasma_core::state::Tip {
        self.first_up().app.committed().unwrap().tip
    }

    /// A coin's state on the first node that is up.
    pub fn coin(&self, coin: CoinId) -> CoinState {
        let view = self.first_up().app.committed().unwrap();
        find_coin(&*view, &self.domain, coin).unwrap().unwrap().record.state(coin)
    }

    /// A transfer of a coin's current state, valid for a long time.
    pub fn transfer(&self, coin: CoinId, to: Address, owner: &SigningKey) -> SignedTransfer {
        sign(&self.coin(coin), to, 1_000_000, owner, &self.domain)
    }

    /// The extended commit that the next proposer gets.
    pub fn commit_info(&self) -> ExtendedCommitInfo {
        let vote = |(node, extension): (&Node, &Option<Vec<u8>>)| ExtendedVoteInfo {
            validator: Some(ProtoValidator {
                address: Sha256::digest(node.consensus_key)[..20].to_vec().into(),
                power: 10,
            }),
            vote_extension: extension.clone().unwrap_or_default().into(),
            extension_signature: Bytes::new(),
            block_id_flag: match extension {
                Some(_) => BlockIdFlag::Commit.into(),
                None => BlockIdFlag::Absent.into(),
            },
        };
        ExtendedCommitInfo {
            round: 0,
            votes: self.nodes.iter().zip(&self.extensions).map(vote).collect(),
        }
    }

    /// The block that a node proposes.
    pub fn prepare(&self, node: usize, txs: &[Vec<u8>]) -> Vec<Bytes> {
        let request = RequestPrepareProposal {
            max_tx_bytes: 33_000_000,
            txs: txs.iter().cloned().map(Bytes::from).collect(),
            local_last_commit: Some(self.commit_info()),
            height: self.height,
            ..Default::default()
        };
        self.nodes[node].record(Method::PrepareProposal, self.height);
        self.nodes[node].app.prepare_proposal(request).unwrap().txs
    }

    /// Whether every node that is up accepts a block; they must agree.
    pub fn process(&self, block: &[Bytes]) -> bool {
        let request = RequestProcessProposal {
            txs: block.to_vec(),
            hash: block_hash(block),
            height: self.height,
            ..Default::default()
        };
        let accepted: Vec<bool> = self
            .up()
            .map(|node| {
                node.record(Method::ProcessProposal, self.height);
                let status = node.app.process_proposal(request.clone()).unwrap().status;
                status == i32::from(ProposalStatus::Accept)
            })
            .collect();
        assert!(accepted.windows(2).all(|pair| pair[0] == pair[1]), "nodes disagree: {accepted:?}");
        accepted[0]
    }

    /// Votes for a block: every extension, which every node must accept; none of a node down.
    fn vote(&self, block: &[Bytes]) -> Vec<Option<Vec<u8>>> {
        let (height, hash) = (self.height, block_hash(block));
        let extend = |(i, node): (usize, &Node)| {
            if self.down.contains(&i) {
                return None;
            }
            let request = RequestExtendVote { height, hash: hash.clone(), ..Default::default() };
            node.record(Method::ExtendVote, height);
            Some(node.app.extend_vote(request).unwrap().vote_extension.to_vec())
        };
        let extensions: Vec<_> = self.nodes.iter().enumerate().map(extend).collect();
        for (node, extension) in
            self.up().flat_map(|n| extensions.iter().flatten().map(move |e| (n, e)))
        {
            node.record(Method::VerifyVoteExtension, height);
            let vote_extension = Bytes::copy_from_slice(extension);
            let hash = hash.clone();
            let request =
                RequestVerifyVoteExtension { height, hash, vote_extension, ..Default::default() };
            let status = node.app.verify_vote_extension(request).unwrap().status;
            assert_eq!(status, i32::from(VerifyStatus::Accept), "a correct extension is accepted");
        }
        extensions
    }

    /// Decides a block on every node that is up; their answers must be equal. Gathers the
    /// extensions.
    pub fn decide(&mut self, block: &[Bytes]) {
        self.extensions = self.vote(block);
        let answers: Vec<_> = self.up().map(|node| execute(node, self.height, block)).collect();
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "nodes differ: {answers:?}");
        self.decided.push((block.to_vec(), answers[0].clone()));
        self.height += 1;
    }

    /// Leaves a node out from now on.
    pub fn stop(&mut self, node: usize) {
        self.down.insert(node);
    }

    /// Restarts a node that was left out and replays the decided blocks that it missed.
    pub fn catch_up(&mut self, node: usize) {
        self.restart(node);
        self.down.remove(&node);
        let done = self.nodes[node].app.info(RequestInfo::default()).last_block_height;
        for (i, (block, answer)) in self.decided.iter().enumerate().skip(done as usize) {
            assert_eq!(&execute(&self.nodes[node], i as i64 + 1, block), answer, "replay differs");
        }
    }

    /// One height: proposed in turn, accepted by all, decided. Returns the block.
    pub fn step(&mut self, txs: &[Vec<u8>]) -> Vec<Bytes> {
        let up: Vec<usize> = (0..self.nodes.len()).filter(|i| !self.down.contains(i)).collect();
        let block = self.prepare(up[self.height as usize % up.len()], txs);
        assert!(self.process(&block), "a correct proposal is accepted");
        self.decide(&block);
        block
    }

    /// CheckTx of a node.
    pub fn check(&self, node: usize, tx: &[u8], recheck: bool) -> ResponseCheckTx {
        let kind = if recheck { CheckTxType::Recheck } else { CheckTxType::New };
        let request = RequestCheckTx { tx: tx.to_vec().into(), r#type: kind.into() };
        self.nodes[node].app.check_tx(request)
    }

    /// Stops a node's application and opens it again over what is on disk.
    pub fn restart(&mut self, node: usize) {
        let index = node;
        let node = self.nodes.remove(index);
        let Node { dir, root_key, consensus_key, events, app, calls } = node;
        drop(app);
        let app = open_app(dir.path(), &root_key, &events, self.options.pool_transfers);
        let node = Node { dir, root_key, consensus_key, events, app, calls };
        node.start();
        self.nodes.insert(index, node);
    }

    /// Directory of a node.
    pub fn dir(&self, node: usize) -> &Path {
        self.nodes[node].dir.path()
    }

    /// Root key of a node.
    pub fn root_key(&self, node: usize) -> &SigningKey {
        &self.nodes[node].root_key
    }

    /// The queue's hash after `count` events.
    pub fn queue_hash(&self, count: usize) -> B256 {
        self.queue[..count].iter().fold(B256::ZERO, |h, e| plasma_core::event::event_hash(h, e))
    }
}

/// FinalizeBlock and Commit.
fn execute(node: &Node, height: i64, block: &[Bytes]) -> ResponseFinalizeBlock {
    let (txs, hash) = (block.to_vec(), block_hash(block));
    let request = RequestFinalizeBlock { txs, hash, height, ..Default::default() };
    node.record(Method::FinalizeBlock, height);
    let answer = node.app.finalize_block(request).unwrap();
    node.record(Method::Commit, height);
    node.app.commit().unwrap();
    answer
}

/// A block's hash: any function of its transactions will do here.
pub fn block_hash(block: &[Bytes]) -> Bytes {
    let mut hasher = Sha256::new();
    block.iter().for_each(|tx| hasher.update(tx));
    hasher.finalize().to_vec().into()
}
