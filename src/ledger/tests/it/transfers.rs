//! Transfers and bundles: the order of the codes, what a bundle does, when a block closes.

use plasma_core::B256;
use plasma_core::code::Code;
use plasma_core::event::RootEvent;
use plasma_core::proposal::Proposal;
use plasma_core::signature::Signature;
use plasma_core::state::Params;
use plasma_core::transfer::SignedTransfer;
use plasma_core::tx::Tx;
use plasma_ledger::{Refusal, TxVerdict};
use plasma_testkit::{bundle, key, sign, single};

use crate::state::{LIMITS, Ledger};

fn code(ledger: &Ledger, transfer: &SignedTransfer) -> Option<Code> {
    match ledger.judge(&Proposal::default(), &[single(transfer)]) {
        Ok(_) => None,
        Err(Refusal::Transfer { index: 1, code }) => Some(code),
        Err(other) => panic!("{other}"),
    }
}

/// Ten coins of key 1, of which 8 is frozen, 9 gone and 10 moved in the open block 1.
fn mixed() -> Ledger {
    let mut ledger = Ledger::new(Params { max_heights: 10, ..LIMITS });
    ledger.credit(1, 10);
    let exits = [RootEvent::ExitStarted(8), RootEvent::ExitStarted(9), RootEvent::ExitFinalized(9)];
    let tx = single(&ledger.transfer(10, 1, 2));
    ledger.run(ledger.events(&exits), &[tx]);
    ledger
}

#[test]
fn a_transfer_that_breaks_several_rules_names_the_first() {
    let ledger = mixed();
    let domain = ledger.chain.domain;
    let zero = Signature::ZERO;
    // Everything is wrong from the given rule on.
    let all_wrong = |coin| {
        let mut t = ledger.transfer(1, 1, 2);
        t.transfer.coin = coin;
        t.transfer.max_block = 0;
        t.transfer.new_owner = domain.root_chain;
        t.signature = zero;
        t
    };
    for unknown in [0, 11, u64::MAX] {
        assert_eq!(code(&ledger, &all_wrong(unknown)), Some(Code::UnknownCoin));
    }
    assert_eq!(code(&ledger, &all_wrong(9)), Some(Code::Gone));
    assert_eq!(code(&ledger, &all_wrong(8)), Some(Code::Frozen));
    assert_eq!(code(&ledger, &all_wrong(10)), Some(Code::MovedInOpenBlock));
    assert_eq!(code(&ledger, &all_wrong(1)), Some(Code::Expired));
    let mut bad = all_wrong(1);
    bad.transfer.max_block = 1;
    assert_eq!(code(&ledger, &bad), Some(Code::BadNewOwner));
    bad.transfer.new_owner = plasma_core::Address::ZERO;
    assert_eq!(code(&ledger, &bad), Some(Code::BadNewOwner));
    bad.transfer.new_owner = key(2).address();
    assert_eq!(code(&ledger, &bad), Some(Code::NotOwner));
    let foreign = plasma_core::domain::Domain::new(2, domain.root_chain);
    let foreign = sign(&ledger.coin(1), key(2).address(), 9, &key(1), &foreign);
    assert_eq!(code(&ledger, &foreign), Some(Code::NotOwner));
    let last = sign(&ledger.coin(1), key(2).address(), 1, &key(1), &domain);
    assert_eq!(code(&ledger, &last), None, "valid in the open block, the last it names");
}

#[test]
fn every_changed_byte_of_a_transfer_is_refused() {
    let ledger = mixed();
    let good = single(&ledger.transfer(1, 1, 2));
    assert!(ledger.judge(&Proposal::default(), std::slice::from_ref(&good)).is_ok());
    for at in 0..good.len() {
        for bit in [0x01, 0x80] {
            let mut bad = good.clone();
            bad[at] ^= bit;
            let judged = ledger.judge(&Proposal::default(), &[bad]);
            assert!(judged.is_err(), "byte {at} xor {bit}");
        }
    }
}

#[test]
fn a_bundle_skips_its_dead_members_unless_they_are_more_than_half() {
    let mut ledger = mixed();
    let good = |coin| ledger.transfer(coin, 1, 2);
    let dead = |coin| ledger.transfer(coin, 5, 2);
    let below = bundle(&[good(1), dead(2), dead(8)]);
    match ledger.judge(&Proposal::default(), &[below]) {
        Err(Refusal::Bundle { index: 1, executed: 1, count: 3 }) => {}
        other => panic!("{other:?}"),
    }
    let mut members: Vec<_> = (1..=5).map(good).collect();
    members.extend([6, 7, 8, 9, 10].map(dead));
    let outcome = ledger.run(Proposal::default(), &[bundle(&members)]);
    assert_eq!(outcome.results[1].data, [0b0001_1111, 0]);
    let moved: Vec<u64> = outcome.results[1].executed.iter().map(|e| e.coin).collect();
    assert_eq!(moved, [1, 2, 3, 4, 5]);
    assert_eq!(ledger.tip().open_count, 6);
    for coin in 1..=10 {
        let owner = if coin <= 5 || coin == 10 { key(2) } else { key(1) };
        assert_eq!(ledger.coin(coin).owner, owner.address());
    }
    let whole = ledger.run(Proposal::default(), &[bundle(&[ledger.transfer(6, 1, 2)])]);
    assert!(whole.results[1].data.is_empty());
}

