//! The watcher guards bob's coin on a whole network, while it is killed again and again.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use alloy_sol_types::SolCall;
use plasma_client::challenge::Inclusion;
use plasma_client::wallet::devnet_key;
use plasma_core::block::chain_hash;
use plasma_core::certificate::{Certificate, attestation_digest};
use plasma_core::coin::CoinState;
use plasma_core::domain::Domain;
use plasma_core::signature::SigningKey;
use plasma_core::smt::{Leaf, prove, root_of};
use plasma_core::transfer::Transfer;
use plasma_core::validators::{Validator, ValidatorSet};
use plasma_core::{Address, B256, BlockNumber, CoinId};
use plasma_e2e::{Network, get, plasma, post, wait_for};
use plasma_rootchain::contract::{ExitStart, RootChain, RootChainContract, Submission};
use plasma_rootchain::ethereum::{At, Ethereum, Sender};
use rustix::process::Signal;
use serde_json::{Value, json};

const SHORT: Duration = Duration::from_secs(90);

fn key(name: &str) -> SigningKey {
    devnet_key(name).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

fn contract(network: &Network) -> RootChainContract {
    let description = network.description();
    let ethereum = Ethereum::new(description["ethereum"].as_str().unwrap()).unwrap();
    let address = description["root_chain"].as_str().unwrap().parse().unwrap();
    RootChainContract { ethereum, address }
}

/// Status of the coin in the contract, and its open exits, oldest first.
fn seen(network: &Network, coin: CoinId) -> (u8, Vec<u64>) {
    let contract = contract(network);
    let seen = block_on(async {
        let deposit = contract.deposit_of(coin, At::Latest).await.unwrap().unwrap();
        contract.coin(coin, deposit.deposit_id, At::Latest).await.unwrap()
    });
    (seen.status, seen.open.iter().map(|exit| exit.id).collect())
}

fn start_exit(network: &Network, name: &str, exit: &ExitStart) -> u64 {
    let contract = contract(network);
    block_on(async {
        let sender = Sender::new(contract.ethereum.clone(), &key(name)).await.unwrap();
        contract.start_exit(&sender, exit).await.unwrap()
    })
}

/// The validators' set and their root keys, in its order.
fn validators(network: &Network) -> (ValidatorSet, Vec<SigningKey>) {
    let mut keys: Vec<SigningKey> = (0..network.size())
        .map(|node| {
            let path = network.dir().join(format!("node{node}/config/root_key"));
            let mut bytes = [0; 32];
            hex::decode_to_slice(fs::read_to_string(path).unwrap().trim(), &mut bytes).unwrap();
            SigningKey::from_bytes(bytes).unwrap()
        })
        .collect();
    keys.sort_by_key(SigningKey::address);
    let set = keys.iter().enumerate().map(|(i, key)| Validator {
        root_key: key.address(),
        power: 10,
        // The contract knows nothing of these.
        consensus_key: [i as u8 + 1; 32],
    });
    (ValidatorSet::new(1, set.collect()).unwrap(), keys)
}

/// The validators certify two blocks that nobody shows: in them mallory gets the coin out of
/// nothing and hands it to herself. Her exit.
fn forge(network: &Network, coin: CoinId) -> ExitStart {
    let contract = contract(network);
    let (set, keys) = validators(network);
    let mallory = key("mallory");
    block_on(async {
        let chain_id = contract.ethereum.chain_id().await.unwrap();
        let domain = Domain::new(chain_id, contract.address);
        let first = contract.last_block(At::Latest).await.unwrap() + 1;
        let mut hash = contract.read(RootChain::chainHashCall {}, At::Latest).await.unwrap();
        let mut spent = CoinState { coin, owner: mallory.address(), block: 0, hash: B256::ZERO };
        let (mut roots, mut shown) = (Vec::new(), Vec::new());
        for block in [first, first + 1] {
            let transfer = Transfer::spending(&spent, mallory.address(), u64::MAX);
            let transfer = transfer.sign(&mallory, &domain);
            let leaf = Leaf { coin, hash: transfer.transfer.digest(&domain) };
            spent = CoinState { block, hash: leaf.hash, ..spent };
            roots.push(root_of(&[leaf]));
            hash = chain_hash(hash, block, root_of(&[leaf]));
            shown.push(Inclusion { block, transfer, proof: prove(&[leaf], coin) });
        }
        let last: BlockNumber = first + 1;
        let digest = attestation_digest(&domain, last, hash, set.id());
        let signed: Vec<_> =
            keys.iter().enumerate().map(|(i, key)| (i, key.sign(digest))).collect();
        let certificate = Certificate::new(last, set.len(), &signed);
        let submission = Submission { first, roots, set: set.encode(), certificate };
        let sender = Sender::new(contract.ethereum.clone(), &mallory).await.unwrap();
        sender.send(contract.submission(&submission)).await.unwrap();
        let deposit = contract.deposit_of(coin, At::Latest).await.unwrap().unwrap();
        let child = shown.pop().unwrap();
        let deposit_id = deposit.deposit_id;
        let transfer = Some((shown.pop(), child));
        ExitStart { coin, deposit_id, transfer, authorization: None, hint: 0 }
    })
}

/// `plasma watch` for bob, with its lines in a file.
struct Watcher {
    child: Child,
    log: PathBuf,
    args: Vec<String>,
}

impl Watcher {
    fn start(network: &Network, args: &[&str]) -> Self {
        let log = network.dir().join("logs/watch.log");
        let mut all = vec!["--json", "--home", network.dir().to_str().unwrap(), "watch"];
        all.extend(["--from", "bob"]);
        all.extend(args);
        let args: Vec<String> = all.into_iter().map(str::to_owned).collect();
        Self { child: spawn(&args, &log), log, args }
    }

    /// As `kill -9` and whoever supervises it.
    fn kill_and_restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = spawn(&self.args, &self.log);
    }

    /// Lines so far.
    fn said(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.log).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn count(&self, kind: &str) -> usize {
        self.said().iter().filter(|line| line["kind"] == kind).count()
    }

    /// Waits until lines of a kind have been said so often.
    fn await_said(&self, kind: &str, times: usize) {
        let said = || wait_for_lines(self, kind, times);
        wait_for(&format!("{times} lines {kind}"), SHORT, said);
    }
}

