//! Validators that die, stay away and come back.

use std::fs;
use std::time::{Duration, Instant};

use plasma_e2e::{Network, wait_for};

use crate::sign;

/// A last plasma block that no test reaches.
const LATE: u64 = 1_000;
const SHORT: Duration = Duration::from_secs(60);
/// Codes of formats.md.
const ALREADY_PENDING: u64 = 13;
const COIN_PENDING: u64 = 14;
const NOT_RESTED: u64 = 16;
/// Blocks that nobody makes any more: longer than a few rounds take.
const STILL: Duration = Duration::from_secs(8);

/// Moves `coin` from alice to bob or back, and waits until its block is final on Ethereum.
fn whole_way(network: &Network, coin: u64, from: &str, to: &str) {
    network.ok(&format!("transfer {coin} --from {from} --to {to}"));
    let block = network.await_root(coin);
    let shown = network.ok(&format!("block show {block}"));
    assert_eq!(shown["root"], shown["ethereum_root"], "{shown}");
    assert!(shown["signers"].as_array().unwrap().len() >= 3, "{shown}");
}

#[test]
fn validators_die_and_come_back() {
    let mut network = Network::start(&[]);
    let coin = network.deposit(4);
    whole_way(&network, coin, "alice", "bob");

    // Killed with its CometBFT, and started again at once.
    network.kill("node3");
    network.restart("node3");
    network.await_heights(3, 3, SHORT);

    // Its CometBFT alone is killed: no half of a node stays.
    network.kill_cometbft("node1");
    fill_pool_with_two(&network, "node1");
    network.restart("node1");
    network.await_heights(1, 3, SHORT);

    // One stays down: everything goes on.
    network.kill("node2");
    whole_way(&network, coin, "bob", "alice");
    network.await_heights(0, 3, SHORT);
    // Two down: nothing does.
    network.kill("node3");
    let halted = await_halt(&network);
    refused_while_pending(&network, coin + 1, coin + 3);
    network.restart("node3");
    wait_for("the next height", SHORT, || network.height(0).filter(|h| *h > halted + 2));
    wait_for("the transfer sent while it halted", SHORT, || {
        (network.ok(&format!("coin show {}", coin + 1))["block"] != 0).then_some(())
    });
    network.restart("node2");
    network.await_heights(2, 2, SHORT);
    whole_way(&network, coin + 2, "alice", "bob");
    network.assert_same_app_hashes();
    network.assert_grammar();
}

/// The pool of this node is full with two transfers from its next start on.
fn fill_pool_with_two(network: &Network, name: &str) {
    let path = network.dir().join(name).join("config/plasma.toml");
    let text = fs::read_to_string(&path).unwrap();
    let line = "pool_transfers = 1000000";
    assert!(text.contains(line), "{text}");
    fs::write(&path, text.replace(line, "pool_transfers = 2")).unwrap();
}

/// The codes for what waits in the pool, which nothing leaves while the chain halts: the transfer
/// of `coin` waits, `other` does not move. Node 1's pool is full with two transfers.
fn refused_while_pending(network: &Network, coin: u64, other: u64) {
    let [tx, second] = ["bob", "carol"].map(|to| sign::single(network, coin, "alice", to, LATE));
    // The same transfer in a bundle of one: other bytes, so that CometBFT's cache lets it pass.
    let bundle = format!("0x0201{}", tx.strip_prefix("0x01").unwrap());
    assert_eq!(network.send(0, &bundle), Ok(0));
    assert_eq!(network.send(0, &tx), Ok(ALREADY_PENDING));
    assert_eq!(network.send(0, &second), Ok(COIN_PENDING));
    wait_for("the bundle in node 1's pool", SHORT, || {
        (network.rpc(1, "num_unconfirmed_txs")["n_txs"] == "1").then_some(())
    });
    let another = sign::single(network, other, "alice", "bob", LATE);
    assert_eq!(network.send(1, &another), Ok(NOT_RESTED));
}

/// Waits until no height is made any more; the last one.
fn await_halt(network: &Network) -> u64 {
    let mut last = (0, Instant::now());
    wait_for("the halt", SHORT, || {
        let height = network.height(0)?;
        if height != last.0 {
            last = (height, Instant::now());
        }
        (last.1.elapsed() > STILL).then_some(height)
    })
}

#[test]
fn a_block_at_every_height_gets_its_certificate() {
    let network = Network::start(&["--max-heights", "1"]);
    let coin = network.deposit(12);
    for coin in coin..coin + 12 {
        network.ok(&format!("transfer {coin} --from alice --to bob"));
    }
    let last = network.await_root(coin + 11);
    assert!(last >= 6, "only {last} blocks");
    for block in 1..=last {
        let shown = network.ok(&format!("block show {block}"));
        assert_eq!(shown["root"], shown["ethereum_root"], "{shown}");
        let certificate = shown["certificate"].as_u64().unwrap();
        assert!(certificate >= block, "{shown}");
        assert!(shown["signers"].as_array().unwrap().len() >= 3, "{shown}");
    }
    network.assert_same_app_hashes();
    network.assert_grammar();
}
