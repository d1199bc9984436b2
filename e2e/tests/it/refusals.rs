//! What is refused, with which code, and how CometBFT's RPC carries the answer.

use std::time::Duration;

use base64::Engine;
use plasma_core::tx::Tx;
use plasma_e2e::{Network, Reply, get, post, wait_for};
use serde_json::json;

use crate::sign;

/// A last plasma block that no test reaches.
const LATE: u64 = 1_000;

/// Codes of formats.md. 13 (already_pending) and 16 (not_rested) are in `faults`: they need
/// transactions that wait. 17 (stale_bundle) reaches no caller of the RPC: only a recheck says it,
/// and CometBFT drops a transaction that fails its recheck without a word. A black box cannot bring
/// it about either, as a bundle must wait for ten heights while every proposer has room for it.
mod code {
    pub const EMPTY: u64 = 1;
    pub const QUOTED_HEX: u64 = 2;
    pub const MALFORMED: u64 = 3;
    pub const PROPOSAL_NOT_ALLOWED: u64 = 4;
    pub const TOO_LARGE: u64 = 5;
    pub const UNKNOWN_COIN: u64 = 6;
    pub const GONE: u64 = 7;
    pub const FROZEN: u64 = 8;
    pub const MOVED_IN_OPEN_BLOCK: u64 = 9;
    pub const EXPIRED: u64 = 10;
    pub const BAD_NEW_OWNER: u64 = 11;
    pub const NOT_OWNER: u64 = 12;
    pub const COIN_PENDING: u64 = 14;
    pub const BUNDLE_BELOW_HALF: u64 = 15;
}

/// One transfer: kind and version, coin (one byte for coins below 128), the rest.
fn with_coin(tx: &str, coin: u8) -> String {
    format!("{}{coin:02x}{}", &tx[..4], &tx[6..])
}

/// The code of some bytes at every node.
fn refused_everywhere(network: &Network, tx: &str, expected: u64) {
    network.await_all_nodes();
    for node in 0..network.size() {
        assert_eq!(network.send(node, tx), Ok(expected), "node {node}, {tx}");
    }
}

/// Moves coins and waits until the plasma block in which they moved is closed.
fn moved(network: &Network, line: &str, coin: u64) {
    network.ok(&format!("transfer {line}"));
    let block = network.ok(&format!("coin show {coin}"))["block"].as_u64().unwrap();
    network.await_closed(block);
}

#[test]
fn refused_with_codes() {
    let network = Network::start(&[]);
    let coin = network.deposit(6);
    let all: Vec<u64> = (coin..coin + 6).collect();
    let stolen = sign::single(&network, coin, "mallory", "bob", LATE);
    refused_everywhere(&network, &stolen, code::NOT_OWNER);
    let line = format!("transfer {coin} --from mallory --to bob");
    assert_eq!(network.fails(&line), (5, "not_owner".into()));
    let good = sign::single(&network, coin, "alice", "bob", LATE);
    refused_everywhere(&network, &with_coin(&good, 127), code::UNKNOWN_COIN);
    assert_eq!(network.fails("transfer 127 --from alice --to bob"), (3, "not_found".into()));
    refused_everywhere(&network, &good[..good.len() - 2], code::MALFORMED);
    refused_everywhere(&network, &format!("{good}00"), code::MALFORMED);
    refused_everywhere(&network, "0xff", code::MALFORMED);
    // A bundle of 5,001: the count is enough.
    refused_everywhere(&network, "0x028927", code::TOO_LARGE);
    let contract = network.description()["root_chain"].as_str().unwrap().to_owned();
    for owner in [&contract, "0x0000000000000000000000000000000000000000"] {
        let tx = sign::single(&network, coin, "alice", owner, LATE);
        refused_everywhere(&network, &tx, code::BAD_NEW_OWNER);
    }
    let bundle = sign::bundle(&network, &all, "mallory", "bob", LATE);
    refused_everywhere(&network, &bundle, code::BUNDLE_BELOW_HALF);

    // Two transfers of one coin: the second is refused in the pool, in the open block, and after
    // it. Blocks stay open for a few heights only, so that the open block is looked for.
    let second = sign::single(&network, coin, "alice", "carol", LATE);
    assert_eq!(network.send(0, &good), Ok(0));
    let verdict = network.send(0, &second).unwrap();
    assert!([code::COIN_PENDING, code::MOVED_IN_OPEN_BLOCK].contains(&verdict), "{verdict}");
    wait_for("the first transfer", Duration::from_secs(20), || {
        (network.ok(&format!("coin show {coin}"))["block"] != 0).then_some(())
    });
    let verdict = network.send(2, &second).unwrap();
    assert!([code::NOT_OWNER, code::MOVED_IN_OPEN_BLOCK].contains(&verdict), "{verdict}");
    network.await_root(coin);
    refused_everywhere(&network, &second, code::NOT_OWNER);

    moves_once_a_block(&network, coin + 5);
    for coin in [coin + 3, coin + 4] {
        spent_twice_at_once(&network, coin);
    }

    // Expired: block 1 is closed.
    let old = sign::single(&network, coin + 1, "alice", "bob", 1);
    refused_everywhere(&network, &old, code::EXPIRED);

    // Frozen once the exit is final on Ethereum, gone once it is paid.
    let frozen = coin + 2;
    let tx = sign::single(&network, frozen, "alice", "bob", LATE);
    network.ok(&format!("exit start {frozen} --from alice"));
    await_status(&network, frozen, "frozen");
    refused_everywhere(&network, &tx, code::FROZEN);
    assert_eq!(
        network.fails(&format!("transfer {frozen} --from alice --to bob")),
        (5, "frozen".into())
    );
    network.ok("devnet warp 15d");
    network.ok(&format!("exit finalize {frozen} --from alice"));
    await_status(&network, frozen, "gone");
    refused_everywhere(&network, &tx, code::GONE);
    network.assert_same_app_hashes();
    network.assert_grammar();
}