fn wait_for_lines(watcher: &Watcher, kind: &str, times: usize) -> Option<()> {
    (watcher.count(kind) >= times).then_some(())
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("the watcher said:\n{text}");
        }
    }
}

fn spawn(args: &[String], log: &PathBuf) -> Child {
    let out = OpenOptions::new().create(true).append(true).open(log).unwrap();
    let errors = File::create(log.with_extension("err")).unwrap();
    Command::new(plasma())
        .args(args)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(errors)
        .spawn()
        .unwrap()
}

/// Bytes of bob's journal: they grow just before something is broadcast.
fn journal(network: &Network) -> u64 {
    let path = network.dir().join(format!("data/watch/{}.journal", key("bob").address()));
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Kills the watcher the moment its journal grows.
fn kill_while_it_sends(network: &Network, watcher: &mut Watcher, before: u64) {
    let deadline = Instant::now() + SHORT;
    while journal(network) == before {
        assert!(Instant::now() < deadline, "the watcher sends nothing");
        std::thread::yield_now();
    }
    watcher.kill_and_restart();
}

fn ethereum(network: &Network, method: &str, params: Value) -> Value {
    let url = network.description()["ethereum"].as_str().unwrap().to_owned();
    let port = url.rsplit(':').next().unwrap().parse().unwrap();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    post(port, "", "application/json", &call.to_string()).unwrap().json()["result"].take()
}

/// Bob's calls of the contract by selector, with how often; none of them failed.
fn calls(network: &Network, account: Address) -> BTreeMap<String, u64> {
    let head = ethereum(network, "eth_blockNumber", json!([]));
    let head = u64::from_str_radix(&head.as_str().unwrap()[2..], 16).unwrap();
    let mut calls = BTreeMap::new();
    for block in 0..=head {
        let params = json!([format!("{block:#x}"), true]);
        let block = ethereum(network, "eth_getBlockByNumber", params);
        for tx in block["transactions"].as_array().unwrap() {
            if tx["from"].as_str().unwrap().parse::<Address>().unwrap() == account {
                let receipt = ethereum(network, "eth_getTransactionReceipt", json!([tx["hash"]]));
                assert_eq!(receipt["status"], "0x1", "{receipt}");
                let selector = tx["input"].as_str().unwrap()[..10].to_owned();
                *calls.entry(selector).or_default() += 1;
            }
        }
    }
    calls
}

fn selector<C: SolCall>() -> String {
    format!("0x{}", hex::encode(C::SELECTOR))
}

#[test]
fn a_killed_watcher_guards_a_coin_and_does_nothing_twice() {
    let network = Network::start(&["--max-heights", "1"]);
    let coin = network.deposit(1);
    network.ok(&format!("transfer {coin} --from alice --to bob"));
    network.await_root(coin);

    // Alice exits what she has spent. A dry run says what it would do, and does nothing.
    let spent = ExitStart { coin, deposit_id: 1, transfer: None, authorization: None, hint: 0 };
    let exit = start_exit(&network, "alice", &spent);
    let dry = Watcher::start(&network, &["--dry-run"]);
    dry.await_said("challenge", 1);
    assert!(dry.said().iter().any(|line| line["data"]["dry_run"] == true));
    drop(dry);
    assert_eq!((seen(&network, coin), journal(&network)), ((0, vec![exit]), 0));
    assert!(calls(&network, key("bob").address()).is_empty());

    // Killed while it challenges; Ethereum stands still for a while.
    let args = ["--withdraw", "--metrics", "127.0.0.1:0"];
    let mut watcher = Watcher::start(&network, &args);
    kill_while_it_sends(&network, &mut watcher, 0);
    wait_for("the refutation", SHORT, || seen(&network, coin).1.is_empty().then_some(()));
    network.signal("anvil", Signal::STOP);
    network.await_heights(0, 5, SHORT);
    watcher.kill_and_restart();
    network.signal("anvil", Signal::CONT);

    // The validators themselves forge an exit, in blocks that nobody shows.
    let stolen = start_exit(&network, "mallory", &forge(&network, coin));
    let before = journal(&network);
    kill_while_it_sends(&network, &mut watcher, before);
    let own = wait_for("bob's exit", SHORT, || {
        let (_, open) = seen(&network, coin);
        (open.len() == 2).then(|| open[0])
    });
    assert!(own > stolen, "bob's exit is the older state's, though it was opened later");
    watcher.await_said("block data missing", 1);
    watcher.kill_and_restart();

    network.ok("devnet warp 15d");
    let before = journal(&network);
    kill_while_it_sends(&network, &mut watcher, before);
    wait_for("the payout", SHORT, || (seen(&network, coin) == (2, vec![])).then_some(()));
    watcher.await_said("done", 1);
    watcher.await_said("credits", 1);
    let credits = RootChain::creditsCall { account: key("bob").address() };
    wait_for("bob's bonds", SHORT, || {
        let left = block_on(contract(&network).read(credits.clone(), At::Latest)).unwrap();
        left.is_zero().then_some(())
    });

    let mut calls = calls(&network, key("bob").address());
    let mut taken = |selector: String| calls.remove(&selector).unwrap_or(0);
    assert_eq!(taken(selector::<RootChain::challengeSpentCall>()), 1);
    assert_eq!(taken(selector::<RootChain::startExitCall>()), 1);
    assert_eq!(taken(selector::<RootChain::finalizeExitCall>()), 1);
    assert_eq!(taken(selector::<RootChain::sweepExitCall>()), 1);
    assert_eq!(taken(selector::<RootChain::withdrawManyCall>()), 1);
    assert!(taken(selector::<RootChain::withdrawCreditsCall>()) >= 1);
    assert!(calls.is_empty(), "{calls:?}");

    let errors = fs::read_to_string(watcher.log.with_extension("err")).unwrap();
    let port = errors.split("metrics at http://127.0.0.1:").nth(1).unwrap();
    let port: u16 = port.split('/').next().unwrap().parse().unwrap();
    wait_for("the metrics of an empty watch", SHORT, || {
        let metrics = get(port, "metrics").ok()?.body;
        metrics.contains("plasma_watcher_coins 0\n").then_some(())
    });
    let status = fs::read_to_string(network.dir().join("data/watch/status.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&status).unwrap()["schema"], 1);
}
