//! The watcher against a real contract and a node that lies or hides.

use std::time::Duration;

use plasma_core::CoinId;
use plasma_core::exit::authorization_digest;
use plasma_rootchain::contract::{Authorization, RootChain};
use plasma_rootchain::ethereum::{At, Ethereum};
use plasma_rootchain::relayer::Policy;
use plasma_rootchain::watcher::report::{ALERTS, Notice};
use plasma_rootchain::watcher::{Settings, Watcher};

use crate::world::{BOND, HOLD_S, PERIOD_S, World, address, key};

const GRACE_S: u64 = 1_000;

impl World {
    /// What guards one account by its own key.
    pub fn settings(&self, name: &str) -> Settings {
        Settings {
            ethereum: vec![self.anvil.ethereum()],
            root_chain: self.contract.address,
            deployed_at: self.deployed_at,
            nodes: vec![self.node()],
            dir: self.anvil.dir().join(format!("watch-{name}")),
            keys: vec![key(name)],
            owners: Vec::new(),
            coins: Vec::new(),
            payer: Some(key(name)),
            data_grace_s: GRACE_S,
            withdraw: false,
            dry_run: false,
            policy: Policy {
                resubmit_after: Duration::from_secs(3_600),
                max_fee_wei: 500_000_000_000,
            },
        }
    }
}

/// Steps until nothing more happens, with finality after each; what was said.
async fn settle(world: &World, watcher: &mut Watcher) -> Vec<Notice> {
    let mut said = Vec::new();
    for _ in 0..4 {
        watcher.step().await.unwrap();
        said.extend(watcher.take_notices());
        world.anvil.mine(3).await;
    }
    said
}

fn kinds(said: &[Notice]) -> Vec<&'static str> {
    said.iter().map(|notice| notice.kind).collect()
}

fn count(said: &[Notice], kind: &str) -> usize {
    said.iter().filter(|notice| notice.kind == kind).count()
}

#[tokio::test]
async fn an_exit_of_a_spent_state_is_refuted_once() {
    let world = World::new().await;
    let deposit = world.deposit("alice", 1).await;
    let coin = deposit.first_coin;
    let mut watcher = Watcher::new(world.settings("bob")).await.unwrap();
    watcher.step().await.unwrap();
    assert!(watcher.coins().is_empty());

    world.child.lock().unwrap().named.insert(address("bob"), vec![coin, coin + 1]);
    world.pay(&deposit.state(coin, &world.domain), "alice", "bob").await;
    let said = settle(&world, &mut watcher).await;
    assert_eq!(kinds(&said), ["watch"]);
    assert_eq!(watcher.coins().keys().copied().collect::<Vec<_>>(), [coin]);

    let exit = world.exit("alice", &world.start(coin, None, None).await).await;
    assert_eq!(world.open(coin).await, (0, vec![exit]));
    let said = settle(&world, &mut watcher).await;
    assert_eq!(count(&said, ALERTS[0]), 1, "{said:?}");
    assert_eq!(count(&said, "challenge"), 1, "{said:?}");
    assert_eq!(count(&said, "mined"), 1, "{said:?}");
    assert_eq!(world.open(coin).await, (0, vec![]));
    assert_eq!(world.nonce("bob").await, 1);
    let credits = RootChain::creditsCall { account: address("bob") };
    let credits = world.contract.read(credits, At::Latest).await.unwrap();
    assert_eq!(credits.to::<u128>(), BOND / 2);
}

#[tokio::test]
async fn waiting_for_finality_only_while_there_is_time() {
    let world = World::new().await;
    let deposit = world.deposit("alice", 1).await;
    let coin = deposit.first_coin;
    world.pay(&deposit.state(coin, &world.domain), "alice", "bob").await;
    let settings = Settings { coins: vec![coin], ..world.settings("bob") };
    let mut watcher = Watcher::new(settings).await.unwrap();
    watcher.step().await.unwrap();

    let sender = world.sender("alice").await;
    let start = world.start(coin, None, None).await;
    world.contract.start_exit(&sender, &start).await.unwrap();
    watcher.step().await.unwrap();
    let said = watcher.take_notices();
    assert_eq!(count(&said, ALERTS[0]), 1, "{said:?}");
    assert_eq!(world.nonce("bob").await, 0, "the exit is not final yet");
    // The same exit shortly before its end, still above the finalized block.
    world.anvil.call("evm_increaseTime", serde_json::json!([PERIOD_S - 3_000])).await;
    world.anvil.mine(1).await;
    watcher.step().await.unwrap();
    // What was sent, not the nonce: anvil mines it when it gets to it.
    let said = watcher.take_notices();
    assert_eq!(count(&said, "challenge"), 1, "{said:?}");
}

