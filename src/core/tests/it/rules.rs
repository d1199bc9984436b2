//! The `Child` relation, validator sets and certificates.

use plasma_core::certificate::{Certificate, CertificateError, attestation_digest};
use plasma_core::coin::CoinState;
use plasma_core::exit::age;
use plasma_core::signature::{Signature, SigningKey};
use plasma_core::transfer::{ChildError, SignedTransfer, Transfer};
use plasma_core::validators::{SetError, Validator, ValidatorSet};
use plasma_core::{Address, B256};

use crate::samples;

fn parent() -> CoinState {
    samples::deposits()[1].state(9, &samples::domain())
}

/// A transfer of `parent()` with `max_block` 10, changed before it is signed by its owner.
fn child(change: impl Fn(&mut Transfer)) -> SignedTransfer {
    let parent = parent();
    let mut transfer = Transfer {
        coin: parent.coin,
        prev_block: parent.block,
        prev_hash: parent.hash,
        new_owner: samples::address("owner", 0),
        max_block: 10,
    };
    change(&mut transfer);
    transfer.with_signature(samples::key(2).sign(transfer.digest(&samples::domain())))
}

fn verdict(transfer: &SignedTransfer, block: u64) -> Result<CoinState, ChildError> {
    transfer.child_of(&parent(), block, &samples::domain())
}

#[test]
fn a_child_of_its_parent() {
    let good = child(|_| {});
    let hash = good.transfer.digest(&samples::domain());
    let expected = |block| CoinState { coin: 9, owner: good.transfer.new_owner, block, hash };
    assert_eq!(parent().block, 1);
    for block in [2, 9, 10] {
        assert_eq!(verdict(&good, block), Ok(expected(block)));
    }
    assert_eq!(verdict(&good, 1), Err(ChildError::NotAfterParent { block: 1, parent: 1 }));
    assert_eq!(verdict(&good, 0), Err(ChildError::NotAfterParent { block: 0, parent: 1 }));
    assert_eq!(verdict(&good, 11), Err(ChildError::Expired { block: 11, max_block: 10 }));
}

#[test]
fn what_is_no_child() {
    let other_coin = child(|t| t.coin = 10);
    assert_eq!(verdict(&other_coin, 2), Err(ChildError::WrongCoin { expected: 9, found: 10 }));
    for (what, wrong) in [
        ("block", child(|t| t.prev_block = 2)),
        ("hash", child(|t| t.prev_hash.0[31] ^= 1)),
        ("zero owner", child(|t| t.new_owner = Address::ZERO)),
        ("the contract", child(|t| t.new_owner = samples::domain().root_chain)),
    ] {
        assert_eq!(verdict(&wrong, 2), Err(ChildError::NotChild), "{what}");
    }
    let foreign = plasma_core::domain::Domain::new(1, samples::domain().root_chain);
    let message = child(|_| {}).transfer;
    let digest = message.digest(&samples::domain());
    let high_s = {
        let mut bytes = samples::key(2).sign(digest).0;
        bytes[32..].fill(0xff);
        Signature(bytes)
    };
    for (what, signature) in [
        ("other key", samples::key(3).sign(digest)),
        ("foreign domain", samples::key(2).sign(message.digest(&foreign))),
        ("zero", Signature::ZERO),
        ("high s", high_s),
    ] {
        let signed = message.with_signature(signature);
        assert_eq!(verdict(&signed, 2), Err(ChildError::BadSignature), "{what}");
    }
}

/// Each mistake hides those that are checked after it.
#[test]
fn checks_come_in_order() {
    let mut wrong = child(|t| {
        t.max_block = 0;
        t.prev_block = 7;
        t.coin = 10;
    });
    wrong.signature = Signature::ZERO;
    assert!(matches!(verdict(&wrong, 1), Err(ChildError::WrongCoin { .. })));
    wrong.transfer.coin = 9;
    assert_eq!(verdict(&wrong, 1), Err(ChildError::NotChild));
    wrong.transfer.prev_block = 1;
    assert_eq!(verdict(&wrong, 1), Err(ChildError::BadSignature));
    wrong.signature = samples::key(2).sign(wrong.transfer.digest(&samples::domain()));
    assert_eq!(verdict(&wrong, 1), Err(ChildError::NotAfterParent { block: 1, parent: 1 }));
    assert_eq!(verdict(&wrong, 2), Err(ChildError::Expired { block: 2, max_block: 0 }));
}

/// The same wire bytes mean another message once the coin has come back to its owner.
#[test]
fn replayed_bytes_spend_nothing() {
    let domain = samples::domain();
    let send = |state: &CoinState, from: &SigningKey, to: Address| {
        let (coin, prev_block, prev_hash) = (state.coin, state.block, state.hash);
        let message = Transfer { coin, prev_block, prev_hash, new_owner: to, max_block: 99 };
        message.with_signature(from.sign(message.digest(&domain)))
    };
    let (alice, bob) = (samples::key(2), samples::key(7));
    let first = send(&parent(), &alice, bob.address());
    let at_bob = first.child_of(&parent(), 2, &domain).unwrap();
    let back = send(&at_bob, &bob, alice.address()).child_of(&at_bob, 3, &domain).unwrap();
    assert_eq!(back.owner, parent().owner);
    let replayed = first.wire().spending(back.block, back.hash);
    assert_eq!(replayed.wire(), first.wire());
    assert_eq!(replayed.child_of(&back, 4, &domain), Err(ChildError::BadSignature));
    assert_eq!(first.child_of(&back, 4, &domain), Err(ChildError::NotChild));
}

