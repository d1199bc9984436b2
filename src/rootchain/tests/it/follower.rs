//! What the follower publishes, and when.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use plasma_core::coin::asset;
use plasma_core::event::{OBSERVATION_REACH, RootEvent};
use plasma_core::event_window::EventWindow;
use plasma_core::{Address, B256, U256};
use plasma_rootchain::contract::{IRootChain, RootChain, RootChainContract};
use plasma_rootchain::ethereum::{At, EthError};
use plasma_rootchain::follower::{Cursor, FollowError, Follower, Published, Source};
use serde_json::{Value, json};

use crate::anvil::{Anvil, wait_for};
use crate::chain::validators;
use crate::gate::{Gate, Verdict};

const START: Cursor = (0, B256::ZERO);

struct Fixture {
    anvil: Anvil,
    contract: RootChainContract,
    deployed_at: u64,
    published: Published,
}

impl Fixture {
    async fn new() -> Self {
        let anvil = Anvil::start();
        // The deployment is not the first block, so that it matters where reading starts.
        anvil.mine(5).await;
        let (contract, deployed_at) = anvil.deploy(&validators().0).await;
        Self { anvil, contract, deployed_at, published: Published::default() }
    }

    fn follower(&self, urls: Vec<String>, cursor: Cursor) -> Follower {
        let source = Source {
            urls,
            root_chain: self.contract.address,
            deployed_at: self.deployed_at,
            cursor_file: self.anvil.dir().join("cursor"),
        };
        Follower::new(source, Arc::clone(&self.published), cursor)
    }

    fn window(&self) -> Arc<EventWindow> {
        Arc::clone(&self.published.read().unwrap())
    }

    /// One deposit of `value` wei, in one block.
    async fn deposit(&self, value: u64) {
        let alice = self.anvil.sender("alice").await;
        let (token, value) = ((Address::ZERO, U256::ZERO), U256::from(value));
        self.contract.make_deposit(&alice, asset::ETH, token, value, 1).await.unwrap();
    }

    fn values(&self) -> Vec<u64> {
        let window = self.window();
        let events = window.events(window.base_count() + 1, window.count()).unwrap_or_default();
        let value = |e: &Arc<[u8]>| match RootEvent::decode(e) {
            Some(RootEvent::Deposited(deposit)) => deposit.value.to(),
            other => panic!("{other:?}"),
        };
        events.iter().map(value).collect()
    }
}

#[tokio::test]
async fn only_finalized_events_are_seen() {
    let f = Fixture::new().await;
    let (ethereum, mut follower) = (f.anvil.ethereum(), f.follower(vec![], START));
    f.deposit(7).await;
    let block = f.anvil.head(At::Latest).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        follower.look(&ethereum, START).await.unwrap();
        let finalized = f.anvil.head(At::Finalized).await;
        assert_eq!(f.window().count(), u64::from(finalized >= block), "final {finalized}");
        seen.push(f.window().count());
        f.anvil.mine(1).await;
    }
    assert_eq!(seen, [0, 0, 1, 1]);
    assert_eq!(f.window().hash(), f.contract.queue(At::Latest).await.unwrap().1);
}

#[tokio::test]
async fn a_deposit_that_is_reorganised_away_is_never_seen() {
    let f = Fixture::new().await;
    let (ethereum, mut follower) = (f.anvil.ethereum(), f.follower(vec![], START));
    f.deposit(7).await;
    f.anvil.mine(1).await;
    follower.look(&ethereum, START).await.unwrap();
    assert_eq!(f.window().count(), 0);
    f.anvil.roll_back(2).await;
    f.deposit(8).await;
    f.anvil.mine(2).await;
    follower.look(&ethereum, START).await.unwrap();
    assert_eq!(f.values(), [8]);
}

#[tokio::test]
async fn a_finalized_block_that_is_replaced_is_an_error_and_is_read_again() {
    let f = Fixture::new().await;
    let ethereum = f.anvil.ethereum();
    let mut follower = f.follower(vec![f.anvil.url()], START);
    f.deposit(7).await;
    f.anvil.mine(3).await;
    follower.look(&ethereum, START).await.unwrap();
    assert_eq!(f.values(), [7]);
    f.anvil.roll_back(4).await;
    let lagging = follower.look(&ethereum, START).await;
    assert!(matches!(lagging, Err(FollowError::Lagging { .. })), "{lagging:?}");
    f.deposit(8).await;
    f.deposit(9).await;
    f.anvil.mine(4).await;
    let replaced = follower.look(&ethereum, START).await;
    assert!(matches!(replaced, Err(FollowError::Broken(_))), "{replaced:?}");
    assert_eq!(f.values(), [7]);
    let task = tokio::spawn(follower.run(|| START));
    wait_for("the new events", async || (f.values() == [8, 9]).then_some(())).await;
    task.abort();
}

