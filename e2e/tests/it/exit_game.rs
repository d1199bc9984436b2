//! Exits and the child chain: frozen, thawed, gone, and transfers on the way meanwhile.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use plasma_e2e::{Network, post, run, wait_for};
use serde_json::{Value, json};

const FROZEN: u64 = 8;
const GONE: u64 = 7;
const SHORT: Duration = Duration::from_secs(60);

fn await_status(network: &Network, coin: u64, status: &str) {
    wait_for(&format!("coin {coin} {status}"), SHORT, || {
        let shown = network.ok(&format!("coin show {coin}"));
        shown["status"].as_str().unwrap().starts_with(status).then_some(())
    });
}

fn address(network: &Network, name: &str) -> String {
    network.description()["accounts"][name].as_str().unwrap().to_lowercase()
}

/// Moves a coin and waits until the root is final on Ethereum.
fn moved(network: &Network, coin: u64, from: &str, to: &str) -> u64 {
    network.ok(&format!("transfer {coin} --from {from} --to {to}"));
    network.await_root(coin)
}

/// What no honest program does: exits the deposit of a coin that was sent on.
fn steal(network: &Network, coin: u64, thief: &str) -> u64 {
    let word = |number: u64| format!("{number:064x}");
    // startDepositExit(uint64,uint64,(uint64,bytes),uint64): the authorization comes after four
    // words and holds a time and no bytes.
    let words = [coin, 1, 0x80, 0, 0, 0x40, 0].map(word).concat();
    let bond = 100_000_000_000_000_000_u64;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_sendTransaction", "params": [{
        "from": address(network, thief), "to": network.description()["root_chain"],
        "value": format!("{bond:#x}"), "data": format!("0x0140e202{words}"), "gas": "0x100000",
    }]});
    let url = network.description()["ethereum"].as_str().unwrap().to_owned();
    let port = url.rsplit(':').next().unwrap().parse().unwrap();
    let sent = post(port, "", "application/json", &call.to_string()).unwrap().json();
    assert!(sent["result"].is_string(), "{sent}");
    wait_for("the theft", SHORT, || {
        let list = network.ok(&format!("exit list {coin}"));
        let found = exits(&list).into_iter().find(|exit| exit["block"] == 0);
        found.map(|exit| exit["exit"].as_u64().unwrap())
    })
}

fn exits(list: &Value) -> Vec<Value> {
    list["exits"].as_array().unwrap().clone()
}

/// A home like the network's, but nobody answers as its node.
fn home_without_node(network: &Network) -> String {
    let home = network.dir().join("alone");
    let text = fs::read_to_string(network.dir().join("config/plasma.toml")).unwrap();
    let rpc = network.description()["nodes"][0]["rpc"].as_str().unwrap().to_owned();
    assert!(text.contains(&rpc), "{text}");
    fs::create_dir_all(home.join("config")).unwrap();
    let text = text.replace(&rpc, "http://127.0.0.1:1");
    fs::write(home.join("config/plasma.toml"), text).unwrap();
    home.to_str().unwrap().to_owned()
}

/// Runs a command there; its exit code and answer.
fn alone(home: &str, line: &str) -> (i32, Value) {
    let mut args = vec!["--json", "--home", home];
    args.extend(line.split_whitespace());
    let answer = run(&args, "");
    let mut json = answer.json();
    let part = if answer.code == 0 { json["data"].take() } else { json["errors"][0].take() };
    (answer.code, part)
}

#[test]
fn exits_freeze_thaw_and_end_coins() {
    let network = Network::start(&["--max-heights", "1"]);
    let first = network.deposit(12);
    assert_eq!(first, 1, "the first deposit, as steal() takes it");
    cancelled(&network, first);
    let stolen = challenged(&network, first + 1);
    let flying: Vec<u64> = (first + 2..first + 7).collect();
    in_flight(&network, &flying);
    let towers = authorised(&network, first + 7);
    let unfinished = several_at_once(&network, first + 8, stolen);
    network.assert_same_app_hashes();
    network.assert_grammar();
    drop((towers, unfinished));
}