/// No block is open before: the coin's transfer opens one, which stays open for a few heights.
fn moves_once_a_block(network: &Network, coin: u64) {
    let [tx, next] = ["bob", "carol"].map(|to| sign::single(network, coin, "alice", to, LATE));
    let reply = get(network.port(0), &format!("broadcast_tx_commit?tx={tx}")).unwrap();
    assert_eq!(reply.json()["result"]["tx_result"]["code"], 0, "{reply:?}");
    assert_eq!(network.send(0, &next), Ok(code::MOVED_IN_OPEN_BLOCK));
    let block = network.ok(&format!("coin show {coin}"))["block"].as_u64().unwrap();
    network.await_closed(block);
}

/// Two transfers of one coin, each to half of the network: one of them happens.
fn spent_twice_at_once(network: &Network, coin: u64) {
    let txs = ["bob", "carol"].map(|to| sign::single(network, coin, "alice", to, LATE));
    assert_eq!(network.send(0, &txs[0]), Ok(0));
    let verdict = network.send(3, &txs[1]).unwrap();
    let known = [0, code::COIN_PENDING, code::MOVED_IN_OPEN_BLOCK, code::NOT_OWNER];
    assert!(known.contains(&verdict), "{verdict}");
    wait_for("one of two transfers", Duration::from_secs(20), || {
        (network.ok(&format!("coin show {coin}"))["block"] != 0).then_some(())
    });
    network.await_root(coin);
    let history = network.ok(&format!("coin history {coin}"));
    assert_eq!(history["transfers"].as_array().unwrap().len(), 1, "{history}");
    network.ok(&format!("coin history {coin} --verify"));
    network.await_all_nodes();
    for (node, tx) in (0..network.size()).flat_map(|node| txs.iter().map(move |tx| (node, tx))) {
        match network.send(node, tx) {
            Ok(code) => assert_eq!(code, code::NOT_OWNER, "node {node}"),
            Err(error) => assert!(error.contains("already exists in cache"), "{error}"),
        }
    }
}

fn await_status(network: &Network, coin: u64, status: &str) {
    wait_for(&format!("coin {coin} {status}"), Duration::from_secs(60), || {
        (network.ok(&format!("coin show {coin}"))["status"] == status).then_some(())
    });
}