/// Queues deposits of a thousand coins, and an exit of each coin.
async fn queue_many(f: &Fixture, deposits: u64) {
    let alice = f.anvil.sender("alice").await;
    let nothing = || IRootChain::Included {
        blockNumber: 0,
        transfer: IRootChain::Transfer {
            coin: 0,
            prevBlock: 0,
            prevHash: B256::ZERO,
            newOwner: Address::ZERO,
            maxBlock: 0,
        },
        signature: Default::default(),
        proof: Default::default(),
    };
    for deposit in 1..=deposits {
        let (token, value) = ((Address::ZERO, U256::ZERO), U256::from(1));
        f.contract.make_deposit(&alice, asset::ETH, token, value, 1_000).await.unwrap();
        let coins: Vec<u64> = ((deposit - 1) * 1_000 + 1..=deposit * 1_000).collect();
        let mut nonce = f.anvil.ethereum().nonce(alice.address()).await.unwrap();
        for coins in coins.chunks(50) {
            let request = |coin: &u64| IRootChain::ExitRequest {
                coin: *coin,
                depositId: deposit,
                parent: nothing(),
                transfer: nothing(),
                auth: IRootChain::Authorization { notAfter: 0, signature: Default::default() },
                hint: 0,
            };
            let requests = coins.iter().map(request).collect();
            let call = f.contract.transaction(RootChain::startExitsCall { requests }, U256::ZERO);
            let fees = alice.market_fees().await.unwrap();
            let signed = alice.sign(call, nonce, 16_000_000, fees).await.unwrap();
            f.anvil.ethereum().broadcast(&signed.raw).await.unwrap();
            nonce += 1;
        }
        let mined = async || f.anvil.ethereum().nonce(alice.address()).await.unwrap() == nonce;
        wait_for("the exits", async || mined().await.then_some(())).await;
    }
    f.anvil.mine(2).await;
}