/// Frozen on the start, thawed when the exit is taken back: the same bytes count again.
fn cancelled(network: &Network, coin: u64) {
    let tx = network.dry_run(&format!("{coin} --from alice --to bob --max-block 1000"));
    let exit = network.ok(&format!("exit start {coin} --from alice"))["exit"].clone();
    await_status(network, coin, "frozen");
    network.await_all_nodes();
    for node in 0..network.size() {
        assert_eq!(network.send(node, &tx), Ok(FROZEN), "node {node}");
    }
    let again = network.fails(&format!("exit start {coin} --from alice"));
    assert_eq!(again, (5, "exit_exists".into()));
    assert_eq!(network.fails(&format!("exit cancel {coin} --from bob")).0, 5, "it is not his");
    let done = network.ok(&format!("exit cancel {coin} --from alice"));
    assert_eq!(done["exit"], exit);
    assert_eq!(network.fails(&format!("exit cancel {coin} --from alice")), (3, "no_exit".into()));
    await_status(network, coin, "active");
    network.await_all_nodes();
    assert_eq!(network.send(1, &tx), Ok(0));
    wait_for("the transfer", SHORT, || {
        let shown = network.ok(&format!("coin show {coin}"));
        (shown["owner"].as_str().unwrap().to_lowercase() == address(network, "bob")).then_some(())
    });
}

/// Thawed on a challenge, which takes the node, or a history file without any node.
fn challenged(network: &Network, coin: u64) -> u64 {
    let block = moved(network, coin, "alice", "bob");
    let file = network.dir().join(format!("{coin}.history"));
    network.ok(&format!("coin export {coin} {}", file.display()));
    assert_eq!(network.fails(&format!("exit challenge {coin} --from bob")), (3, "no_exit".into()));
    let theft = steal(network, coin, "alice");
    await_status(network, coin, "frozen");
    let shown = network.ok(&format!("exit show {coin} {theft}"));
    assert_eq!(shown["refutable"], json!({"kind": "spent", "evidence_block": block}), "{shown}");
    assert_eq!((&shown["state"], &shown["place"]), (&json!("open"), &json!(0)), "{shown}");
    assert_eq!(shown["age"], "0", "{shown}");
    assert!(shown["ends_after"].as_u64() > shown["opened_at"].as_u64(), "{shown}");
    let missing = network.fails(&format!("exit challenge {coin} {} --from bob", theft + 100));
    assert_eq!(missing, (3, "no_exit".into()));

    let home = home_without_node(network);
    let (code, error) = alone(&home, &format!("exit challenge {coin} --from bob"));
    assert_eq!((code, &error["code"]), (3, &json!("not_refutable")), "{error}");
    let with_file = format!("exit challenge {coin} --from bob --history {}", file.display());
    let (code, refuted) = alone(&home, &with_file);
    assert_eq!(code, 0, "{refuted}");
    assert_eq!(refuted["refuted"][0]["exit"], theft, "{refuted}");
    let shown = network.ok(&format!("exit show {coin} {theft}"));
    assert_eq!((&shown["state"], &shown["refutable"]), (&json!("closed"), &Value::Null));
    assert!(shown["hold_until"].as_u64() > shown["opened_at"].as_u64(), "{shown}");
    await_status(network, coin, "active");

    // What bob showed is on Ethereum: who has neither node nor file starts from there.
    let (code, started) = alone(&home, &format!("exit start {coin} --from bob"));
    assert_eq!(code, 0, "{started}");
    let unrefuted = network.fails(&format!("exit challenge {coin} --from mallory"));
    assert_eq!(unrefuted, (3, "not_refutable".into()), "bob's exit is good");
    await_status(network, coin, "frozen");
    coin
}

/// Exits start while transfers of the same coins are on their way: what is included refutes the
/// exit, what comes too late is refused.
fn in_flight(network: &Network, coins: &[u64]) {
    let txs: Vec<String> = coins
        .iter()
        .map(|coin| network.dry_run(&format!("{coin} --from alice --to bob --max-block 1000")))
        .collect();
    let list: Vec<String> = coins.iter().map(u64::to_string).collect();
    let started = network.ok(&format!("exit start {} --from alice", list.join(" ")));
    assert_eq!(exits(&started).len(), coins.len(), "{started}");
    let mut included = Vec::new();
    for (i, (coin, tx)) in coins.iter().zip(&txs).enumerate() {
        if i == coins.len() - 1 {
            await_status(network, *coin, "frozen");
            network.await_all_nodes();
        }
        let code = network.send(0, tx).unwrap();
        assert!(code == 0 || code == FROZEN, "coin {coin}: {code}");
        if code == 0 {
            included.push(*coin);
        }
    }
    let last = *coins.last().unwrap();
    assert!(included.contains(&coins[0]), "sent at once, yet frozen: {included:?}");
    assert!(!included.contains(&last), "a frozen coin moved");
    for coin in coins {
        await_status(network, *coin, "frozen");
        let shown = network.ok(&format!("coin show {coin}"));
        // CheckTx may have come before the freeze and the block after it.
        if shown["block"] == 0 {
            let refused = network.fails(&format!("exit challenge {coin} --from bob"));
            assert_eq!(refused, (3, "not_refutable".into()), "coin {coin}");
            continue;
        }
        assert!(included.contains(coin), "coin {coin} moved, though refused");
        network.await_root(*coin);
        let refuted = network.ok(&format!("exit challenge {coin} --from bob"));
        assert_eq!(refuted["refuted"][0]["kind"], "spent", "{refuted}");
        await_status(network, *coin, "active");
    }
    // Bob's now, in every respect.
    moved(network, coins[0], "bob", "carol");
    network.ok(&format!("coin history {} --verify", coins[0]));
}

