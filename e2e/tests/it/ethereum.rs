//! Ethereum that stands still, a relayer that dies, a network that is stopped, killed, started.

use std::time::{Duration, Instant};

use plasma_e2e::{Network, get, post};
use rustix::process::Signal;
use serde_json::{Value, json};

const SHORT: Duration = Duration::from_secs(60);
/// How long Ethereum stands still; a transfer is sent every few seconds of it.
const PAUSE: Duration = Duration::from_secs(60);
const TRANSFERS_MEANWHILE: u32 = 20;
/// Coins that move while everything is killed.
const LOAD: u32 = 40;

/// A call of Ethereum's JSON-RPC.
fn ethereum(network: &Network, method: &str, params: Value) -> Value {
    let url = network.description()["ethereum"].as_str().unwrap().to_owned();
    let port = url.rsplit(':').next().unwrap().parse().unwrap();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    post(port, "", "application/json", &call.to_string()).unwrap().json()["result"].take()
}

fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Every block up to the newest is on Ethereum with its root.
fn assert_no_gap(network: &Network) -> u64 {
    let newest = network.ok("block show")["block"].as_u64().unwrap();
    network.await_state(newest, "finalized", SHORT);
    for block in 1..=newest {
        let shown = network.ok(&format!("block show {block}"));
        assert_eq!(shown["root"], shown["ethereum_root"], "{shown}");
    }
    newest
}

/// The newest closed plasma block, of the child chain alone.
fn newest_closed(network: &Network) -> u64 {
    let closed = |n| {
        let answer = network.rpc(0, &format!("abci_query?path=\"/block/{n}\""));
        answer["response"]["value"].as_str().is_some_and(|value| !value.is_empty())
    };
    (1..).take_while(|n| closed(*n)).last().unwrap_or_default()
}

#[test]
fn the_child_chain_does_not_wait_for_ethereum() {
    let mut network = Network::start(&[]);
    let relayer = network.description()["accounts"]["relayer"].as_str().unwrap().to_lowercase();
    let coin = network.deposit(TRANSFERS_MEANWHILE + 1);
    let last = coin + u64::from(TRANSFERS_MEANWHILE);
    // Signing asks Ethereum for its chain id, so it is done before.
    let txs: Vec<String> = (coin..last)
        .map(|coin| network.dry_run(&format!("{coin} --from alice --to bob --max-block 1000")))
        .collect();
    network.signal("anvil", Signal::STOP);
    let (stopped, from) = (Instant::now(), network.height(0).unwrap());
    let closed_before = newest_closed(&network);
    for (i, tx) in (1..).zip(&txs) {
        let path = format!("broadcast_tx_commit?tx={tx}");
        let reply = get(network.port(0), &path).unwrap();
        assert_eq!(reply.json()["result"]["tx_result"]["code"], 0, "{reply:?}");
        while stopped.elapsed() < PAUSE / TRANSFERS_MEANWHILE * i {
            network.await_heights(0, 1, SHORT);
        }
    }
    let made = network.height(0).unwrap() - from;
    assert!(made >= 15, "only {made} heights in {:?}", stopped.elapsed());
    let closed = newest_closed(&network);
    assert!(closed >= closed_before + 3, "plasma blocks {closed_before} to {closed}");
    network.signal("anvil", Signal::CONT);
    assert!(assert_no_gap(&network) >= closed);
    assert_no_double_work(&network, &relayer, 1);
    for coin in coin..last {
        network.ok(&format!("coin history {coin} --verify"));
    }

    // Down and up again: coins, blocks and exits are as they were.
    network.ok(&format!("exit start {last} --from alice"));
    let shown = network.ok(&format!("coin show {coin}"));
    let height = network.height(0).unwrap();
    network.down();
    network.up();
    assert_eq!(network.ok(&format!("coin show {coin}")), shown);
    network.await_heights(0, 2, SHORT);
    assert!(network.height(0).unwrap() > height);
    network.ok(&format!("transfer {coin} --from bob --to carol"));
    network.await_root(coin);
    assert_no_gap(&network);
    network.ok("devnet warp 15d");
    network.ok(&format!("exit finalize {last} --from alice"));
    network.ok(&format!("exit withdraw {last} --from alice"));
    network.assert_same_app_hashes();
    network.assert_grammar();
}

