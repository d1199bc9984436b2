//! Pending marks over many Commits, without an application around them.

use std::collections::BTreeMap;
use std::sync::Arc;

use plasma_core::B256;
use plasma_core::code::Code;
use plasma_core::state::Tip;
use plasma_core::transfer::SignedTransfer;
use plasma_ledger::{Executed, Outcome, SerialVerifier, TxResult};
use plasma_pool::{Admission, Pool};
use plasma_testkit::{Committed, Network, Options, bundle, key, sign, single};
use proptest::prelude::*;

/// A pool over a state in which key 1 has twelve coins.
struct Fixture {
    network: Network,
    view: Arc<Committed>,
    pool: Pool,
}

impl Fixture {
    fn new(capacity: usize) -> Self {
        let mut network = Network::start(Options { validators: 1, ..Options::default() });
        network.credit(key(1).address(), 12);
        let view = network.nodes[0].app.committed().unwrap();
        Self { network, view, pool: Pool::new(capacity) }
    }

    fn transfer(&self, coin: u64, to: u64, max_block: u64) -> SignedTransfer {
        let (state, domain) = (self.network.coin(coin), &self.network.domain);
        sign(&state, key(to).address(), max_block, &key(1), domain)
    }

    fn admit(&self, bytes: &[u8]) -> Result<Admission, Code> {
        let view = &*self.view;
        let position = (view.version, view.tip.next_block());
        self.pool.admit(bytes, &view.chain, view, &SerialVerifier, position).unwrap()
    }

    fn recheck(&self, bytes: &[u8]) -> Option<Result<(), Code>> {
        self.pool.recheck(bytes, (self.view.version, self.view.tip.next_block()))
    }

    fn commit(&self, moved: &[u64], frozen: &[u64], gone: &[u64]) {
        let owner = key(1).address();
        let executed = moved
            .iter()
            .map(|coin| Executed { coin: *coin, from: owner, to: owner, hash: B256::ZERO })
            .collect();
        self.pool.commit(&Outcome {
            tip: Tip::default(),
            writes: Vec::new(),
            results: vec![TxResult { data: Vec::new(), executed }],
            leaves: Vec::new(),
            closed: None,
            certified: None,
            deposits: Vec::new(),
            frozen: frozen.to_vec(),
            thawed: Vec::new(),
            gone: gone.iter().map(|coin| (*coin, owner)).collect(),
        });
    }
}

#[test]
fn a_pending_coin_that_moves_freezes_or_goes_ends_its_transaction() {
    let f = Fixture::new(100);
    let txs: Vec<_> = (1..=4).map(|coin| single(&f.transfer(coin, 2, 9))).collect();
    for tx in &txs {
        assert_eq!(f.admit(tx), Ok(Admission { live: 1, count: 1 }));
        assert_eq!(f.admit(tx), Err(Code::AlreadyPending));
    }
    f.commit(&[1], &[2], &[3]);
    let answers: Vec<_> = txs.iter().map(|tx| f.recheck(tx)).collect();
    let dead = [Code::NotOwner, Code::Frozen, Code::Gone].map(|code| Some(Err(code)));
    assert_eq!(answers[..3], dead);
    assert_eq!(answers[3], Some(Ok(())));
    assert_eq!(f.recheck(&txs[0]), None, "what was refused is forgotten");
}

#[test]
fn a_bundle_lives_as_long_as_half_of_it() {
    let f = Fixture::new(100);
    let members: Vec<_> = (1..=5).map(|coin| f.transfer(coin, 2, 9)).collect();
    let tx = bundle(&members);
    assert_eq!(f.admit(&tx), Ok(Admission { live: 5, count: 5 }));
    for (coin, alive) in [(5, true), (1, true), (3, false)] {
        f.commit(&[], &[coin], &[]);
        let expected = if alive { Ok(()) } else { Err(Code::BundleBelowHalf) };
        assert_eq!(f.recheck(&tx), Some(expected), "without coin {coin}");
    }
    // Its other coins are free again.
    assert_eq!(f.admit(&single(&f.transfer(2, 3, 9))), Ok(Admission { live: 1, count: 1 }));
}

#[test]
fn members_that_are_held_elsewhere_are_not_admitted() {
    let f = Fixture::new(100);
    let held = single(&f.transfer(1, 2, 9));
    f.admit(&held).unwrap();
    let mixed = bundle(&[f.transfer(1, 3, 9), f.transfer(2, 3, 9)]);
    assert_eq!(f.admit(&mixed), Ok(Admission { live: 1, count: 2 }));
    assert_eq!(f.admit(&single(&f.transfer(2, 4, 9))), Err(Code::CoinPending));
    assert_eq!(f.admit(&single(&f.transfer(2, 3, 9))), Err(Code::AlreadyPending));
    // The bundle's end frees its own coin and not the one that it never held.
    f.commit(&[], &[2], &[]);
    assert_eq!(f.recheck(&mixed), Some(Err(Code::BundleBelowHalf)));
    assert_eq!(f.recheck(&held), Some(Ok(())));
    assert_eq!(f.admit(&single(&f.transfer(1, 3, 9))), Err(Code::CoinPending));
}

