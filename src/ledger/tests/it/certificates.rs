//! Certificates: which are accepted and which the state keeps.

use plasma_core::certificate::WINDOW;
use plasma_core::proposal::Proposal;
use plasma_core::state::{Params, certificate_key};
use plasma_core::tx::Tx;
use plasma_ledger::Refusal;

use crate::state::{LIMITS, Ledger};

/// A chain that has closed `blocks` blocks, one a height, by passing one coin to and fro.
fn closed(blocks: u64) -> Ledger {
    let mut ledger = Ledger::new(Params { max_heights: 1, ..LIMITS });
    ledger.credit(1, 1);
    grow(&mut ledger, blocks);
    ledger
}

fn grow(ledger: &mut Ledger, blocks: u64) {
    for _ in 0..blocks {
        let n = ledger.tip().last_closed;
        let transfer = ledger.transfer(1, 1 + n % 2, 1 + (n + 1) % 2);
        ledger.run(Proposal::default(), &[Tx::Transfer(transfer.wire()).encode()]);
        assert_eq!(ledger.tip().last_closed, n + 1);
    }
}

fn certified(ledger: &Ledger, number: u64, signers: &[usize]) -> Proposal {
    let certificate = Some(ledger.certificate(number, signers));
    Proposal { certificate, ..Proposal::default() }
}

#[test]
fn the_reach_is_256_blocks_above_the_last_certified() {
    let mut ledger = closed(258);
    let all = [0, 1, 2];
    let refused = ledger.judge(&certified(&ledger, 257, &all), &[]);
    let expected = Refusal::CertificateNumber { number: 257, last: 0, closed: 258 };
    assert_eq!(refused.unwrap_err().to_string(), expected.to_string());
    ledger.run(certified(&ledger, 256, &all), &[]);
    for number in [1, 255, 256] {
        let refused = ledger.judge(&certified(&ledger, number, &all), &[]);
        assert!(matches!(refused, Err(Refusal::CertificateNumber { last: 256, .. })));
    }
    ledger.run(certified(&ledger, 258, &all), &[]);
    assert_eq!(ledger.tip().last_certified, 258);
}

#[test]
fn a_certificate_needs_more_than_two_thirds_of_the_power() {
    let ledger = closed(2);
    // Powers 4, 3, 2: the first and the last have exactly two thirds.
    for (signers, passes) in
        [(&[0, 1, 2][..], true), (&[0, 1], true), (&[0, 2], false), (&[1, 2], false), (&[], false)]
    {
        let judged = ledger.judge(&certified(&ledger, 2, signers), &[]);
        assert_eq!(judged.is_ok(), passes, "{signers:?}");
        if let Err(refusal) = judged {
            assert!(matches!(refusal, Refusal::Certificate { number: 2, .. }));
        }
    }
    // Another block's signatures.
    let mut forged = certified(&ledger, 1, &[0, 1]);
    forged.certificate.as_mut().unwrap().number = 2;
    assert!(matches!(ledger.judge(&forged, &[]), Err(Refusal::Certificate { .. })));
}

#[test]
fn the_highest_of_each_window_and_the_newest_are_kept() {
    let mut ledger = closed(0);
    let mut given = Vec::new();
    // Ends of windows, first of the next, and steps of up to the whole reach.
    for number in [1, 5, 200, 255, 256, 257, 300, 512, 513, 769, 1_020, 1_025] {
        let missing = number - ledger.tip().last_closed.min(number);
        grow(&mut ledger, missing);
        ledger.run(certified(&ledger, number, &[0, 1]), &[]);
        given.push(number);
        let mut expected = Vec::new();
        for number in &given {
            expected.retain(|kept: &u64| (kept - 1) / WINDOW != (number - 1) / WINDOW);
            expected.push(*number);
        }
        let kept: Vec<u64> = (1..=number)
            .filter(|n| ledger.view.map.contains_key(&certificate_key(*n)[..]))
            .collect();
        assert_eq!(kept, expected);
        assert!(kept.windows(2).all(|pair| pair[1] - pair[0] <= 512));
    }
}