#[test]
fn the_relayer_and_then_everything_is_killed() {
    let mut network = Network::start(&["--max-heights", "1"]);
    let relayer = network.description()["accounts"]["relayer"].as_str().unwrap().to_owned();
    let coin = network.deposit(12 + LOAD);
    for round in 0..3 {
        for coin in coin + 4 * round..coin + 4 * round + 4 {
            network.ok(&format!("transfer {coin} --from alice --to bob --no-wait"));
        }
        // A transaction of the relayer that no block of Ethereum holds yet.
        let deadline = Instant::now() + SHORT;
        loop {
            let count =
                |at| number(&ethereum(&network, "eth_getTransactionCount", json!([relayer, at])));
            let mined = count("latest");
            if count("pending") > mined {
                break;
            }
            assert!(Instant::now() < deadline, "the relayer sends nothing");
        }
        network.kill("relayer");
        network.await_heights(0, 3, SHORT);
        network.restart("relayer");
    }
    for coin in coin..coin + 12 {
        network.await_root(coin);
    }
    assert!(assert_no_gap(&network) >= 3);
    assert_no_double_work(&network, &relayer.to_lowercase(), 3);
    network.assert_same_app_hashes();
    killed_under_load(&mut network, coin + 12);
    assert_no_double_work(&network, &relayer.to_lowercase(), 4);
    network.assert_grammar();
}

/// `devnet up` is killed with SIGKILL while the coins from `first` on move: nothing of the devnet
/// survives it, and `devnet up` goes on with all of the state, Ethereum's too.
fn killed_under_load(network: &mut Network, first: u64) {
    let txs: Vec<String> = (first..first + u64::from(LOAD))
        .map(|coin| network.dry_run(&format!("{coin} --from alice --to bob --max-block 1000")))
        .collect();
    // All but the first, which is sent afterwards.
    for (node, tx) in (0..network.size()).cycle().zip(&txs[1..]) {
        assert_eq!(network.send(node, tx), Ok(0));
    }
    network.ok("devnet warp 30d");
    let time = |network: &Network| {
        number(&ethereum(network, "eth_getBlockByNumber", json!(["latest", false]))["timestamp"])
    };
    let warped = time(network);
    network.kill_supervisor();
    network.up();
    // Its clock goes on, too.
    assert!((warped..warped + 86_400).contains(&time(network)));
    // In a block or in none, as the pools of the nodes were lost.
    network.assert_same_app_hashes();
    let path = format!("broadcast_tx_commit?tx={}", txs[0]);
    let reply = get(network.port(0), &path).unwrap();
    assert_eq!(reply.json()["result"]["tx_result"]["code"], 0, "{reply:?}");
    network.await_root(first);
    assert_no_gap(network);
    network.ok(&format!("coin history {first} --verify"));
    // The follower goes on, too.
    let fresh = network.deposit(1);
    network.ok(&format!("transfer {fresh} --from alice --to bob"));
    network.await_root(fresh);
    network.assert_same_app_hashes();
}

/// Every transaction of the relayer was needed: none failed. There are at least `min` of them.
fn assert_no_double_work(network: &Network, relayer: &str, min: u32) {
    let head = number(&ethereum(network, "eth_blockNumber", json!([])));
    let mut sent = 0;
    for block in 0..=head {
        let params = json!([format!("{block:#x}"), true]);
        let block = ethereum(network, "eth_getBlockByNumber", params);
        for tx in block["transactions"].as_array().unwrap() {
            if tx["from"].as_str().unwrap().to_lowercase() != relayer {
                continue;
            }
            sent += 1;
            let receipt = ethereum(network, "eth_getTransactionReceipt", json!([tx["hash"]]));
            assert_eq!(receipt["status"], "0x1", "{receipt}");
        }
    }
    assert!(sent >= min, "the relayer sent {sent}");
}