/// Somebody else starts the exit, for the owner.
fn authorised(network: &Network, coin: u64) -> PathBuf {
    let file = network.dir().join("consent.json");
    let start = |args: &str| format!("exit start {coin} --from bob {args}");
    let with_file = start(&format!("--authorization {}", file.display()));
    assert_eq!(network.fails(&start("")), (5, "not_owner".into()));
    let mine = network.fails(&format!("exit authorize {coin} --from bob --not-after 90d"));
    assert_eq!(mine, (5, "not_owner".into()));
    for (not_after, usable) in [("1", false), ("90d", true)] {
        let line = format!("exit authorize {coin} --from alice --not-after {not_after}");
        let consent = network.ok(&line);
        fs::write(&file, consent.to_string()).unwrap();
        if usable {
            let started = network.ok(&with_file);
            let shown = network.ok(&format!("exit show {coin} {}", started["exit"]));
            let name = |field: &str| shown[field].as_str().unwrap().to_lowercase();
            assert_eq!(name("beneficiary"), address(network, "alice"));
            assert_eq!(name("payer"), address(network, "bob"));
        } else {
            assert_eq!(network.fails(&with_file).0, 2, "its time is over");
        }
    }
    file
}

/// Several coins in one command each; gone once they are finalized.
fn several_at_once(network: &Network, first: u64, stolen: u64) -> u64 {
    let (one, two, three, late) = (first, first + 1, first + 2, first + 3);
    let tx = network.dry_run(&format!("{one} --from alice --to bob --max-block 1000"));
    moved(network, two, "alice", "carol");
    moved(network, three, "alice", "bob");
    moved(network, three, "bob", "carol");
    let unaware = home_without_node(network);
    let (code, error) = alone(&unaware, &format!("exit start {two} --from carol"));
    assert_eq!((code, &error["code"]), (5, &json!("not_owner")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("as of plasma block 0"), "{error}");
    network.ok(&format!("exit start {two} {three} --from carol"));
    network.ok(&format!("exit start {one} --from alice"));
    let early = network.fails(&format!("exit finalize {two} {three} --from carol"));
    assert_eq!(early, (3, "none_finalized".into()));
    network.ok("devnet warp 15d");
    network.ok(&format!("exit start {late} --from alice"));
    let line = format!("exit finalize {one} {two} {three} {stolen} {late} --from carol");
    let finalized = network.ok(&line);
    assert_eq!(finalized["coins"], json!([one, two, three, stolen]), "{finalized}");
    assert_eq!(finalized["skipped"], json!([late]), "{finalized}");
    let home = network.dir().to_str().unwrap();
    let (code, error) = alone(home, &format!("exit withdraw {two} {one} --from carol"));
    assert_eq!((code, &error["code"]), (5, &json!("reverted")), "all or nothing");
    let named = error["message"].as_str().unwrap().starts_with(&format!("coin {one}: "));
    assert!(named, "{error}");
    let paid = network.ok(&format!("exit withdraw {two} {three} --from carol"));
    assert_eq!(paid["bond"], true, "{paid}");
    let owed = network.fails("exit withdraw --from carol");
    assert_eq!(owed, (3, "no_credits".into()), "the bonds were paid with the coins");
    // Bob has refuted an exit, and paid for exits of others.
    let paid = network.ok("exit withdraw --from bob");
    assert_eq!(paid, json!({"coins": [], "bond": true}));
    assert_eq!(network.fails("exit withdraw --from bob"), (3, "no_credits".into()));
    for coin in [two, three] {
        assert_eq!(network.ok(&format!("exit list {coin}"))["status"], "withdrawn");
    }
    let left = network.fails(&format!("exit start {two} --from carol"));
    assert_eq!(left, (3, "not_active".into()));
    assert_eq!(network.fails(&format!("exit sweep {two} --from carol")), (3, "no_exit".into()));
    await_status(network, one, "gone");
    network.await_all_nodes();
    for node in 0..network.size() {
        assert_eq!(network.send(node, &tx), Ok(GONE), "node {node}");
    }
    late
}
