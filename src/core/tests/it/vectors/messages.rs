//! Events, certificates and the application's messages.

use plasma_core::B256;
use plasma_core::certificate::{Certificate, attestation_digest};
use plasma_core::event::{RootEvent, event_hash, observation_digest};
use plasma_core::extension::{Attestation, Observation, VoteExtension};
use plasma_core::proposal::{Observed, Proposal};
use plasma_core::signature::Signature;
use plasma_core::transfer::WireTransfer;
use plasma_core::tx::Tx;
use serde_json::{Value, json};

use super::{address, decimal, hash, hex, keccak256};
use crate::samples;

pub fn events() -> Value {
    let deposited: Vec<Value> = samples::deposits()
        .iter()
        .map(|d| {
            json!({
                "asset_kind": decimal(d.asset_kind),
                "count": decimal(d.count),
                "deposit_block": decimal(d.deposit_block),
                "deposit_id": decimal(d.deposit_id),
                "encoded": hex(RootEvent::Deposited(*d).encode()),
                "first_coin": decimal(d.first_coin),
                "owner": address(d.owner),
                "token": address(d.token),
                "token_id": decimal(d.token_id),
                "value": decimal(d.value),
            })
        })
        .collect();
    let plain =
        [RootEvent::ExitStarted(1), RootEvent::Thawed(u64::MAX), RootEvent::ExitFinalized(300)];
    let coin_events: Vec<Value> = plain
        .iter()
        .zip([(2, 1), (3, u64::MAX), (4, 300)])
        .map(|(event, (kind, coin))| {
            json!({
                "coin": decimal(coin),
                "encoded": hex(event.encode()),
                "kind": decimal(kind),
            })
        })
        .collect();
    let all = samples::deposits().into_iter().map(RootEvent::Deposited).chain(plain);
    let mut previous = B256::ZERO;
    let queue: Vec<Value> = all
        .zip(1u64..)
        .map(|(event, n)| {
            let e = event.encode();
            previous = event_hash(previous, &e);
            json!({ "e": hex(e), "event_hash": hash(previous), "n": decimal(n) })
        })
        .collect();
    json!({ "coin_events": coin_events, "deposited": deposited, "queue": queue })
}

const NUMBER: u64 = 300;

fn chain_hash() -> B256 {
    samples::hash("chain", NUMBER)
}

fn digest() -> B256 {
    attestation_digest(&samples::domain(), NUMBER, chain_hash(), samples::validator_set().id())
}

fn certificate(signers: &[usize]) -> Certificate {
    let signed: Vec<(usize, Signature)> =
        signers.iter().map(|i| (*i, samples::root_key(*i).sign(digest()))).collect();
    Certificate::new(NUMBER, samples::validator_set().len(), &signed)
}

