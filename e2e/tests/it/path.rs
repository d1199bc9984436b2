//! The whole path: deposit, transfer, plasma block, certificate, Ethereum, exit.

use std::process::Command;

use plasma_e2e::{Network, get};

/// Every kind of asset, with the arguments of its deposit.
const DEPOSITS: [&str; 4] = [
    "--asset eth --value 1ether",
    "--asset erc20 --value 500 --mint",
    "--asset erc721 --id 77 --mint",
    "--asset erc1155 --value 3 --id 5 --mint",
];

fn deposit(network: &Network, arguments: &str) -> u64 {
    let made = network.ok(&format!("deposit --from alice --wait {arguments}"));
    made["first_coin"].as_u64().unwrap()
}

fn owner(network: &Network, coin: u64) -> String {
    network.ok(&format!("coin show {coin}"))["owner"].as_str().unwrap().to_lowercase()
}

fn address(network: &Network, name: &str) -> String {
    network.description()["accounts"][name].as_str().unwrap().to_lowercase()
}

/// Sends bytes with the program that everybody has.
fn curl(network: &Network, tx: &str) -> serde_json::Value {
    let url = format!("http://127.0.0.1:{}/broadcast_tx_sync?tx={tx}", network.port(1));
    let output = Command::new("curl").args(["-s", &url]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn await_owner(network: &Network, coin: u64, name: &str) -> u64 {
    let expected = address(network, name);
    plasma_e2e::wait_for(
        &format!("{name} owns {coin}"),
        std::time::Duration::from_secs(30),
        || (owner(network, coin) == expected).then_some(()),
    );
    network.ok(&format!("coin show {coin}"))["block"].as_u64().unwrap()
}

/// Root and certificate of a plasma block, as the child chain and Ethereum have them.
fn assert_rooted(network: &Network, block: u64) {
    let shown = network.ok(&format!("block show {block}"));
    assert_eq!(shown["root"], shown["ethereum_root"], "{shown}");
    assert!(shown["root"].as_str().is_some_and(|root| root.len() == 66), "{shown}");
    assert!(shown["certificate"].as_u64().unwrap() >= block, "{shown}");
    assert!(shown["signers"].as_array().unwrap().len() >= 3, "{shown}");
}

fn pay_out(network: &Network, coin: u64, name: &str) {
    network.ok(&format!("exit finalize {coin} --from {name}"));
    let paid = network.ok(&format!("exit withdraw {coin} --from {name}"));
    assert_eq!(paid["bond"], true, "{paid}");
    let status = network.ok(&format!("exit list {coin}"));
    assert_eq!(status["status"], "withdrawn", "{status}");
}

#[test]
fn coins_of_every_kind_go_all_the_way() {
    let network = Network::start(&[]);
    network.ok("doctor");
    let status = network.ok("devnet status");
    assert_eq!(status["running"], true, "{status}");
    let coins = DEPOSITS.map(|arguments| deposit(&network, arguments));
    let thousand = network.ok("deposit --from alice --wait --value 1000 --count 1000");
    let first = thousand["first_coin"].as_u64().unwrap();
    assert_eq!(thousand["count"], 1000);
    assert_eq!(owner(&network, first + 999), address(&network, "alice"));
    let listed = network.ok("coin list alice");
    assert_eq!(listed["runs"], serde_json::json!([[1, first + 999]]));

    // First move: some by the CLI, some by curl.
    for (i, coin) in coins.iter().enumerate() {
        if i % 2 == 0 {
            network.ok(&format!("transfer {coin} --from alice --to bob"));
        } else {
            let tx = network.dry_run(&format!("{coin} --from alice --to bob"));
            let answer = curl(&network, &tx);
            assert_eq!(answer["result"]["code"], 0, "{answer}");
        }
    }
    let moved: Vec<u64> = coins.iter().map(|coin| await_owner(&network, *coin, "bob")).collect();
    network.await_closed(*moved.iter().max().unwrap());

    // Second move: all of them, with one of the thousand, in one bundle of bob's.
    let list = coins.map(|coin| coin.to_string()).join(" ");
    let bundle = network.ok(&format!("transfer {list} --from bob --to carol"));
    let shown = network.ok(&format!("transfer show {}", bundle["hash"].as_str().unwrap()));
    assert_eq!(shown["transfers"].as_array().unwrap().len(), 4, "{shown}");
    assert!(shown.to_string().matches("\"executed\":true").count() == 4, "{shown}");
    for (coin, before) in coins.iter().zip(&moved) {
        let last = await_owner(&network, *coin, "carol");
        assert!(last > *before, "coin {coin} moved in {before} and {last}");
        network.await_root(*coin);
        assert_rooted(&network, *before);
        assert_rooted(&network, last);
        let verified = network.ok(&format!("coin history {coin} --verify"));
        assert_eq!(verified["owner"].as_str().unwrap().to_lowercase(), address(&network, "carol"));
        assert_eq!(verified["moved"], serde_json::json!([before, last]));
    }

    // A coin that moved once, and one that never did.
    let (once, never) = (first, first + 1);
    network.ok(&format!("transfer {once} --from alice --to dave"));
    network.await_root(once);
    proofs_verify(&network, &[coins[0], once, never]);

    let answer = network.fails(&format!("exit start {once} --from bob"));
    assert_eq!(answer.0, 5, "it is not his: {answer:?}");
    for coin in coins {
        network.ok(&format!("exit start {coin} --from carol"));
    }
    let answer = network.fails(&format!("coin history {} --verify", coins[0]));
    assert_eq!(answer, (3, "exiting".into()), "nobody may take a coin that leaves");
    network.ok(&format!("exit start {once} --from dave"));
    network.ok(&format!("exit start {never} --from alice"));
    let (code, _) = network.fails(&format!("exit finalize {never} --from alice"));
    assert_eq!(code, 5, "before the period is over");
    network.ok("devnet warp 15d");
    for coin in coins {
        pay_out(&network, coin, "carol");
    }
    pay_out(&network, once, "dave");
    pay_out(&network, never, "alice");
    network.assert_same_app_hashes();
    network.assert_grammar();
}

/// `abci_query` with a proof, piped into `proof verify`; any change of it is refused.
fn proofs_verify(network: &Network, coins: &[u64]) {
    for coin in coins {
        let path = format!("abci_query?path=\"/coin/{coin}\"&prove=true");
        let reply = get(network.port(2), &path).unwrap();
        let verified = network.run_with(&["proof", "verify", "-"], &reply.body);
        assert_eq!(verified.code, 0, "coin {coin}: {verified:?}");
        let mut forged = reply.json();
        let value = forged["result"]["response"]["value"].as_str().unwrap().to_owned();
        let other = if value.starts_with('A') { 'B' } else { 'A' };
        forged["result"]["response"]["value"] = format!("{other}{}", &value[1..]).into();
        let refused = network.run_with(&["proof", "verify", "-"], &forged.to_string());
        assert_eq!(refused.code, 3, "coin {coin}: {refused:?}");
    }
}
