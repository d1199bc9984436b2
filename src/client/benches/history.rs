//! What a receiver's check costs: size of a coin's portable history over 10,000 blocks of 1,000
//! transfers, and time to verify it. The coin moves in every hundredth block.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Instant;

use plasma_client::history::History;
use plasma_client::history_file::{Header, HistoryFile, write_shown};
use plasma_client::queries::CoinProof;
use plasma_client::transfer::sign;
use plasma_client::wallet::devnet_key;
use plasma_core::coin::{Deposit, asset};
use plasma_core::domain::Domain;
use plasma_core::smt::{Leaf, prove, root_of};
use plasma_core::{Address, B256, BlockNumber, U256};

const BLOCKS: BlockNumber = 10_000;
/// Transfers in each block.
const TRANSFERS: u64 = 1_000;
/// The coin moves once in so many blocks.
const REST: BlockNumber = 100;
const COIN: u64 = 7;
const RUNS: usize = 5;

/// The n-th of ids that are spread evenly over 2^40.
fn other(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24
}

/// The file, and the roots of all blocks.
fn made(deposit: &Deposit, domain: &Domain) -> (Vec<u8>, Vec<B256>) {
    let owner = devnet_key("alice").unwrap();
    let mut state = deposit.state(COIN, domain);
    let (mut file, mut roots) =
        (Header { domain: *domain, coin: COIN, deposit: *deposit }.encode(), Vec::new());
    for block in 1..=BLOCKS {
        let transfer =
            (block % REST == 0).then(|| sign(&state, owner.address(), BLOCKS, &owner, domain));
        let others = TRANSFERS - u64::from(transfer.is_some());
        let hash = B256::repeat_byte(block as u8);
        let mut leaves: Vec<Leaf> = (1..=others)
            .map(|i| Leaf { coin: COIN + 1 + other(block * TRANSFERS + i), hash })
            .collect();
        if let Some(transfer) = &transfer {
            leaves.push(Leaf { coin: COIN, hash: transfer.transfer.digest(domain) });
            state = transfer.child_of(&state, block, domain).unwrap();
        }
        leaves.sort_unstable_by_key(Leaf::path);
        roots.push(root_of(&leaves));
        let proof = prove(&leaves, COIN);
        write_shown(&mut file, &CoinProof { transfer, proof }).unwrap();
    }
    (file, roots)
}

/// Seconds to verify the file's blocks above those that `history` has.
fn verify(file: &[u8], roots: &[B256], history: &mut History, newest: BlockNumber) -> f64 {
    let started = Instant::now();
    let mut reader = HistoryFile::open(file).unwrap();
    let root = |block: BlockNumber| roots.get(block as usize - 1).copied();
    reader.follow(history, newest, root, |_| ()).unwrap();
    assert_eq!(history.checked(), newest);
    history.refuse_garbage().unwrap();
    started.elapsed().as_secs_f64()
}

fn print(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let ms = |time: f64| time * 1e3;
    println!(
        "{what}: {:.1} ms median ({:.1} to {:.1}, {RUNS} runs)",
        ms(times[RUNS / 2]),
        ms(times[0]),
        ms(times[RUNS - 1])
    );
}

fn main() {
    let domain = Domain::new(31_337, Address::repeat_byte(0xcc));
    let deposit = Deposit {
        deposit_id: 1,
        first_coin: 1,
        count: 10,
        owner: devnet_key("alice").unwrap().address(),
        asset_kind: asset::ETH,
        token: Address::ZERO,
        token_id: U256::ZERO,
        value: U256::from(1_000),
        deposit_block: 0,
    };
    let (file, roots) = made(&deposit, &domain);
    let new = || History::new(COIN, deposit, domain).unwrap();
    let mut whole = new();
    verify(&file, &roots, &mut whole, BLOCKS);
    assert_eq!(whole.moves().count() as u64, BLOCKS / REST);
    let kept = whole.encode().len();
    println!("{BLOCKS} blocks of {TRANSFERS} transfers: {} bytes, {kept} kept", file.len());
    print("all", (0..RUNS).map(|_| verify(&file, &roots, &mut new(), BLOCKS)).collect());
    let mut before = new();
    verify(&file, &roots, &mut before, BLOCKS - REST);
    let last = |_| verify(&file, &roots, &mut before.clone(), BLOCKS);
    print(&format!("the last {REST}, after the others"), (0..RUNS).map(last).collect());
}