#[tokio::test]
async fn a_forged_exit_loses_against_the_owners() {
    let world = World::new().await;
    let deposit = world.deposit("alice", 1).await;
    let coin = deposit.first_coin;
    let state = world.pay(&deposit.state(coin, &world.domain), "alice", "bob").await;
    let settings = || Settings { coins: vec![coin], withdraw: true, ..world.settings("bob") };
    let mut watcher = Watcher::new(settings()).await.unwrap();
    settle(&world, &mut watcher).await;

    world.child.lock().unwrap().withheld.extend([2, 3]);
    let forged = world.forge(coin).await;
    let said = settle(&world, &mut watcher).await;
    assert_eq!(kinds(&said), [ALERTS[2]], "{said:?}");
    assert_eq!(world.nonce("bob").await, 0, "the grace is not over");

    let stolen = world.exit("mallory", &forged).await;
    drop(watcher);
    let mut watcher = Watcher::new(settings()).await.unwrap();
    let said = settle(&world, &mut watcher).await;
    assert_eq!(count(&said, "start"), 1, "{said:?}");
    let (_, open) = world.open(coin).await;
    assert_eq!(open, [stolen + 1, stolen], "bob's is older");
    let seen = world.contract.coin(coin, deposit.deposit_id, At::Latest).await.unwrap();
    assert_eq!((seen.open[0].beneficiary, seen.open[0].state_hash), (address("bob"), state.hash));

    // A new watcher at each step, as if each had been killed.
    for _ in 0..3 {
        drop(watcher);
        watcher = Watcher::new(settings()).await.unwrap();
        settle(&world, &mut watcher).await;
    }
    assert_eq!(world.nonce("bob").await, 1);
    world.warp(PERIOD_S + 10).await;
    for _ in 0..8 {
        drop(watcher);
        watcher = Watcher::new(settings()).await.unwrap();
        watcher.step().await.unwrap();
        world.anvil.mine(3).await;
    }
    // Start, finalize, sweep, withdraw, bonds.
    assert_eq!(world.nonce("bob").await, 5);
    assert_eq!(world.open(coin).await, (2, vec![]));
    assert!(watcher.coins().is_empty());
    let credits = RootChain::creditsCall { account: address("bob") };
    assert!(world.contract.read(credits, At::Latest).await.unwrap().is_zero());
}

#[tokio::test]
async fn garbage_and_withheld_data_make_the_owner_leave() {
    let world = World::new().await;
    let deposit = world.deposit("bob", 60).await;
    let coin = deposit.first_coin;
    let mut watcher = Watcher::new(world.settings("bob")).await.unwrap();
    let said = settle(&world, &mut watcher).await;
    assert_eq!(kinds(&said), ["watch"]);
    world.forge(coin).await;
    let said = settle(&world, &mut watcher).await;
    assert_eq!(count(&said, ALERTS[3]), 1, "{said:?}");
    assert_eq!(count(&said, "start"), 1, "{said:?}");
    assert_eq!(world.open(coin).await.1.len(), 1);
    assert_eq!(world.nonce("bob").await, 2, "with the deposit");

    // One alert for all coins of a withheld block; exits in batches.
    world.child.lock().unwrap().withheld.insert(3);
    world.block(&[]).await;
    world.child.lock().unwrap().withheld.insert(4);
    world.block(&[]).await;
    let said = settle(&world, &mut watcher).await;
    assert_eq!(count(&said, ALERTS[2]), 1, "{said:?}");
    world.warp(GRACE_S).await;
    let said = settle(&world, &mut watcher).await;
    assert_eq!(count(&said, "start"), 2, "{said:?}");
    assert_eq!(world.nonce("bob").await, 4);
    for coin in coin..coin + 60 {
        assert_eq!(world.open(coin).await.1.len(), 1, "coin {coin}");
    }
    // The owner's exits end together.
    world.warp(PERIOD_S + 10).await;
    let said = settle(&world, &mut watcher).await;
    assert_eq!(count(&said, "finalize"), 1, "{said:?}");
    assert_eq!(world.open(coin + 59).await, (1, vec![]));
}

