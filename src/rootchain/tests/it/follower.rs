//! The follower reads what is final, all of it, and nothing else.

use std::sync::{Arc, RwLock};

use plasma_core::coin::asset;
use plasma_core::event_window::EventWindow;
use plasma_core::{Address, B256, U256};
use plasma_rootchain::ethereum::{At, Ethereum};
use plasma_rootchain::follower::{FollowError, Follower, Published, Source};
use serde_json::json;

use crate::anvil::Anvil;

struct Setup {
    anvil: Anvil,
    published: Published,
    dir: tempfile::TempDir,
}

impl Setup {
    async fn new() -> Self {
        let published = Arc::new(RwLock::new(Arc::new(EventWindow::default())));
        Self { anvil: Anvil::start().await, published, dir: tempfile::tempdir().unwrap() }
    }

    fn follower(&self, cursor: (u64, B256)) -> Follower {
        let source = Source {
            urls: vec![self.anvil.url.clone()],
            root_chain: self.anvil.contract.address,
            deployed_at: self.anvil.deployed_at,
            cursor_file: self.dir.path().join("cursor"),
        };
        Follower::new(source, Arc::clone(&self.published), cursor)
    }

    async fn deposit(&self) {
        let sender = self.anvil.sender("alice").await;
        let eth = (Address::ZERO, U256::ZERO);
        let contract = &self.anvil.contract;
        contract.make_deposit(&sender, asset::ETH, eth, U256::from(5), 1).await.unwrap();
    }

    fn count(&self) -> u64 {
        self.published.read().unwrap().count()
    }

    fn window(&self) -> Arc<EventWindow> {
        Arc::clone(&self.published.read().unwrap())
    }
}

const START: (u64, B256) = (0, B256::ZERO);

#[tokio::test]
async fn an_event_is_read_once_it_is_final() {
    let setup = Setup::new().await;
    let mut follower = setup.follower(START);
    setup.deposit().await;
    follower.look(&setup.anvil.ethereum, START).await.unwrap();
    assert_eq!(setup.count(), 0, "mined, not final");
    setup.anvil.mine(2).await;
    follower.look(&setup.anvil.ethereum, START).await.unwrap();
    assert_eq!(setup.count(), 1);
    let (_, hash) = setup.anvil.contract.queue(At::Latest).await.unwrap();
    assert_eq!(setup.window().hash_at(1), Some(hash));
}

#[tokio::test]
async fn a_deposit_that_is_reorged_out_is_never_seen() {
    let setup = Setup::new().await;
    let mut follower = setup.follower(START);
    let snapshot = setup.anvil.rpc("evm_snapshot", vec![]).await;
    setup.deposit().await;
    follower.look(&setup.anvil.ethereum, START).await.unwrap();
    setup.anvil.rpc("evm_revert", vec![snapshot]).await;
    setup.anvil.mine(4).await;
    follower.look(&setup.anvil.ethereum, START).await.unwrap();
    assert_eq!(setup.count(), 0);
    setup.deposit().await;
    setup.anvil.mine(2).await;
    follower.look(&setup.anvil.ethereum, START).await.unwrap();
    assert_eq!(setup.count(), 1);
}

#[tokio::test]
async fn a_finalized_block_that_vanishes_is_loud() {
    let setup = Setup::new().await;
    let mut follower = setup.follower(START);
    let snapshot = setup.anvil.rpc("evm_snapshot", vec![]).await;
    setup.deposit().await;
    setup.anvil.mine(3).await;
    follower.look(&setup.anvil.ethereum, START).await.unwrap();
    assert_eq!(setup.count(), 1);
    setup.anvil.rpc("evm_revert", vec![snapshot]).await;
    setup.anvil.rpc("evm_increaseTime", vec![json!(77)]).await;
    setup.anvil.mine(9).await;
    let error = follower.look(&setup.anvil.ethereum, START).await.unwrap_err();
    assert!(matches!(error, FollowError::Broken(_)), "{error}");
}

#[tokio::test]
async fn a_window_that_is_full_goes_on_with_the_cursor() {
    let setup = Setup::new().await;
    let sender = setup.anvil.sender("alice").await;
    let contract = &setup.anvil.contract;
    // Each exit start and cancel queues events; deposits are cheaper: 1,002 of them in a few
    // blocks would need as many transactions, so mine them all at once.
    setup.anvil.rpc("evm_setAutomine", vec![json!(false)]).await;
    let nonce = setup.anvil.ethereum.nonce(sender.address()).await.unwrap();
    let fees = sender.market_fees().await.unwrap();
    for i in 0..1_002 {
        let call = plasma_rootchain::contract::RootChain::depositETHCall {
            value: U256::from(1),
            count: 1,
        };
        let tx = contract.transaction(call, U256::from(1));
        let signed = sender.sign(tx, nonce + i, 400_000, fees).await.unwrap();
        setup.anvil.ethereum.broadcast(&signed.raw).await.unwrap();
    }
    setup.anvil.rpc("evm_setAutomine", vec![json!(true)]).await;
    crate::anvil::until("all are mined", async || {
        setup.anvil.mine(1).await;
        contract.queue(At::Finalized).await.unwrap().0 == 1_002
    })
    .await;
    let mut follower = setup.follower(START);
    follower.look(&setup.anvil.ethereum, START).await.unwrap();
    assert_eq!(setup.count(), 1_000, "bounded");
    let cursor = (3, setup.window().hash_at(3).unwrap());
    follower.look(&setup.anvil.ethereum, cursor).await.unwrap();
    assert_eq!((setup.window().base_count(), setup.count()), (3, 1_002));
    // A validator that starts late goes on from the chain's cursor.
    let mut late = setup.follower(cursor);
    late.look(&setup.anvil.ethereum, cursor).await.unwrap();
    assert_eq!((setup.window().base_count(), setup.count()), (3, 1_002));
    let wrong = (4, B256::repeat_byte(1));
    let error = late.look(&setup.anvil.ethereum, wrong).await.unwrap_err();
    assert!(matches!(error, FollowError::Broken(_)), "another hash than the chain's: {error}");
}

#[tokio::test]
async fn a_dead_endpoint_is_an_error_and_no_more() {
    let setup = Setup::new().await;
    let mut follower = setup.follower(START);
    let dead = Ethereum::new("http://127.0.0.1:9").unwrap();
    assert!(follower.look(&dead, START).await.is_err());
    setup.deposit().await;
    setup.anvil.mine(2).await;
    follower.look(&setup.anvil.ethereum, START).await.unwrap();
    assert_eq!(setup.count(), 1);
}