#[test]
fn a_bundle_whose_admitted_members_expired_is_expired() {
    let f = Fixture::new(100);
    let mut dead = f.transfer(2, 3, 1_000);
    dead.transfer.new_owner = key(4).address();
    let tx = bundle(&[f.transfer(1, 3, 1), dead]);
    assert_eq!(f.admit(&tx), Ok(Admission { live: 1, count: 2 }));
    assert_eq!(f.pool.recheck(&tx, (f.view.version, 1)), Some(Ok(())));
    assert_eq!(f.pool.recheck(&tx, (f.view.version, 2)), Some(Err(Code::Expired)));
}

#[test]
fn what_misses_a_round_of_rechecks_is_forgotten() {
    let f = Fixture::new(4);
    let txs: Vec<_> = (1..=2).map(|coin| single(&f.transfer(coin, 2, 9))).collect();
    f.admit(&txs[0]).unwrap();
    f.commit(&[], &[], &[]);
    // Dropped silently: another transfer of the coin may come.
    let other = single(&f.transfer(1, 3, 9));
    f.admit(&other).unwrap();
    assert_eq!(f.recheck(&txs[0]), Some(Err(Code::CoinPending)), "it was not dropped after all");
    f.admit(&txs[1]).unwrap();
    f.commit(&[], &[], &[]);
    assert_eq!(f.recheck(&other), Some(Ok(())));
    f.commit(&[], &[], &[]);
    assert_eq!(f.recheck(&txs[1]), None);
    assert_eq!(f.recheck(&other), Some(Ok(())));
    // Its place in the pool is free too: a pool of four takes two coins that have not rested.
    assert_eq!(f.admit(&txs[1]), Ok(Admission { live: 1, count: 1 }));
    assert_eq!(f.admit(&single(&f.transfer(3, 2, 9))), Err(Code::NotRested));
}

/// What may happen to a pool.
#[derive(Debug, Clone)]
enum Op {
    Admit { coin: u64, to: u64 },
    Bundle { first: u64, count: u64, to: u64 },
    Recheck(usize),
    Commit { moved: Option<u64> },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (1..7u64, 2..5u64).prop_map(|(coin, to)| Op::Admit { coin, to }),
        2 => (1..5u64, 1..4u64, 2..5u64)
            .prop_map(|(first, count, to)| Op::Bundle { first, count, to }),
        4 => (0..16usize).prop_map(Op::Recheck),
        2 => prop::option::of(1..7u64).prop_map(|moved| Op::Commit { moved }),
    ];
    prop::collection::vec(op, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Of the transactions that were admitted or rechecked since the last Commit, at most one may
    /// move a coin as a single; and the pool never panics or miscounts.
    #[test]
    fn a_coin_has_one_pending_single(ops in ops()) {
        let f = Fixture::new(1_000);
        let mut known: Vec<(Vec<u8>, Option<u64>)> = Vec::new();
        let mut holders: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for op in ops {
            let (bytes, coin, accepted) = match op {
                Op::Admit { coin, to } => {
                    let bytes = single(&f.transfer(coin, to, 9));
                    let accepted = f.admit(&bytes).is_ok();
                    (bytes, Some(coin), accepted)
                }
                Op::Bundle { first, count, to } => {
                    let members: Vec<_> =
                        (first..first + count).map(|coin| f.transfer(coin, to, 9)).collect();
                    let bytes = bundle(&members);
                    let accepted = f.admit(&bytes).is_ok();
                    (bytes, None, accepted)
                }
                Op::Recheck(i) if !known.is_empty() => {
                    let (bytes, coin) = known[i % known.len()].clone();
                    let accepted = f.recheck(&bytes) == Some(Ok(()));
                    (bytes, coin, accepted)
                }
                Op::Recheck(_) => continue,
                Op::Commit { moved } => {
                    f.commit(moved.as_slice(), &[], &[]);
                    holders.clear();
                    continue;
                }
            };
            if accepted && let Some(coin) = coin {
                let holder = holders.entry(coin).or_insert_with(|| bytes.clone());
                prop_assert_eq!(&*holder, &bytes, "coin {} is pending twice", coin);
            }
            known.push((bytes, coin));
        }
        // Left alone, everything goes: the pool is empty again.
        f.commit(&[], &[], &[]);
        f.commit(&[], &[], &[]);
        for (bytes, _) in &known {
            prop_assert_eq!(f.recheck(bytes), None);
        }
        let all: Vec<_> = (1..=12).map(|coin| f.transfer(coin, 5, 9)).collect();
        prop_assert_eq!(f.admit(&bundle(&all)), Ok(Admission { live: 12, count: 12 }));
    }
}
