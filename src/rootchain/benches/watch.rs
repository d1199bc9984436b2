//! What a watcher of 10,000 coins costs: time of a new plasma block of 1,000 transfers, and memory.
//! The node that shows the proofs is in this process, over HTTP; it has made them before.
#![allow(clippy::unwrap_used, dead_code, missing_docs)]

#[path = "../tests/it/anvil.rs"]
mod anvil;
#[path = "../tests/it/chain.rs"]
mod chain;
#[path = "../tests/it/node.rs"]
mod node;
#[path = "../tests/it/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plasma_client::queries::CoinProof;
use plasma_core::archive::{self, BlockTree};
use plasma_core::coin::CoinState;
use plasma_core::{B256, BlockNumber, CoinId};
use plasma_rootchain::relayer::Policy;
use plasma_rootchain::watcher::{Settings, Watcher};

use crate::world::{World, address, key};

const COINS: u64 = 10_000;
/// Of them move in each block.
const MOVED: u64 = 100;
/// Transfers of other coins in each block.
const OTHERS: u64 = 900;
const BLOCKS: u64 = 10;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure());
}

/// Resident memory of this process, MiB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1_024.0
}

/// Makes the proofs of all coins in a block, as a node's archive does.
fn prepare(world: &World, block: BlockNumber) {
    let mut child = world.child.lock().unwrap();
    let file = BlockTree::build_serial(child.leaves(block).unwrap()).encode(block);
    child.prepared.clear();
    for coin in 1..=COINS {
        let read = |offset: u64, length: usize| {
            let from = offset as usize;
            file.get(from..from + length).map(<[u8]>::to_vec).ok_or(())
        };
        let transfer = child.transfers[block as usize - 1].get(&coin).copied();
        let shown = CoinProof { transfer, proof: archive::prove(block, coin, read).unwrap() };
        child.prepared.insert((coin, block), shown.encode());
    }
}

fn settings(world: &World) -> Settings {
    Settings {
        ethereum: vec![world.anvil.ethereum()],
        root_chain: world.contract.address,
        deployed_at: world.deployed_at,
        nodes: vec![world.node()],
        dir: world.anvil.dir().join("watch"),
        keys: vec![key("bob")],
        owners: Vec::new(),
        coins: Vec::new(),
        payer: Some(key("bob")),
        data_grace_s: 1_000_000,
        withdraw: false,
        dry_run: false,
        policy: Policy { resubmit_after: Duration::from_secs(48), max_fee_wei: u128::MAX },
    }
}

/// A block in which some of the coins move, and others do; one of those that moved.
async fn block(
    world: &World,
    states: &mut BTreeMap<CoinId, CoinState>,
    round: u64,
) -> (BlockNumber, CoinId) {
    let moved: Vec<CoinId> =
        (0..MOVED).map(|i| 1 + (i * (COINS / MOVED) + round) % COINS).collect();
    let mut leaves: Vec<_> =
        moved.iter().map(|coin| (*coin, world.signed(&states[coin], "bob", "bob"))).collect();
    for other in 0..OTHERS {
        let hash = B256::repeat_byte(round as u8);
        let state = CoinState { coin: 1_000_000 + other, owner: address("carol"), block: 0, hash };
        leaves.push((state.coin, world.signed(&state, "carol", "carol")));
    }
    let block = world.block(&leaves).await;
    for (coin, transfer) in leaves.iter().take(moved.len()) {
        let state = transfer.child_of(&states[coin], block, &world.domain).unwrap();
        states.insert(*coin, state);
    }
    prepare(world, block);
    (block, moved[0])
}

async fn measure() {
    let world = World::new().await;
    let mut states: BTreeMap<CoinId, CoinState> = BTreeMap::new();
    for _ in 0..COINS / 1_000 {
        let deposit = world.deposit("bob", 1_000).await;
        for coin in deposit.first_coin..deposit.first_coin + 1_000 {
            states.insert(coin, deposit.state(coin, &world.domain));
        }
    }
    let before = memory();
    let mut watcher = Watcher::new(settings(&world)).await.unwrap();
    watcher.step().await.unwrap();
    assert_eq!(watcher.coins().len() as u64, COINS);
    println!("{COINS} coins at their deposits: {:.1} MiB", memory() - before);
    let (mut times, mut held) = (Vec::new(), 0.0);
    for round in 0..BLOCKS {
        let (block, moved) = block(&world, &mut states, round).await;
        let before = memory();
        let started = Instant::now();
        while watcher.progress().checked < block {
            watcher.step().await.unwrap();
        }
        times.push(started.elapsed().as_secs_f64());
        held += memory() - before;
        assert_eq!(watcher.coins()[&moved].state(), states[&moved]);
    }
    times.sort_by(f64::total_cmp);
    let log = std::fs::metadata(world.anvil.dir().join("watch/watch.log")).unwrap().len();
    println!(
        "a new block of {} transfers, {MOVED} of them of the {COINS} coins: {:.2} s median \
         ({:.2} to {:.2}, {BLOCKS} blocks), {held:.1} MiB more in all, {log} bytes of log",
        MOVED + OTHERS,
        times[times.len() / 2],
        times[0],
        times[times.len() - 1],
    );
}
