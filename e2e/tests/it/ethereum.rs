//! Ethereum that stands still, a relayer that dies, a network that is stopped and started.

use std::time::{Duration, Instant};

use plasma_e2e::{Network, get, post};
use rustix::process::Signal;
use serde_json::{Value, json};

const SHORT: Duration = Duration::from_secs(60);
/// How long Ethereum stands still.
const PAUSE: Duration = Duration::from_secs(20);

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

fn first_coin(network: &Network, count: u32) -> u64 {
    let made = network.ok(&format!("deposit --from alice --wait --count {count}"));
    made["first_coin"].as_u64().unwrap()
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

#[test]
fn the_child_chain_does_not_wait_for_ethereum() {
    let mut network = Network::start(&[]);
    let coin = first_coin(&network, 21);
    // Signing asks Ethereum for its chain id, so it is done before.
    let txs: Vec<String> = (coin..coin + 20)
        .map(|coin| network.dry_run(&format!("{coin} --from alice --to bob --max-block 1000")))
        .collect();
    network.signal("anvil", Signal::STOP);
    let (stopped, from) = (Instant::now(), network.height(0).unwrap());
    for tx in &txs {
        let path = format!("broadcast_tx_commit?tx={tx}");
        let reply = get(network.port(0), &path).unwrap();
        assert_eq!(reply.json()["result"]["tx_result"]["code"], 0, "{reply:?}");
    }
    while stopped.elapsed() < PAUSE {
        network.await_heights(0, 1, SHORT);
    }
    let made = network.height(0).unwrap() - from;
    assert!(made >= 10, "only {made} heights in {:?}", stopped.elapsed());
    network.signal("anvil", Signal::CONT);
    assert!(assert_no_gap(&network) >= 2);
    network.ok(&format!("coin history {coin} --verify"));

    // Down and up again: coins, blocks and exits are as they were.
    network.ok(&format!("exit start {} --from alice", coin + 20));
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
    network.ok(&format!("exit finalize {} --from alice", coin + 20));
    network.ok(&format!("exit withdraw {} --from alice", coin + 20));
    network.assert_same_app_hashes();
    network.assert_grammar();
}

#[test]
fn the_relayer_dies_between_send_and_receipt() {
    let mut network = Network::start(&["--max-heights", "1"]);
    let relayer = network.description()["accounts"]["relayer"].as_str().unwrap().to_owned();
    let coin = first_coin(&network, 12);
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
    assert_no_double_work(&network, &relayer.to_lowercase());
    network.assert_same_app_hashes();
    network.kill_supervisor();
}

/// Every transaction of the relayer was needed: none failed.
fn assert_no_double_work(network: &Network, relayer: &str) {
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
    assert!(sent >= 3, "the relayer sent {sent}");
}
