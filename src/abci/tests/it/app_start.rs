//! An application before its genesis, over a store that is not its own, and large answers.

use std::sync::Arc;

use plasma_abci::app::{App, Options as AppOptions, StartError};
use plasma_abci::application::Application;
use plasma_core::event::RootEvent;
use plasma_core::transfer::SignedTransfer;
use plasma_core::wire::Reader;
use plasma_store::jmt_sled::JmtSled;
use plasma_store::{Commitment, EachChange, Proven, Store, StoreError, Write};
use plasma_testkit::{Network, Options, bundle, key, single};
use tendermint_proto::v0_38::abci::{
    RequestCheckTx, RequestExtendVote, RequestFinalizeBlock, RequestInfo, RequestPrepareProposal,
    RequestProcessProposal, RequestQuery, RequestVerifyVoteExtension,
};

fn options() -> AppOptions {
    AppOptions {
        root_key: None,
        events: Arc::default(),
        transfer_events: false,
        workers: 1,
        pool_transfers: 10,
        cached_signatures: 10,
    }
}

#[test]
fn before_genesis_nothing_panics() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(JmtSled::open(&dir.path().join("state"), 1 << 20).unwrap());
    let app = App::open(store, &dir.path().join("blocks"), options()).unwrap();
    let info = app.info(RequestInfo::default());
    assert_eq!((info.last_block_height, info.last_block_app_hash.len()), (0, 0));
    assert_eq!((info.data.as_str(), info.app_version), ("plasma-cash", 1));
    let query = app.query(RequestQuery { path: "/params".into(), ..Default::default() });
    assert_eq!(query.code, 2);
    assert_ne!(app.check_tx(RequestCheckTx::default()).code, 0);
    assert!(app.extend_vote(RequestExtendVote::default()).unwrap().vote_extension.is_empty());
    let verify = RequestVerifyVoteExtension::default();
    assert_eq!(app.verify_vote_extension(verify).unwrap().status, 1);
    let fatal = [
        app.prepare_proposal(RequestPrepareProposal::default()).unwrap_err(),
        app.process_proposal(RequestProcessProposal::default()).unwrap_err(),
        app.finalize_block(RequestFinalizeBlock::default()).unwrap_err(),
    ];
    assert!(fatal.iter().all(|fatal| fatal.to_string().contains("InitChain")));
    assert!(app.commit().unwrap_err().to_string().contains("FinalizeBlock"));
}

#[test]
fn a_node_without_a_root_key_follows_and_says_nothing() {
    let mut network = Network::start(Options::default());
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(JmtSled::open(&dir.path().join("state"), 1 << 20).unwrap());
    let app = App::open(store, &dir.path().join("blocks"), options()).unwrap();
    app.init_chain(network.init_chain()).unwrap();
    let deposit = network.deposit(key(1).address(), 1);
    network.queue(&RootEvent::Deposited(deposit));
    for height in 1..=3 {
        let txs = network.step(&[]);
        let request = RequestExtendVote { height, ..Default::default() };
        assert!(app.extend_vote(request).unwrap().vote_extension.is_empty());
        let request = RequestFinalizeBlock { txs, height, ..Default::default() };
        let answer = app.finalize_block(request).unwrap();
        app.commit().unwrap();
        let theirs = network.nodes[0].app.info(RequestInfo::default());
        assert_eq!(answer.app_hash, theirs.last_block_app_hash);
    }
    assert_eq!(app.committed().unwrap().tip, network.tip());
}

/// A store whose scheme is another than the one that its genesis names.
struct Renamed(JmtSled);

impl Store for Renamed {
    fn scheme(&self) -> &'static str {
        "another/1"
    }
    fn latest(&self) -> Option<(u64, Commitment)> {
        self.0.latest()
    }
    fn commit(&self, version: u64, batch: &[Write]) -> Result<Commitment, StoreError> {
        self.0.commit(version, batch)
    }
    fn persist(&self, version: u64) -> Result<(), StoreError> {
        self.0.persist(version)
    }
    fn discard(&self) {
        self.0.discard();
    }
    fn newest(
        &self,
        version: u64,
        key: &[u8],
    ) -> Result<Option<(u64, Option<Vec<u8>>)>, StoreError> {
        self.0.newest(version, key)
    }
    fn prove(&self, version: u64, key: &[u8]) -> Result<Proven, StoreError> {
        self.0.prove(version, key)
    }
    fn changes(&self, from: u64, to: u64, each: &mut EachChange<'_>) -> Result<(), StoreError> {
        self.0.changes(from, to, each)
    }
    fn scan(
        &self,
        version: u64,
        prefix: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), StoreError> {
        self.0.scan(version, prefix, each)
    }
}

