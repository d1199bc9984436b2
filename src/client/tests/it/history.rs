//! What a receiver must notice in a coin's history.

use plasma_client::challenge::Inclusion;
use plasma_client::history::{History, HistoryError, Step};
use plasma_client::queries::CoinProof;
use plasma_core::coin::{CoinState, Deposit};
use plasma_core::domain::Domain;
use plasma_core::signature::Signature;
use plasma_core::smt::ProofError;
use plasma_core::transfer::ChildError;
use plasma_core::wire::{WireError, put_varint};
use plasma_core::{Address, B256, BlockNumber};

use crate::chain::{COIN, Chain, DEPOSIT_BLOCK, address, deposit, domain, good, pay, start};

fn fresh() -> History {
    History::new(COIN, deposit(), domain()).unwrap()
}

/// Checks every block of the chain as a receiver does.
fn check(chain: &Chain) -> Result<History, HistoryError> {
    let mut history = fresh();
    for (block, shown) in &chain.proofs {
        assert_eq!(*block, history.checked() + 1);
        let _ = history.extend(chain.root(*block), shown)?;
        history.refuse_garbage()?;
    }
    Ok(history)
}

fn moved(history: &History) -> Vec<BlockNumber> {
    history.moves().map(|shown| shown.block).collect()
}

/// The state after a transfer that alice signs over to bob in block 3.
fn after_first(chain: &mut Chain) -> CoinState {
    let transfer = pay(&start(), "alice", "bob", 10);
    let block = chain.block(Some(transfer));
    transfer.child_of(&start(), block, &domain()).unwrap()
}

fn inclusion(chain: &Chain, block: BlockNumber) -> Inclusion {
    let CoinProof { transfer, proof } = chain.proofs[&block].clone();
    Inclusion { block, transfer: transfer.unwrap(), proof }
}

#[test]
fn a_good_history_ends_in_the_last_owner() {
    let (chain, state) = good();
    let history = check(&chain).unwrap();
    assert_eq!((history.checked(), history.state()), (6, state));
    assert_eq!((moved(&history), state.owner), (vec![4, 6], address("carol")));
    let (claimed, pair) = history.claim();
    let (parent, transfer) = pair.unwrap();
    assert_eq!(
        (claimed, parent, transfer),
        (state, Some(inclusion(&chain, 4)), inclusion(&chain, 6))
    );
    assert_eq!(fresh().claim(), (start(), None));
}

#[test]
fn a_coin_has_its_own_deposit() {
    let other = Deposit { first_coin: COIN + 1, ..deposit() };
    let found = History::new(COIN, other, domain());
    assert!(matches!(found, Err(HistoryError::WrongDeposit { coin: 7, deposit_id: 3 })));
}

#[test]
fn a_missing_root_and_a_wrong_one_are_named() {
    for wrong in 3..=6 {
        let (mut chain, _) = good();
        chain.roots.insert(wrong, B256::repeat_byte(9));
        let found = check(&chain);
        let expected = B256::repeat_byte(9);
        assert!(
            matches!(found, Err(HistoryError::Proof {
                block, source: ProofError::Root { expected: root, .. }
            }) if block == wrong && root == expected),
            "{found:?}"
        );
        chain.roots.remove(&wrong);
        let found = check(&chain);
        assert!(matches!(found, Err(HistoryError::NoRoot(n)) if n == wrong), "{found:?}");
    }
}

#[test]
fn a_hidden_transfer_is_found() {
    // The node says of block 4, in which the coin moved, that it did not move.
    let (mut chain, _) = good();
    chain.proofs.get_mut(&4).unwrap().transfer = None;
    let found = check(&chain);
    assert!(
        matches!(found, Err(HistoryError::Proof { block: 4, source: ProofError::Kind })),
        "{found:?}"
    );
    // And that by another block's proof of exclusion.
    chain.proofs.insert(4, chain.proofs[&5].clone());
    let found = check(&chain);
    assert!(
        matches!(found, Err(HistoryError::Proof { block: 4, source: ProofError::Root { .. } })),
        "{found:?}"
    );
}