#[test]
fn a_refused_transaction_changes_nothing() {
    let ledger = mixed();
    let mut execution = ledger.execution();
    let decode = |bytes: Vec<u8>| Tx::decode(&bytes).unwrap();
    let good = decode(single(&ledger.transfer(1, 1, 2)));
    let bad = decode(bundle(&[
        ledger.transfer(1, 1, 3),
        ledger.transfer(2, 5, 3),
        ledger.transfer(3, 5, 3),
    ]));
    assert_eq!(execution.tx(&bad).unwrap(), TxVerdict::Bundle { executed: 1, count: 3 });
    assert!(matches!(execution.tx(&good).unwrap(), TxVerdict::Done(_)));
    assert_eq!(execution.tx(&good).unwrap(), TxVerdict::Transfer(Code::MovedInOpenBlock));
    let outcome = execution.finish(&[], &plasma_ledger::SerialHasher, Vec::new()).unwrap();
    assert_eq!(outcome.leaves.len(), 1);
    assert_eq!(outcome.tip.open_count, 2);
}

#[test]
fn skipped_members_count_against_the_heights_limit() {
    let mut ledger = Ledger::new(Params { max_height_transfers: 4, ..LIMITS });
    ledger.credit(1, 9);
    let half = |a, b| bundle(&[ledger.transfer(a, 1, 2), ledger.transfer(b, 5, 2)]);
    let single = single(&ledger.transfer(5, 1, 2));
    assert!(ledger.judge(&Proposal::default(), &[half(1, 2), half(3, 4)]).is_ok());
    let over = ledger.judge(&Proposal::default(), &[half(1, 2), half(3, 4), single]);
    assert!(matches!(over, Err(Refusal::TooManyTransfers { max: 4 })));
}

#[test]
fn a_block_closes_by_age_or_by_count_and_only_then() {
    let mut ledger = Ledger::new(Params { max_heights: 3, max_transfers: 4, ..LIMITS });
    ledger.credit(1, 20);
    for _ in 0..5 {
        ledger.run(Proposal::default(), &[]);
        assert_eq!((ledger.tip().open, ledger.tip().last_closed), (0, 0), "nothing opens");
    }
    let opened_at = ledger.tip().height + 1;
    let txs = [single(&ledger.transfer(1, 1, 2))];
    assert!(ledger.run(Proposal::default(), &txs).closed.is_none());
    let tip = ledger.tip();
    assert_eq!((tip.open, tip.opened_at, tip.open_count), (1, opened_at, 1));
    assert!(ledger.run(Proposal::default(), &[]).closed.is_none());
    let early = Proposal { closing: Some((1, B256::ZERO)), ..Proposal::default() };
    let unclosed = ledger.judge(&Proposal::default(), &[]);
    assert!(matches!(unclosed, Err(Refusal::Closing { found: None, expected: Some(1) })));
    let closed = ledger.run(Proposal::default(), &[]).closed.unwrap();
    assert_eq!((closed.0, closed.1.height), (1, opened_at + 2));
    let too_early = ledger.judge(&early, &[]);
    assert!(matches!(too_early, Err(Refusal::Closing { found: Some(1), expected: None })));

    let four: Vec<_> = (2..=5).map(|coin| ledger.transfer(coin, 1, 2)).collect();
    let closed = ledger.run(Proposal::default(), &[bundle(&four)]).closed.unwrap();
    assert_eq!((closed.0, closed.2.leaves().len()), (2, 4), "full in its first height");
    let three: Vec<_> = (2..=4).map(|coin| ledger.transfer(coin, 2, 1)).collect();
    assert!(ledger.run(Proposal::default(), &[bundle(&three)]).closed.is_none());
    let rest: Vec<_> = (5..=9).map(|c| ledger.transfer(c, if c == 5 { 2 } else { 1 }, 3)).collect();
    let closed = ledger.run(Proposal::default(), &[bundle(&rest)]).closed.unwrap();
    assert_eq!((closed.0, closed.2.leaves().len()), (3, 8), "one height may overshoot");
}

#[test]
fn old_bytes_do_not_move_a_coin_that_came_back() {
    let mut ledger = Ledger::new(Params { max_heights: 1, ..LIMITS });
    ledger.credit(1, 2);
    let first = ledger.transfer(1, 1, 2);
    ledger.run(Proposal::default(), &[single(&first)]);
    let back = ledger.transfer(1, 2, 1);
    ledger.run(Proposal::default(), &[single(&back)]);
    assert_eq!(ledger.coin(1).owner, key(1).address());
    assert_eq!(code(&ledger, &first), Some(Code::NotOwner));
    let half = bundle(&[first, ledger.transfer(2, 1, 2)]);
    let outcome = ledger.run(Proposal::default(), &[half]);
    assert_eq!(outcome.results[1].data, [0b10]);
    assert_eq!(ledger.coin(1).owner, key(1).address());
}

#[test]
fn the_proposal_comes_first_and_only_once() {
    let ledger = mixed();
    let proposal = Proposal::default().encode();
    let second = ledger.judge(&Proposal::default(), std::slice::from_ref(&proposal));
    assert!(matches!(second, Err(Refusal::Tx { index: 1, .. })));
    let (verifier, hasher) = (&plasma_ledger::SerialVerifier, &plasma_ledger::SerialHasher);
    let height = ledger.tip().height + 1;
    let run = |height, block: &[Vec<u8>]| {
        plasma_ledger::execute(&ledger.chain, &ledger.view, verifier, hasher, height, block, &[])
    };
    assert!(matches!(run(height, &[]), Err(Refusal::NoProposal)));
    let transfer = single(&ledger.transfer(1, 1, 2));
    assert!(matches!(run(height, &[transfer]), Err(Refusal::Proposal(_))));
    for wrong in [0, height - 1, height + 1, u64::MAX] {
        let refused = run(wrong, std::slice::from_ref(&proposal));
        assert!(matches!(refused, Err(Refusal::Height { .. })));
    }
}