#[test]
fn ages() {
    assert!(age(1, 9) < age(2, 3) && age(2, 3) < age(2, 4) && age(0, u64::MAX) < age(1, 0));
}

fn validators(powers: &[u64]) -> Vec<Validator> {
    let mut all: Vec<Validator> = powers
        .iter()
        .zip(0..)
        .map(|(power, i)| Validator {
            root_key: samples::key(i).address(),
            power: *power,
            consensus_key: samples::hash("consensus", i).0,
        })
        .collect();
    ValidatorSet::sort(&mut all);
    all
}

#[test]
fn sets_that_are_refused() {
    let refused = |change: fn(&mut Vec<Validator>)| {
        let mut all = validators(&[3, 2, 2, 1]);
        change(&mut all);
        ValidatorSet::new(1, all).unwrap_err()
    };
    assert_eq!(refused(Vec::clear), SetError::Count(0));
    assert_eq!(refused(|v| *v = vec![v[0]; 10_001]), SetError::Count(10_001));
    assert_eq!(refused(|v| v[3].power = 0), SetError::Zero(3));
    assert_eq!(refused(|v| v[1].root_key = Address::ZERO), SetError::Zero(1));
    assert_eq!(refused(|v| v.swap(0, 1)), SetError::Order(1));
    assert_eq!(refused(|v| v.swap(1, 2)), SetError::Order(2));
    assert_eq!(refused(|v| v[3].root_key = v[0].root_key), SetError::SharedKey(3));
    assert_eq!(refused(|v| v[2].consensus_key = v[0].consensus_key), SetError::SharedKey(2));
}

#[test]
fn sets_that_are_accepted() {
    let set = ValidatorSet::new(1, validators(&[u64::MAX; 3])).unwrap();
    assert!(!set.is_quorum(2 * u128::from(u64::MAX)));
    assert!(set.is_quorum(2 * u128::from(u64::MAX) + 1));
    assert_eq!(set.encode().len(), 3 * 28);
    let other = ValidatorSet::new(2, validators(&[u64::MAX; 3])).unwrap();
    assert_ne!(set.hash(), other.hash());
}

fn signed(set: &ValidatorSet, digest: B256, signers: &[usize]) -> Certificate {
    let key_of = |i: usize| {
        let address = set.validators()[i].root_key;
        (0..set.len() as u64).map(samples::key).find(|key| key.address() == address).unwrap()
    };
    let signatures: Vec<(usize, Signature)> =
        signers.iter().map(|i| (*i, key_of(*i).sign(digest))).collect();
    Certificate::new(8, set.len(), &signatures)
}

fn verify(
    set: &ValidatorSet,
    digest: B256,
    certificate: &Certificate,
) -> Result<(), CertificateError> {
    certificate.verify(set, digest, |digest, signature| signature.recover(digest).ok())
}

#[test]
fn certificates_need_more_than_two_thirds() {
    let digest = attestation_digest(&samples::domain(), 8, samples::hash("chain", 8), 1);
    // Exactly two thirds, then one more.
    for (powers, signers, power) in [
        (&[1, 1, 1][..], &[0, 2][..], Some(2)),
        (&[4, 1, 1], &[0], Some(4)),
        (&[4, 1, 1], &[0, 2], None),
    ] {
        let set = ValidatorSet::new(1, validators(powers)).unwrap();
        let verdict = verify(&set, digest, &signed(&set, digest, signers));
        assert_eq!(verdict, power.map_or(Ok(()), |p| Err(CertificateError::Power(p))));
    }
}

#[test]
fn certificates_of_a_wrong_shape_or_signer() {
    let digest = attestation_digest(&samples::domain(), 8, samples::hash("chain", 8), 1);
    let set = ValidatorSet::new(1, validators(&[1; 9])).unwrap();
    let good = signed(&set, digest, &[0, 1, 2, 3, 4, 5, 8]);
    assert_eq!(verify(&set, digest, &good), Ok(()));
    assert_eq!(good.bitmap, [0x3f, 0x01]);
    assert_eq!(good.signed().map(|(i, _)| i).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 8]);
    let refused = |change: fn(&mut Certificate)| {
        let mut wrong = good.clone();
        change(&mut wrong);
        verify(&set, digest, &wrong).unwrap_err()
    };
    let shape = |bytes, signatures| CertificateError::Shape { bytes, signatures, validators: 9 };
    assert_eq!(refused(|c| c.bitmap[1] |= 2), shape(2, 7));
    assert_eq!(
        refused(|c| {
            c.bitmap[1] |= 2;
            c.signatures.push(Signature::ZERO);
        }),
        shape(2, 8)
    );
    assert_eq!(refused(|c| c.bitmap.push(0)), shape(3, 7));
    assert_eq!(refused(|c| c.bitmap.truncate(1)), shape(1, 7));
    assert_eq!(refused(|c| c.signatures.truncate(6)), shape(2, 6));
    assert_eq!(refused(|c| c.signatures.swap(5, 6)), CertificateError::Signature(5));
    assert_eq!(refused(|c| c.bitmap = vec![0x5f, 0x01]), CertificateError::Signature(6));
    let other = attestation_digest(&samples::domain(), 9, samples::hash("chain", 8), 1);
    assert_eq!(verify(&set, other, &good), Err(CertificateError::Signature(0)));
}