#[tokio::test]
async fn a_node_that_spoils_a_signature_is_not_believed() {
    let world = World::new().await;
    let deposit = world.deposit("alice", 1).await;
    let coin = deposit.first_coin;
    let settings = Settings { coins: vec![coin], ..world.settings("alice") };
    let mut watcher = Watcher::new(settings).await.unwrap();
    world.child.lock().unwrap().spoiled.insert(1);
    let state = world.pay(&deposit.state(coin, &world.domain), "alice", "bob").await;
    let said = settle(&world, &mut watcher).await;
    assert_eq!(count(&said, ALERTS[2]), 1, "{said:?}");
    assert_eq!(count(&said, ALERTS[3]), 0, "{said:?}");
    world.child.lock().unwrap().spoiled.clear();
    let said = settle(&world, &mut watcher).await;
    assert_eq!(kinds(&said), ["over"], "{said:?}");
    assert_eq!(watcher.coins()[&coin].state(), state);
    assert_eq!(world.nonce("alice").await, 1);
}

#[tokio::test]
async fn a_tower_exits_by_the_owners_consent_only() {
    let world = World::new().await;
    let deposit = world.deposit("bob", 2).await;
    let coin = deposit.first_coin;
    // Who is not the owner may sign what he likes.
    let signed = |(coin, name): (CoinId, &str)| {
        let hash = deposit.state(coin, &world.domain).hash;
        let not_after = 4_000_000_000;
        let digest = authorization_digest(&world.domain, coin, hash, not_after);
        let consent = Authorization { not_after, signature: key(name).sign(digest) };
        (coin, hash, address(name), consent)
    };
    let settings =
        Settings { keys: Vec::new(), owners: vec![address("bob")], ..world.settings("carol") };
    let mut watcher = Watcher::new(settings).await.unwrap();
    let said = settle(&world, &mut watcher).await;
    assert_eq!(count(&said, ALERTS[4]), 1, "{said:?}");
    assert_eq!(watcher.progress().without_consent, 2);
    for consent in [(coin, "bob"), (coin, "mallory"), (coin + 1, "mallory")] {
        let (coin, hash, owner, consent) = signed(consent);
        watcher.authorize(coin, hash, owner, consent);
    }
    // One alert for all coins, which holds on; the coins' own come when an exit is due.
    let said = settle(&world, &mut watcher).await;
    assert_eq!(count(&said, ALERTS[4]), 0, "{said:?}");
    assert_eq!(watcher.progress().without_consent, 1);
    for coin in [coin, coin + 1] {
        let forged = world.forge(coin).await;
        world.exit("mallory", &forged).await;
    }
    let said = settle(&world, &mut watcher).await;
    assert_eq!(count(&said, "start"), 1, "{said:?}");
    assert_eq!(count(&said, ALERTS[4]), 1, "{said:?}");
    let seen = world.contract.coin(coin, deposit.deposit_id, At::Latest).await.unwrap();
    assert_eq!((seen.open[0].beneficiary, seen.open[0].payer), (address("bob"), address("carol")));
    assert_eq!(world.open(coin + 1).await.1.len(), 1);
}