/// A signature signs the coin's whole past, so that the coin's return does not revive it.
#[test]
fn old_bytes_are_dead_after_the_coin_came_back() {
    let mut network = Network::start(&[]);
    let one = network.deposit(4);
    let (two, three, four) = (one + 1, one + 2, one + 3);
    let max = "--max-block 1000";
    let alone = network.dry_run(&format!("{one} --from alice --to bob {max}"));
    let bundle = network.dry_run(&format!("{two} {three} --from alice --to bob {max}"));
    assert_eq!(network.send(0, &alone), Ok(0));
    assert_eq!(network.send(0, &bundle), Ok(0));
    let bob = network.description()["accounts"]["bob"].as_str().unwrap().to_lowercase();
    for coin in [one, two, three] {
        wait_for("bob's coins", Duration::from_secs(20), || {
            let owner = &network.ok(&format!("coin show {coin}"))["owner"];
            (owner.as_str().unwrap().to_lowercase() == bob).then_some(())
        });
    }
    network.await_root(three);
    network.await_root(one);
    moved(&network, &format!("{one} {two} {three} --from bob --to alice"), one);
    let before = owners(&network, [one, two, three]);

    // CometBFT's cache of one node knows the bytes; a restarted node's is empty.
    network.kill("node3");
    network.restart("node3");
    network.await_heights(3, 2, Duration::from_secs(60));
    network.await_all_nodes();
    for node in 0..network.size() {
        for (tx, expected) in [(&alone, code::NOT_OWNER), (&bundle, code::BUNDLE_BELOW_HALF)] {
            match network.send(node, tx) {
                Ok(code) => assert_eq!(code, expected, "node {node}"),
                Err(error) => assert!(error.contains("already exists in cache"), "{error}"),
            }
        }
    }
    assert_eq!(network.send(3, &alone), Ok(code::NOT_OWNER), "the cache of node3 is empty");
    // A bundle of which half is good goes through, without the dead half.
    let good = network.dry_run(&format!("{four} --from alice --to carol {max}"));
    let mixed = format!("0x{}", hex::encode(bundle_of(&[&alone, &good])));
    let path = format!("broadcast_tx_commit?tx={mixed}");
    let result = get(network.port(0), &path).unwrap().json()["result"].take();
    assert_eq!(result["tx_result"]["code"], 0, "{result}");
    let shown = network.ok(&format!("transfer show {}", result["hash"].as_str().unwrap()));
    let executed = [&shown["transfers"][0]["executed"], &shown["transfers"][1]["executed"]];
    assert_eq!(executed, [false, true], "{shown}");
    network.await_heights(0, 4, Duration::from_secs(60));
    assert_eq!(owners(&network, [one, two, three]), before);
    network.assert_same_app_hashes();
    network.assert_grammar();
}

/// A bundle of single transfers, given as `0x...`.
fn bundle_of(txs: &[&str]) -> Vec<u8> {
    let members = txs.iter().map(|tx| match Tx::decode(&hex::decode(&tx[2..]).unwrap()) {
        Ok(Tx::Transfer(transfer)) => transfer,
        other => panic!("{other:?}"),
    });
    Tx::Bundle(members.collect()).encode()
}

fn owners(network: &Network, coins: [u64; 3]) -> [(String, u64); 3] {
    coins.map(|coin| {
        let shown = network.ok(&format!("coin show {coin}"));
        (shown["owner"].as_str().unwrap().to_owned(), shown["block"].as_u64().unwrap())
    })
}

/// How bytes are given to the RPC.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Get,
    Body,
    Json,
    JsonPositional,
}

const FORMS: [Form; 4] = [Form::Get, Form::Body, Form::Json, Form::JsonPositional];
const METHODS: [&str; 3] = ["broadcast_tx_async", "broadcast_tx_sync", "broadcast_tx_commit"];

fn send(network: &Network, node: usize, method: &str, form: Form, tx: &[u8]) -> Reply {
    let port = network.port(node);
    let hex = format!("0x{}", hex::encode(tx));
    let base64 = base64::engine::general_purpose::STANDARD.encode(tx);
    let call = |params| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let reply = match form {
        Form::Get if tx.is_empty() => get(port, method),
        Form::Get => get(port, &format!("{method}?tx={hex}")),
        Form::Body => post(port, method, "application/x-www-form-urlencoded", &format!("tx={hex}")),
        Form::Json => post(port, "", "application/json", &call(json!({"tx": base64})).to_string()),
        Form::JsonPositional => {
            post(port, "", "application/json", &call(json!([base64])).to_string())
        }
    };
    reply.unwrap()
}