/// Certificates of a set with powers 40, 25, 25, 10. `error` is the contract's.
pub fn certificates() -> Value {
    let set = samples::validator_set();
    let mut cases: Vec<(&str, &str, Certificate)> = vec![
        ("all", "", certificate(&[0, 1, 2, 3])),
        ("90 of 100", "", certificate(&[0, 1, 2])),
        ("75 of 100", "", certificate(&[0, 1, 3])),
        ("65 of 100", "NotEnoughPower", certificate(&[0, 1])),
        ("60 of 100", "NotEnoughPower", certificate(&[1, 2, 3])),
        ("nobody", "NotEnoughPower", certificate(&[])),
    ];
    let mut spare = certificate(&[0, 1, 2]);
    spare.bitmap[0] |= 1 << 4;
    cases.push(("spare bit", "BadBitmap", spare));
    let mut long = certificate(&[0, 1, 2]);
    long.bitmap.push(0);
    cases.push(("bitmap too long", "BadBitmap", long));
    let mut none = certificate(&[0, 1, 2]);
    none.bitmap.clear();
    cases.push(("no bitmap", "BadBitmap", none));
    let mut fewer = certificate(&[0, 1, 2]);
    fewer.signatures.pop();
    cases.push(("signature missing", "BadSignatures", fewer));
    let mut more = certificate(&[0, 1, 2]);
    more.signatures.push(Signature::ZERO);
    cases.push(("signature too many", "BadSignatures", more));
    let mut swapped = certificate(&[0, 1, 2]);
    swapped.signatures.swap(0, 1);
    cases.push(("signatures swapped", "BadSignatures", swapped));
    let mut high = certificate(&[0, 1, 2]);
    high.signatures[0] = Signature::ZERO;
    cases.push(("zero signature", "BadSignatures", high));
    let rows: Vec<Value> = cases
        .iter()
        .map(|(name, error, certificate)| {
            let verdict = certificate.verify(&set, digest(), |d, s| s.recover(d).ok());
            assert_eq!(verdict.is_ok(), error.is_empty(), "{name}");
            let mut encoded = Vec::new();
            certificate.encode(&mut encoded);
            let signatures: Vec<u8> = certificate.signatures.iter().flat_map(|s| s.0).collect();
            json!({
                "bitmap": hex(&certificate.bitmap),
                "encoded": hex(encoded),
                "error": error,
                "name": name,
                "signatures": hex(signatures),
            })
        })
        .collect();
    let validators = set.validators().iter();
    json!({
        "certificates": rows,
        "chain_hash": hash(chain_hash()),
        "digest": hash(digest()),
        "number": decimal(NUMBER),
        "powers": validators.clone().map(|v| decimal(v.power)).collect::<Vec<_>>(),
        "root_keys": validators.map(|v| address(v.root_key)).collect::<Vec<_>>(),
        "set": hex(set.encode()),
        "set_hash": hash(set.hash()),
        "set_id": decimal(set.id()),
    })
}

fn wire(coin: u64) -> WireTransfer {
    WireTransfer {
        coin,
        new_owner: samples::address("owner", coin),
        max_block: 9,
        signature: samples::key(coin).sign(samples::hash("transfer", coin)),
    }
}

/// Whole messages; each hash is keccak of the bytes, for a reader's convenience.
pub fn messages() -> Value {
    let domain = samples::domain();
    let key = samples::root_key(0);
    let attestation = Attestation { number: NUMBER, signature: key.sign(digest()) };
    let event = RootEvent::ExitStarted(7).encode();
    let event_hash = event_hash(B256::ZERO, &event);
    let observed = key.sign(observation_digest(&domain, 1, event_hash));
    let observation = Observation { event_count: 1, event_hash, signature: observed };
    let extension =
        |attestation, observation, pad| VoteExtension { attestation, observation }.encode(pad);
    let closing = Some((5, samples::hash("root", 5)));
    let full = Proposal {
        closing,
        certificate: Some(certificate(&[0, 1, 2])),
        observations: vec![Observed { validator: 0, event_count: 1, signature: observed }],
        events: vec![event],
    };
    let rows = [
        ("transfer", Tx::Transfer(wire(1)).encode()),
        ("bundle of two", Tx::Bundle(vec![wire(1), wire(300)]).encode()),
        ("extension: attestation", extension(Some(attestation), None, 0)),
        ("extension: observation", extension(None, Some(observation), 0)),
        ("extension: both", extension(Some(attestation), Some(observation), 0)),
        ("extension: both, padded to 300", extension(Some(attestation), Some(observation), 300)),
        ("proposal: empty", Proposal::default().encode()),
        ("proposal: closing", Proposal { closing, ..Proposal::default() }.encode()),
        ("proposal: everything", full.encode()),
    ];
    let rows: Vec<Value> = rows
        .iter()
        .map(|(name, bytes)| {
            json!({ "bytes": hex(bytes), "keccak": hash(keccak256(bytes)), "name": name })
        })
        .collect();
    json!({ "messages": rows })
}