#[test]
fn a_store_of_another_scheme_is_refused() {
    let network = Network::start(Options::default());
    let dir = network.dir(0).to_owned();
    // The node must let go of its store first.
    let copy = tempfile::tempdir().unwrap();
    let state = copy.path().join("state");
    let store = Arc::new(JmtSled::open(&state, 1 << 20).unwrap());
    let app = App::open(store, &dir.join("blocks2"), options()).unwrap();
    app.init_chain(network.init_chain()).unwrap();
    drop(app);
    let store = Arc::new(Renamed(JmtSled::open(&state, 1 << 20).unwrap()));
    match App::open(store, &dir.join("blocks2"), options()).map(drop) {
        Err(StartError::Scheme { genesis, configured: "another/1" }) => {
            assert_eq!(genesis, "jmt-sha256/1");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn accounts_are_paged() {
    let mut network = Network::start(Options { max_heights: 1, ..Options::default() });
    for _ in 0..3 {
        network.credit(key(1).address(), 1_000);
    }
    // Every second coin leaves: 1,500 runs of one coin.
    let away: Vec<_> =
        (1..=1_500).map(|i| network.transfer(2 * i, key(2).address(), &key(1))).collect();
    for part in away.chunks(750) {
        network.step(&[bundle(part)]);
    }
    let page = |after: &[u8]| -> Vec<(u64, u64)> {
        let path = format!("/account/{}/coins", key(1).address());
        let data = after.to_vec().into();
        let answer = network.nodes[0].app.query(RequestQuery { path, data, ..Default::default() });
        assert_eq!(answer.code, 0, "{}", answer.log);
        let mut reader = Reader::new(&answer.value);
        let count = reader.varint().unwrap();
        let runs = (0..count).map(|_| (reader.u64().unwrap(), reader.u64().unwrap())).collect();
        reader.finish().unwrap();
        runs
    };
    let mut runs = page(&[]);
    assert_eq!(runs.len(), 1_000);
    let last = runs[999].0;
    runs.extend(page(&last.to_be_bytes()));
    assert_eq!(runs, (1..=1_500).map(|i| (2 * i - 1, 1)).collect::<Vec<_>>());
    assert!(page(&3_000u64.to_be_bytes()).is_empty());
    assert!(page(&u64::MAX.to_be_bytes()).is_empty());
    let path = format!("/account/{}/coins", key(1).address());
    let data = vec![0; 7].into();
    let short = network.nodes[0].app.query(RequestQuery { path, data, ..Default::default() });
    assert_eq!(short.code, 1);
}

#[test]
fn flags_make_no_history() {
    let mut network = Network::start(Options { max_heights: 1, ..Options::default() });
    network.credit(key(1).address(), 3);
    // Frozen and thawed before its first move, between two, in the height of a move, and after.
    let flags = |network: &mut Network| {
        network.queue(&RootEvent::ExitStarted(1));
        network.step(&[]);
        network.step(&[]);
        network.queue(&RootEvent::Thawed(1));
        network.step(&[]);
    };
    let mut made: Vec<SignedTransfer> = Vec::new();
    for round in 0..3u64 {
        flags(&mut network);
        let (owner, to) = (key(1 + round % 2), key(1 + (round + 1) % 2));
        network.step(&[]);
        let transfer = network.transfer(1, to.address(), &owner);
        network.step(&[single(&transfer)]);
        made.push(transfer);
    }
    flags(&mut network);
    network.restart(0);
    let ask = |path: &str| {
        let request = RequestQuery { path: path.into(), ..Default::default() };
        network.nodes[0].app.query(request).value
    };
    let history = ask("/coin/1/history");
    let mut reader = Reader::new(&history);
    assert_eq!(reader.varint(), Ok(3));
    for (i, transfer) in made.iter().enumerate() {
        assert_eq!(reader.varint(), Ok(i as u64 + 1));
        assert_eq!(&SignedTransfer::decode(&mut reader).unwrap(), transfer);
        let proof = ask(&format!("/coin/1/proof/{}", i + 1));
        assert_eq!(proof[0], 2);
        assert_eq!(proof[1..=SignedTransfer::ENCODED_LEN], transfer.encode());
    }
    reader.finish().unwrap();
}
