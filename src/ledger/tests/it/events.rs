//! Observed events: which are applied, which are ignored, which make a proposal invalid.

use plasma_core::Address;
use plasma_core::coin::Deposit;
use plasma_core::event::RootEvent;
use plasma_core::proposal::Proposal;
use plasma_ledger::Refusal;
use plasma_testkit::key;

use crate::state::{LIMITS, Ledger};

#[test]
fn an_event_that_makes_no_sense_is_counted_and_ignored() {
    let mut ledger = Ledger::new(LIMITS);
    let good = ledger.deposit(key(1).address(), 2);
    let encode = |d: Deposit| RootEvent::Deposited(d).encode();
    let mut padded = encode(good);
    padded[64] = 1;
    let nonsense = [
        vec![],
        vec![0; 64],
        encode(good)[..288].to_vec(),
        [encode(good), vec![0; 32]].concat(),
        padded,
        encode(Deposit { deposit_id: 2, ..good }),
        encode(Deposit { deposit_id: 0, ..good }),
        encode(Deposit { first_coin: 2, ..good }),
        encode(Deposit { count: 0, ..good }),
        encode(Deposit { count: 1_001, ..good }),
        RootEvent::ExitStarted(1).encode(),
        RootEvent::Thawed(0).encode(),
        RootEvent::ExitFinalized(u64::MAX).encode(),
        vec![9; 1_024],
    ];
    let proposal = ledger.observed(&nonsense, [nonsense.len(); 3]);
    let outcome = ledger.run(proposal, &[]);
    assert_eq!(outcome.writes.len(), 1, "only the tip is written");
    let (tip, count) = (ledger.tip(), nonsense.len() as u64);
    assert_eq!((tip.ignored, tip.event_count, tip.last_coin), (count, count, 0));
    // The good one follows as if nothing had been.
    ledger.run(ledger.events(&[RootEvent::Deposited(good), RootEvent::ExitFinalized(2)]), &[]);
    assert_eq!((ledger.tip().ignored, ledger.tip().last_coin), (count, 2));
    // Nothing happens to a coin that is gone, and a deposit comes once.
    let late = [
        RootEvent::ExitStarted(2),
        RootEvent::Thawed(2),
        RootEvent::ExitFinalized(2),
        RootEvent::ExitStarted(3),
        RootEvent::Deposited(good),
    ];
    let outcome = ledger.run(ledger.events(&late), &[]);
    assert_eq!(outcome.writes.len(), 1);
    assert_eq!(ledger.tip().ignored, count + 5);
}

#[test]
fn freezing_twice_and_thawing_the_thawed_change_nothing() {
    let mut ledger = Ledger::new(LIMITS);
    ledger.credit(1, 3);
    let started = [RootEvent::ExitStarted(1), RootEvent::ExitStarted(1), RootEvent::Thawed(2)];
    let outcome = ledger.run(ledger.events(&started), &[]);
    assert_eq!((outcome.frozen, outcome.thawed), (vec![1], vec![]));
    assert_eq!((outcome.writes.len(), ledger.tip().ignored), (2, 0));
    // In one height: a coin frozen and thawed is as before.
    let outcome = ledger.run(ledger.events(&[RootEvent::Thawed(1)]), &[]);
    assert_eq!(outcome.thawed, [1]);
    assert_eq!(ledger.coin(1).owner, key(1).address());
}

#[test]
fn an_unusable_deposit_owner_is_the_contracts_business() {
    // The contract refuses it; the ledger would only make coins that nobody can move.
    let mut ledger = Ledger::new(LIMITS);
    let deposit = ledger.deposit(Address::ZERO, 1);
    ledger.run(ledger.events(&[RootEvent::Deposited(deposit)]), &[]);
    assert_eq!(ledger.coin(1).owner, Address::ZERO);
}

#[test]
fn the_cursor_follows_more_than_two_thirds() {
    // Powers 4, 3, 2 of 9: 7 and 9 are more than two thirds, 6 is exactly that, 5 and 4 less.
    let cases = [
        ([4, 4, 4], Some(4)),
        ([4, 3, 0], Some(3)),
        ([1, 4, 0], Some(1)),
        ([4, 2, 3], Some(2)),
        ([3, 1, 4], Some(1)),
        ([4, 0, 4], None),
        ([4, 0, 0], None),
        ([0, 4, 4], None),
    ];
    for (counts, cursor) in cases {
        let mut ledger = Ledger::new(LIMITS);
        let highest = *counts.iter().max().unwrap();
        let events: Vec<_> = (1..=highest as u64)
            .map(|_| RootEvent::Deposited(ledger.deposit(key(1).address(), 1)).encode())
            .collect();
        let proposal = ledger.observed(&events, counts);
        match (cursor, ledger.judge(&proposal, &[])) {
            (Some(cursor), Ok(outcome)) => {
                assert_eq!((outcome.tip.event_count, outcome.tip.last_coin), (cursor, cursor));
            }
            (None, Err(Refusal::CursorStays { cursor: 0 })) => {}
            (_, other) => panic!("{counts:?}: {other:?}"),
        }
    }
}

#[test]
fn observations_must_be_signed_in_range_and_complete() {
    let mut ledger = Ledger::new(LIMITS);
    let events: Vec<_> = (1..=1_000u64)
        .map(|_| RootEvent::Deposited(ledger.deposit(key(1).address(), 1)).encode())
        .collect();
    let good = ledger.observed(&events, [1_000; 3]);
    assert_eq!(ledger.judge(&good, &[]).unwrap().tip.last_coin, 1_000);
    let refuse = |change: &dyn Fn(&mut Proposal)| {
        let mut proposal = good.clone();
        change(&mut proposal);
        ledger.judge(&proposal, &[]).unwrap_err()
    };
    let beyond = refuse(&|p| p.observations[2].event_count = 1_001);
    assert!(matches!(beyond, Refusal::ObservationRange { validator: 2, count: 1_001, cursor: 0 }));
    let nothing = refuse(&|p| p.observations[0].event_count = 0);
    assert!(matches!(nothing, Refusal::ObservationRange { validator: 0, count: 0, .. }));
    let another = refuse(&|p| p.observations[1].signature = p.observations[0].signature);
    assert!(matches!(another, Refusal::Observation { validator: 1, .. }));
    let earlier = refuse(&|p| p.observations[1].event_count = 999);
    assert!(matches!(earlier, Refusal::Observation { validator: 1, count: 999 }));
    let unasked = refuse(&|p| p.observations.clear());
    assert!(matches!(unasked, Refusal::EventCount { found: 1_000, expected: 0 }));
    let missing = refuse(&|p| p.events.truncate(999));
    assert!(matches!(missing, Refusal::EventCount { found: 999, expected: 1_000 }));
    // Structure: ascending validators, known ones, at most 1,024 bytes and 1,000 events.
    let structure: [&dyn Fn(&mut Proposal); 5] = [
        &|p| p.observations.swap(0, 1),
        &|p| p.observations[1].validator = 0,
        &|p| p.observations[2].validator = 3,
        &|p| p.events[0] = vec![0; 1_025],
        &|p| p.events.push(vec![0; 64]),
    ];
    for (i, change) in structure.into_iter().enumerate() {
        assert!(matches!(refuse(change), Refusal::Proposal(_)), "change {i}");
    }
}
