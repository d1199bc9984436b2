//! What a closing plasma block costs: the root of 1,000,000 transfers, unsorted, with their
//! digests at hand, on one thread and on two; and what serves it: proofs from the archive file.
//! Beside it the rate at which one core checks transfers.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::convert::Infallible;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use plasma_core::archive::{BlockTree, Job, prove};
use plasma_core::domain::Domain;
use plasma_core::keccak::keccak256;
use plasma_core::signature::SigningKey;
use plasma_core::smt::{Hashed, Leaf};
use plasma_core::transfer::Transfer;
use plasma_core::{Address, B256};

const TRANSFERS: u64 = 1_000_000;

fn hash(i: u64) -> B256 {
    keccak256(i.to_be_bytes())
}

fn random_coins() -> Vec<Leaf> {
    let coin = |hash: B256| u64::from_be_bytes(hash[8..16].try_into().unwrap());
    (0..TRANSFERS).map(hash).map(|hash| Leaf { coin: coin(hash), hash }).collect()
}

/// Consecutive ids in the order in which wallets happen to move them.
fn consecutive_coins() -> Vec<Leaf> {
    // 7,919 is coprime to a million: a permutation.
    (0..TRANSFERS).map(|i| Leaf { coin: 1 + i * 7_919 % TRANSFERS, hash: hash(i) }).collect()
}

fn two_threads(jobs: &[Job<'_>]) -> Vec<Hashed> {
    let (first, second) = jobs.split_at(jobs.len() / 2);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| second.iter().map(Job::run).collect::<Vec<_>>());
        let mut all: Vec<Hashed> = first.iter().map(Job::run).collect();
        all.extend(second.join().unwrap());
        all
    })
}

fn roots(c: &mut Criterion) {
    let mut group = c.benchmark_group("root of 1,000,000 transfers");
    group.sample_size(10);
    for (ids, leaves) in [("random", random_coins()), ("consecutive", consecutive_coins())] {
        group.bench_function(format!("{ids} ids, one thread"), |b| {
            b.iter_batched(|| leaves.clone(), BlockTree::build_serial, BatchSize::PerIteration);
        });
        group.bench_function(format!("{ids} ids, two threads"), |b| {
            b.iter_batched(
                || leaves.clone(),
                |leaves| BlockTree::build(leaves, 1, two_threads),
                BatchSize::PerIteration,
            );
        });
    }
}

fn proofs(c: &mut Criterion) {
    let tree = BlockTree::build_serial(random_coins());
    let file = tree.encode(1);
    let read = |offset: u64, length: usize| {
        let offset = offset as usize;
        Ok::<_, Infallible>(file[offset..offset + length].to_vec())
    };
    let mut coins = tree.leaves().iter().map(|leaf| leaf.coin).step_by(997).cycle();
    c.bench_function("inclusion proof of 1,000,000 transfers", |b| {
        b.iter(|| prove(1, coins.next().unwrap(), read).unwrap());
    });
    let mut absent = (1..).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    c.bench_function("exclusion proof of 1,000,000 transfers", |b| {
        b.iter(|| prove(1, absent.next().unwrap(), read).unwrap());
    });
}

fn transfers(c: &mut Criterion) {
    let domain = Domain::new(31_337, Address::repeat_byte(1));
    let key = SigningKey::from_bytes([7; 32]).unwrap();
    let signed: Vec<_> = (1..=1_000)
        .map(|coin| {
            let message = Transfer {
                coin,
                prev_block: 1,
                prev_hash: hash(coin),
                new_owner: Address::repeat_byte(2),
                max_block: 9,
            };
            message.with_signature(key.sign(message.digest(&domain)))
        })
        .collect();
    let mut next = signed.iter().cycle();
    c.bench_function("digest of a transfer and its signer", |b| {
        b.iter(|| {
            let signed = black_box(next.next().unwrap());
            signed.signature.recover(signed.transfer.digest(&domain)).unwrap()
        });
    });
}

criterion_group!(benches, roots, proofs, transfers);
criterion_main!(benches);