#[test]
fn every_tampered_byte_is_noticed() {
    let (chain, _) = good();
    let bytes = chain.proofs[&4].encode();
    for at in 0..bytes.len() {
        let mut tampered = bytes.clone();
        tampered[at] ^= 1;
        let Ok(shown) = CoinProof::decode(&tampered) else { continue };
        let mut history = fresh();
        assert_eq!(history.extend(chain.root(3), &chain.proofs[&3]).unwrap(), Step::Absent);
        let before = history.clone();
        match history.extend(chain.root(4), &shown) {
            // The leaf does not commit to the signature.
            Ok(step) => assert_eq!(step, Step::Garbage(ChildError::BadSignature), "byte {at}"),
            Err(_) => assert_eq!(history, before, "byte {at}: a refused block changed it"),
        }
    }
}

#[test]
fn garbage_is_refused_at_its_block() {
    let mallory = pay(&start(), "mallory", "mallory", 10);
    let mut elsewhere = start();
    elsewhere.hash = B256::repeat_byte(1);
    let unknown_parent = pay(&elsewhere, "alice", "mallory", 10);
    let mut other_coin = start();
    other_coin.coin = COIN + 1;
    let other_coin = pay(&other_coin, "alice", "bob", 10);
    let expired = pay(&start(), "alice", "bob", 2);
    let mut burnt = pay(&start(), "alice", "bob", 10);
    burnt.transfer.new_owner = Address::ZERO;
    for (transfer, expected) in [
        (mallory, ChildError::BadSignature),
        (unknown_parent, ChildError::NotChild),
        (other_coin, ChildError::WrongCoin { expected: COIN, found: COIN + 1 }),
        (expired, ChildError::Expired { block: 3, max_block: 2 }),
        (burnt, ChildError::NotChild),
    ] {
        let mut chain = Chain::default();
        chain.block(Some(transfer));
        match check(&chain) {
            Err(HistoryError::Garbage { block: 3, source }) => assert_eq!(source, expected),
            other => panic!("{other:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn a_replayed_transfer_is_garbage() {
    let mut chain = Chain::default();
    let state = after_first(&mut chain);
    // Bob pays alice, so that she owns the coin again; the first transfer must not count twice.
    let back = pay(&state, "bob", "alice", 10);
    chain.block(Some(back));
    chain.block(chain.proofs[&3].transfer);
    let found = check(&chain);
    assert!(
        matches!(found, Err(HistoryError::Garbage { block: 5, source: ChildError::NotChild })),
        "{found:?}"
    );
}

#[test]
fn a_foreign_chain_proves_nothing() {
    let (chain, _) = good();
    let mut history = History::new(COIN, deposit(), Domain::new(1, domain().root_chain)).unwrap();
    assert_eq!(history.extend(chain.root(3), &chain.proofs[&3]).unwrap(), Step::Absent);
    let found = history.extend(chain.root(4), &chain.proofs[&4]);
    assert!(matches!(found, Err(HistoryError::Proof { block: 4, .. })), "{found:?}");
}

#[test]
fn a_watcher_goes_on_after_garbage() {
    let mut chain = Chain::default();
    chain.block(Some(pay(&start(), "mallory", "mallory", 10)));
    let first = pay(&start(), "alice", "bob", 10);
    let block = chain.block(Some(first));
    let mut history = fresh();
    let garbage = Step::Garbage(ChildError::BadSignature);
    assert_eq!(history.extend(chain.root(3), &chain.proofs[&3]).unwrap(), garbage);
    assert_eq!(history.state(), start());
    assert_eq!(history.extend(chain.root(4), &chain.proofs[&4]).unwrap(), Step::Moved);
    assert_eq!(history.state(), first.child_of(&start(), block, &domain()).unwrap());
    assert_eq!(history.garbage(), Some((3, ChildError::BadSignature)));
    assert_eq!((history.included().len(), moved(&history)), (2, vec![4]));
    assert_eq!(History::decode(&history.encode()).unwrap(), history);
}

#[test]
fn a_bad_signature_does_not_hide_a_good_one() {
    let (chain, state) = good();
    let mut history = fresh();
    for block in 3..=6 {
        let mut shown = chain.proofs[&block].clone();
        if block == 4 {
            shown.transfer.as_mut().unwrap().signature = Signature([1; 64]);
        }
        let _ = history.extend(chain.root(block), &shown).unwrap();
    }
    assert_eq!(history.garbage(), Some((4, ChildError::BadSignature)));
    assert_eq!((history.state(), moved(&history)), (start(), vec![]));
    // The second transfer spends the first: it counts again with it.
    let learned = history.learn(chain.root(4).unwrap(), inclusion(&chain, 4)).unwrap();
    assert_eq!((learned, history.garbage()), (Step::Moved, None));
    assert_eq!((history.state(), moved(&history)), (state, vec![4, 6]));
    // And a bad showing of what is known changes nothing.
    let mut bad = inclusion(&chain, 4);
    bad.transfer.signature = Signature::ZERO;
    assert_eq!(history.learn(chain.root(4).unwrap(), bad).unwrap(), Step::Moved);
    assert_eq!(history, check(&chain).unwrap());
}

#[test]
fn what_others_show_of_a_withheld_block_is_kept() {
    let (chain, state) = good();
    let mut history = fresh();
    let _ = history.extend(chain.root(3), &chain.proofs[&3]).unwrap();
    let second = history.learn(chain.root(6).unwrap(), inclusion(&chain, 6)).unwrap();
    assert_eq!(second, Step::Garbage(ChildError::NotChild), "its parent is not known yet");
    assert_eq!(history.learn(chain.root(4).unwrap(), inclusion(&chain, 4)).unwrap(), Step::Moved);
    assert_eq!((history.state(), history.checked(), history.garbage()), (start(), 3, None));
    assert_eq!(history.claim().0, state);
    assert_eq!(History::decode(&history.encode()).unwrap(), history);
    // Proofs of other blocks, other coins, and of the time before the deposit are refused.
    let found = history.learn(chain.root(5).unwrap(), inclusion(&chain, 4));
    assert!(matches!(found, Err(HistoryError::Proof { block: 4, .. })), "{found:?}");
    let early = Inclusion { block: DEPOSIT_BLOCK, ..inclusion(&chain, 4) };
    let found = history.learn(chain.root(4).unwrap(), early);
    assert!(matches!(found, Err(HistoryError::Garbage { block: 2, .. })), "{found:?}");
    for block in 4..=6 {
        let _ = history.extend(chain.root(block), &chain.proofs[&block]).unwrap();
    }
    assert_eq!(history, check(&chain).unwrap());
}

#[test]
fn there_is_no_block_above_the_last_number() {
    let (chain, _) = good();
    let last = Deposit { deposit_block: u64::MAX, ..deposit() };
    let mut history = History::new(COIN, last, domain()).unwrap();
    let found = history.extend(None, &chain.proofs[&3]);
    assert!(matches!(found, Err(HistoryError::NoRoot(u64::MAX))), "{found:?}");
}

#[test]
fn stored_histories_round_trip_and_refuse_damage() {
    let (chain, _) = good();
    let history = check(&chain).unwrap();
    let bytes = history.encode();
    assert_eq!(History::decode(&bytes).unwrap(), history);
    for length in 0..bytes.len() {
        assert!(History::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    assert!(History::decode(&[&bytes[..], &[0]].concat()).is_err());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            // Whatever it reads, it does not panic.
            let _ = History::decode(&damaged);
        }
    }
    let version = WireError::Value { what: "a history's version", value: 2 };
    assert_eq!(History::decode(&[&[2], &bytes[1..]].concat()), Err(version));
    // 2^64 - 1 inclusions, and none of them there.
    let mut many = fresh().encode();
    many.pop();
    put_varint(&mut many, u64::MAX);
    assert!(matches!(History::decode(&many), Err(WireError::Short { .. })));
}