#[tokio::test]
async fn a_cursor_far_behind_is_read_in_bounded_windows() {
    let f = Fixture::new().await;
    queue_many(&f, 5).await;
    let (count, hash) = f.contract.queue(At::Latest).await.unwrap();
    assert_eq!(count, 5_005);
    let ethereum = f.anvil.ethereum();
    let mut follower = f.follower(vec![], START);
    let (mut cursor, mut halfway, mut looks) = (START, START, 0);
    while cursor.0 < count {
        follower.look(&ethereum, cursor).await.unwrap();
        let window = f.window();
        assert!(window.count() > cursor.0, "no progress after event {}", cursor.0);
        assert!(window.count() - window.base_count() <= OBSERVATION_REACH);
        cursor = (window.count(), window.hash());
        if cursor.0 < 4_000 {
            halfway = cursor;
        }
        looks += 1;
    }
    assert_eq!((cursor, looks), ((count, hash), 6));

    // Another validator starts at the chain's cursor, with nothing of its own.
    std::fs::remove_file(f.anvil.dir().join("cursor")).unwrap();
    let mut second = f.follower(vec![], halfway);
    second.look(&ethereum, halfway).await.unwrap();
    assert_eq!(f.window().base_count(), halfway.0);
    assert_eq!(f.window().count(), count.min(halfway.0 + OBSERVATION_REACH));
    // A restart goes on at the block of the cursor, not at the deployment.
    let next = (halfway.0 + 700, f.window().hash_at(halfway.0 + 700).unwrap());
    second.look(&ethereum, next).await.unwrap();
    let gate = Gate::before(&f.anvil);
    let mut third = f.follower(vec![], next);
    third.look(&gate.ethereum(), next).await.unwrap();
    assert_eq!(f.window().base_count(), next.0);
    let from = gate.calls("eth_getLogs")[0][0]["fromBlock"].clone();
    let from = u64::from_str_radix(from.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    assert!(from > f.deployed_at + 50, "read from block {from}");
    // A cursor file of another Ethereum is noticed.
    let file = f.anvil.dir().join("cursor");
    let line = std::fs::read_to_string(&file).unwrap();
    let (rest, _) = line.rsplit_once(' ').unwrap();
    std::fs::write(&file, format!("{rest} {}", B256::repeat_byte(1))).unwrap();
    let mut fourth = f.follower(vec![], next);
    let foreign = fourth.look(&ethereum, next).await;
    assert!(matches!(foreign, Err(FollowError::Broken(_))), "{foreign:?}");
    // A torn one is as good as none.
    std::fs::write(&file, &line[..line.len() / 2]).unwrap();
    f.follower(vec![], next).look(&ethereum, next).await.unwrap();
    assert!(f.window().count() > next.0);
}

#[tokio::test]
async fn the_window_follows_the_chains_cursor() {
    let f = Fixture::new().await;
    let ethereum = f.anvil.ethereum();
    for value in 1..=4 {
        f.deposit(value).await;
    }
    f.anvil.mine(2).await;
    let mut follower = f.follower(vec![], START);
    follower.look(&ethereum, START).await.unwrap();
    assert_eq!(f.values(), [1, 2, 3, 4]);
    let cursor = |n: u64| (n, f.window().hash_at(n).unwrap());
    let second = cursor(2);
    follower.look(&ethereum, second).await.unwrap();
    assert_eq!(f.values(), [3, 4]);
    // A chain that applied other events is noticed.
    let foreign = follower.look(&ethereum, (3, B256::repeat_byte(1))).await;
    assert!(matches!(foreign, Err(FollowError::Broken(_))), "{foreign:?}");
    // The chain has applied more than this endpoint has: others read further.
    let ahead = (9, B256::repeat_byte(9));
    follower.look(&ethereum, ahead).await.unwrap();
    assert_eq!((f.window().base_count(), f.window().count()), (9, 9));
}

#[tokio::test]
async fn ethereum_goes_away_and_comes_back() {
    let mut f = Fixture::new().await;
    f.deposit(1).await;
    f.anvil.mine(2).await;
    let follower = f.follower(vec![f.anvil.url()], START);
    let task = tokio::spawn(follower.run(|| START));
    wait_for("the first event", async || (f.values() == [1]).then_some(())).await;
    f.anvil.stop();
    let mut alone = f.follower(vec![], START);
    let away = alone.look(&f.anvil.ethereum(), START).await;
    assert!(matches!(away, Err(FollowError::Ethereum(EthError::Unreachable { .. }))), "{away:?}");
    f.anvil.resume();
    f.deposit(2).await;
    f.anvil.mine(2).await;
    wait_for("the second event", async || (f.values() == [1, 2]).then_some(())).await;
    task.abort();
}

#[tokio::test]
async fn the_next_endpoint_is_asked_when_one_fails() {
    let f = Fixture::new().await;
    f.deposit(1).await;
    f.anvil.mine(2).await;
    let gate = Gate::before(&f.anvil);
    gate.rule(|_, _| Verdict::Status(503));
    let urls = vec!["no url".into(), "http://127.0.0.1:1".into(), gate.url(), f.anvil.url()];
    let task = tokio::spawn(f.follower(urls, START).run(|| START));
    wait_for("the event", async || (f.values() == [1]).then_some(())).await;
    assert!(!gate.calls("eth_syncing").is_empty());
    task.abort();
}

#[tokio::test]
async fn an_endpoint_that_syncs_or_leaves_logs_out_is_not_believed() {
    let f = Fixture::new().await;
    for value in 1..=3 {
        f.deposit(value).await;
    }
    f.anvil.mine(2).await;
    let gate = Gate::before(&f.anvil);
    let mut follower = f.follower(vec![], START);
    let state = json!({"startingBlock": "0x0", "currentBlock": "0x1", "highestBlock": "0x99"});
    gate.on("eth_syncing", move || Verdict::Answer(state.clone()));
    let syncing = follower.look(&gate.ethereum(), START).await;
    assert!(matches!(syncing, Err(FollowError::Syncing)), "{syncing:?}");
    gate.on("eth_getLogs", || Verdict::Answer(json!([])));
    let none = follower.look(&gate.ethereum(), START).await;
    assert!(matches!(none, Err(FollowError::Incomplete { read: 0, has: 3 })), "{none:?}");
    let second_away = |logs: &mut Value| drop(logs.as_array_mut().map(|logs| logs.remove(1)));
    gate.on("eth_getLogs", move || Verdict::Edit(second_away));
    let gap = follower.look(&gate.ethereum(), START).await;
    assert!(matches!(gap, Err(FollowError::Incomplete { read: 1, has: 3 })), "{gap:?}");
    assert_eq!(f.window().count(), 0);
    gate.open();
    follower.look(&gate.ethereum(), START).await.unwrap();
    assert_eq!(f.values(), [1, 2, 3]);
}

#[tokio::test]
async fn a_forged_event_does_not_fit_the_contracts_hash() {
    let f = Fixture::new().await;
    f.deposit(1).await;
    f.anvil.mine(2).await;
    let gate = Gate::before(&f.anvil);
    // The last bytes of an event's data are the end of `e`: the deposit's block.
    gate.on("eth_getLogs", || {
        Verdict::Edit(|logs| {
            let data = logs[0]["data"].as_str().unwrap();
            logs[0]["data"] = format!("{}5", &data[..data.len() - 1]).into();
        })
    });
    let mut follower = f.follower(vec![gate.url()], START);
    let forged = follower.look(&gate.ethereum(), START).await;
    assert!(matches!(forged, Err(FollowError::Broken(_))), "{forged:?}");
    assert_eq!(f.window().count(), 0);
    gate.open();
    let task = tokio::spawn(follower.run(|| START));
    wait_for("the true event", async || (f.values() == [1]).then_some(())).await;
    task.abort();
}

#[tokio::test]
async fn an_endpoint_that_lags_takes_nothing_away() {
    let f = Fixture::new().await;
    f.deposit(1).await;
    f.anvil.mine(4).await;
    let mut follower = f.follower(vec![], START);
    follower.look(&f.anvil.ethereum(), START).await.unwrap();
    assert_eq!(f.values(), [1]);
    let old = f.anvil.call("eth_getBlockByNumber", json!(["0x3", false])).await;
    let gate = Gate::before(&f.anvil);
    gate.rule(move |method, params| match (method, params[0].as_str()) {
        ("eth_getBlockByNumber", Some("finalized")) => Verdict::Answer(old.clone()),
        _ => Verdict::Pass,
    });
    let lagging = follower.look(&gate.ethereum(), START).await;
    assert!(matches!(lagging, Err(FollowError::Lagging { has: 3, .. })), "{lagging:?}");
    assert_eq!(f.values(), [1]);
    follower.look(&f.anvil.ethereum(), START).await.unwrap();
}

#[tokio::test]
async fn ranges_shrink_until_the_endpoint_takes_them() {
    let f = Fixture::new().await;
    for value in 1..=10 {
        f.deposit(value).await;
        f.anvil.mine(2).await;
    }
    let gate = Gate::before(&f.anvil);
    let number = |block: &Value| {
        u64::from_str_radix(block.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    };
    gate.rule(move |method, params| match method {
        "eth_getLogs" if number(&params[0]["toBlock"]) - number(&params[0]["fromBlock"]) > 3 => {
            Verdict::Error("query exceeds 4 blocks")
        }
        _ => Verdict::Pass,
    });
    let mut follower = f.follower(vec![], START);
    follower.look(&gate.ethereum(), START).await.unwrap();
    assert_eq!(f.values(), (1..=10).collect::<Vec<_>>());
    // Below one block there is nothing to ask for.
    gate.on("eth_getLogs", || Verdict::Error("no"));
    let refused = f.follower(vec![], START).look(&gate.ethereum(), START).await;
    assert!(matches!(refused, Err(FollowError::Ethereum(EthError::Rpc(_)))), "{refused:?}");
}

#[tokio::test]
async fn a_running_follower_reads_on_as_the_chain_applies() {
    let f = Fixture::new().await;
    queue_many(&f, 2).await;
    let (count, hash) = f.contract.queue(At::Latest).await.unwrap();
    let applied = Arc::new(AtomicU64::new(0));
    let hashes = Arc::new(RwLock::new(vec![B256::ZERO]));
    let (shared, known) = (Arc::clone(&applied), Arc::clone(&hashes));
    let cursor = move || {
        let n = shared.load(Ordering::SeqCst);
        (n, known.read().unwrap()[n as usize])
    };
    let task = tokio::spawn(f.follower(vec![f.anvil.url()], START).run(cursor));
    while applied.load(Ordering::SeqCst) < count {
        let n = applied.load(Ordering::SeqCst);
        // The chain applies at most what one proposal carries.
        let window = wait_for("more events", async || {
            let window = f.window();
            (window.base_count() == n && window.count() > n).then_some(window)
        });
        let window = window.await;
        let next = (n + 1..=window.count()).map(|n| window.hash_at(n).unwrap());
        hashes.write().unwrap().extend(next);
        applied.store(window.count(), Ordering::SeqCst);
    }
    assert_eq!(hashes.read().unwrap()[count as usize], hash);
    task.abort();
}

#[tokio::test]
async fn an_endless_answer_is_refused_before_it_fills_the_memory() {
    let anvil = Anvil::start();
    let gate = Gate::before(&anvil);
    gate.on("eth_chainId", || Verdict::Answer(json!("0".repeat(17 << 20))));
    let refused = gate.ethereum().chain_id().await.unwrap_err();
    assert!(refused.to_string().contains("more than 16777216 bytes"), "{refused}");
    gate.on("eth_chainId", || Verdict::Answer(json!("x".repeat(15 << 20))));
    let read = gate.ethereum().chain_id().await.unwrap_err();
    assert!(!read.to_string().contains("more than"), "{read}");
}