/// The code of CheckTx in an answer; async answers 0 whatever the bytes are.
fn check_code(method: &str, reply: &Reply) -> Option<u64> {
    let result = &reply.json()["result"];
    let holder = if method == "broadcast_tx_commit" { &result["check_tx"] } else { result };
    holder["code"].as_u64()
}

/// The table of abci.md: methods x forms x transactions.
#[test]
fn rpc_forms() {
    let network = Network::start(&[]);
    let count = METHODS.len() * FORMS.len() + 1;
    let first = network.deposit(count as u32);
    let mut coin = first;
    let mut bytes = |from: &str| {
        let tx = network.dry_run(&format!("{coin} --from {from} --to bob --max-block 1000"));
        coin += 1;
        hex::decode(&tx[2..]).unwrap()
    };
    for method in METHODS {
        let expected = |code: u64| Some(if method == "broadcast_tx_async" { 0 } else { code });
        for form in FORMS {
            let good = bytes("alice");
            let reply = send(&network, 0, method, form, &good);
            assert_eq!(check_code(method, &reply), Some(0), "{method} {form:?}: {reply:?}");
            if method == "broadcast_tx_commit" {
                let result = &reply.json()["result"];
                assert_eq!(result["tx_result"]["code"], 0, "{form:?}: {reply:?}");
            }
            // The same bytes again: CometBFT itself refuses them, as an error.
            let again = send(&network, 0, method, form, &good);
            if method != "broadcast_tx_async" {
                assert!(again.body.contains("already exists in cache"), "{form:?}: {again:?}");
                let json = matches!(form, Form::Json | Form::JsonPositional);
                let status = if json { 200 } else { 500 };
                assert_eq!(again.status, status, "{method} {form:?}: {again:?}");
            }
            let mut wrong = good.clone();
            *wrong.last_mut().unwrap() ^= 1;
            let cut = &good[..good.len() - 1];
            let quoted = format!("0x{}", hex::encode(&good)).into_bytes();
            for (tx, codes) in [
                (&wrong[..], &[code::NOT_OWNER, code::MOVED_IN_OPEN_BLOCK, code::COIN_PENDING][..]),
                (cut, &[code::MALFORMED]),
                (&[], &[code::EMPTY]),
                (&quoted, &[code::QUOTED_HEX]),
                (&[0], &[code::PROPOSAL_NOT_ALLOWED, code::MALFORMED]),
            ] {
                let reply = send(&network, 1, method, form, tx);
                let seen = check_code(method, &reply);
                let fits = codes.iter().any(|code| seen == expected(*code));
                assert!(fits, "{method} {form:?} {codes:?}: {reply:?}");
            }
        }
    }
    // Every good one arrives, the async ones too.
    for coin in first..first + count as u64 - 1 {
        wait_for(&format!("coin {coin} moved"), Duration::from_secs(30), || {
            (network.ok(&format!("coin show {coin}"))["block"] != 0).then_some(())
        });
    }
    odd_requests(&network, first + count as u64 - 1);
    network.assert_same_app_hashes();
    network.assert_grammar();
}

/// Quotes, base64 in a URL, and calls without an id.
fn odd_requests(network: &Network, coin: u64) {
    let port = network.port(0);
    let tx = network.dry_run(&format!("{coin} --from alice --to bob --max-block 1000"));
    let reply = get(port, &format!("broadcast_tx_sync?tx=\"{tx}\"")).unwrap();
    assert_eq!(reply.json()["result"]["code"], code::QUOTED_HEX, "{reply:?}");
    assert!(reply.body.contains("quotes"), "{reply:?}");
    let base64 = base64::engine::general_purpose::STANDARD.encode(hex::decode(&tx[2..]).unwrap());
    let reply = get(port, &format!("broadcast_tx_sync?tx={base64}")).unwrap();
    assert_eq!(reply.status, 500, "base64 without quotes: {reply:?}");
    // Upper case is hex as well. Without an id there is no answer.
    let upper = format!("0X{}", tx[2..].to_uppercase());
    let reply = get(port, &format!("broadcast_tx_sync?tx={upper}")).unwrap();
    assert_eq!(reply.json()["result"]["code"], 0, "{reply:?}");
    let call = json!({"jsonrpc": "2.0", "method": "broadcast_tx_sync", "params": {"tx": base64}});
    let reply = post(port, "", "application/json", &call.to_string()).unwrap();
    assert_eq!(reply.body.trim(), "", "{reply:?}");
}