#[tokio::test]
async fn evidence_brings_a_receivers_coin_under_watch() {
    let world = World::new().await;
    let deposit = world.deposit("alice", 1).await;
    let coin = deposit.first_coin;
    let mut watcher = Watcher::new(world.settings("bob")).await.unwrap();
    watcher.step().await.unwrap();
    // The transfer to bob stands in a block that nobody shows; somebody exits by it, as a parent.
    world.child.lock().unwrap().withheld.insert(1);
    let state = world.pay(&deposit.state(coin, &world.domain), "alice", "bob").await;
    let spent = world.exit("alice", &world.start(coin, None, None).await).await;
    settle(&world, &mut watcher).await;
    assert!(watcher.coins().is_empty());
    let start = world.start(coin, None, Some(state.block)).await;
    let digest = authorization_digest(&world.domain, coin, state.hash, 4_000_000_000);
    let consent = Authorization { not_after: 4_000_000_000, signature: key("bob").sign(digest) };
    let start = plasma_rootchain::contract::ExitStart { authorization: Some(consent), ..start };
    let own = world.exit("carol", &start).await;
    let said = settle(&world, &mut watcher).await;
    assert_eq!(count(&said, "inclusion"), 1, "{said:?}");
    assert_eq!(count(&said, "challenge"), 1, "{said:?}");
    assert!(spent < own && world.open(coin).await.1 == [own]);
    assert_eq!(watcher.coins()[&coin].claim().0, state);
    assert_eq!(world.nonce("bob").await, 1);
    // The hold of alice's exit outlasts nothing here, but it is told of.
    assert!(count(&said, ALERTS[1]) == 1 && HOLD_S < PERIOD_S, "{said:?}");
}

#[tokio::test]
async fn a_dry_run_sends_nothing() {
    let world = World::new().await;
    let deposit = world.deposit("alice", 1).await;
    let coin = deposit.first_coin;
    world.pay(&deposit.state(coin, &world.domain), "alice", "bob").await;
    world.exit("alice", &world.start(coin, None, None).await).await;
    let settings = Settings { coins: vec![coin], dry_run: true, ..world.settings("bob") };
    let mut watcher = Watcher::new(settings).await.unwrap();
    let said = settle(&world, &mut watcher).await;
    assert_eq!(count(&said, "challenge"), 1, "{said:?}");
    assert!(said.iter().any(|notice| notice.text.starts_with("would send")), "{said:?}");
    assert_eq!(world.nonce("bob").await, 0);
    assert_eq!(world.open(coin).await.1.len(), 1);
}

#[tokio::test]
async fn a_reorganised_challenge_is_sent_again() {
    let world = World::new().await;
    let deposit = world.deposit("alice", 1).await;
    let coin = deposit.first_coin;
    world.pay(&deposit.state(coin, &world.domain), "alice", "bob").await;
    world.exit("alice", &world.start(coin, None, None).await).await;
    let settings = Settings { coins: vec![coin], ..world.settings("bob") };
    let mut watcher = Watcher::new(settings).await.unwrap();
    watcher.step().await.unwrap();
    watcher.step().await.unwrap();
    assert_eq!(world.open(coin).await.1.len(), 0);
    world.anvil.roll_back(1).await;
    assert_eq!(world.open(coin).await.1.len(), 1);
    // An endpoint's finalized block never goes back.
    world.anvil.mine(1).await;
    settle(&world, &mut watcher).await;
    assert_eq!(world.open(coin).await.1.len(), 0);
    assert_eq!(world.nonce("bob").await, 1);
}

#[tokio::test]
async fn ethereum_is_away_and_the_next_endpoint_is_asked() {
    let world = World::new().await;
    let deposit = world.deposit("alice", 1).await;
    let coin = deposit.first_coin;
    let nowhere = Ethereum::new("http://127.0.0.1:1").unwrap();
    let mut settings = world.settings("alice");
    settings.ethereum.push(nowhere);
    let mut watcher = Watcher::new(settings).await.unwrap();
    watcher.step().await.unwrap();
    assert!(watcher.coins().contains_key(&coin));
    let mut world = world;
    world.anvil.stop();
    assert!(watcher.step().await.is_err());
    assert!(watcher.step().await.is_err());
    world.anvil.resume();
    watcher.step().await.unwrap();
    assert_eq!(watcher.progress().errors, 2);
}

#[tokio::test]
async fn one_watcher_a_directory_and_a_book_of_its_contract() {
    let world = World::new().await;
    let first = Watcher::new(world.settings("bob")).await.unwrap();
    let second = Watcher::new(world.settings("bob")).await;
    assert!(second.unwrap_err().to_string().contains("another watcher"));
    drop(first);
    let other = World::new().await;
    let settings = Settings { dir: world.settings("bob").dir, ..other.settings("bob") };
    let refused = Watcher::new(settings).await;
    // Both anvils deploy at the same address: the same contract as far as names go.
    assert_eq!(other.contract.address == world.contract.address, refused.is_ok());
}
