//! Digests and signatures.

use plasma_core::block::chain_hash_genesis;
use plasma_core::certificate::attestation_digest;
use plasma_core::coin::CoinState;
use plasma_core::event::observation_digest;
use plasma_core::exit::authorization_digest;
use plasma_core::signature::Signature;
use plasma_core::transfer::Transfer;
use plasma_core::{Address, B256, U256};
use serde_json::{Value, json};

use super::{address, decimal, hash, hex};
use crate::samples;

/// Order of secp256k1.
const ORDER: U256 = U256::from_be_bytes([
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
    0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41,
]);

pub fn domain() -> Value {
    let domain = samples::domain();
    json!({
        "chain_hash_0": hash(chain_hash_genesis(&domain)),
        "chain_id": decimal(domain.chain_id),
        "root_chain": address(domain.root_chain),
        "separator": hash(domain.separator),
    })
}

pub fn deposits() -> Value {
    let of = |d: &plasma_core::coin::Deposit, coin| {
        json!({
            "asset_kind": decimal(d.asset_kind),
            "coin": decimal(coin),
            "deposit_block": decimal(d.deposit_block),
            "hash": hash(d.state(coin, &samples::domain()).hash),
            "owner": address(d.owner),
            "token": address(d.token),
            "token_id": decimal(d.token_id),
            "value": decimal(d.value),
        })
    };
    let deposits = samples::deposits();
    let mut all: Vec<Value> = deposits.iter().map(|d| of(d, d.first_coin)).collect();
    all.push(of(&deposits[1], 1_001));
    json!({ "deposits": all })
}

/// A deposit's coin moves three times, then a coin with the largest numbers.
pub fn transfers() -> Value {
    let domain = samples::domain();
    let mut state = samples::deposits()[0].state(1, &domain);
    let mut all = Vec::new();
    for (from, to, block, max_block) in
        [(1, 11, 3, 10), (11, 12, 4, 127), (12, 1, 300, 1 << 40), (1, 11, 301, 301)]
    {
        assert_eq!(state.owner, samples::key(from).address());
        let transfer = Transfer {
            coin: state.coin,
            prev_block: state.block,
            prev_hash: state.hash,
            new_owner: samples::key(to).address(),
            max_block,
        };
        all.push(signed(transfer, from));
        let signed = transfer.with_signature(samples::key(from).sign(transfer.digest(&domain)));
        state = signed.child_of(&state, block, &domain).unwrap();
    }
    let CoinState { coin, block, hash, .. } = samples::deposits()[4].state(u64::MAX, &domain);
    let new_owner = samples::address("owner", 0);
    let largest =
        Transfer { coin, prev_block: block, prev_hash: hash, new_owner, max_block: u64::MAX };
    all.push(signed(largest, 5));
    json!({ "transfers": all })
}

fn signed(transfer: Transfer, key: u64) -> Value {
    let digest = transfer.digest(&samples::domain());
    let signature = samples::key(key).sign(digest);
    let full = transfer.with_signature(signature);
    let mut wire = Vec::new();
    full.wire().encode(&mut wire);
    json!({
        "coin": decimal(transfer.coin),
        "digest": hash(digest),
        "full": hex(full.encode()),
        "max_block": decimal(transfer.max_block),
        "new_owner": address(transfer.new_owner),
        "prev_block": decimal(transfer.prev_block),
        "prev_hash": hash(transfer.prev_hash),
        "signature": hex(signature.0),
        "signer": address(signature.recover(digest).unwrap()),
        "wire": hex(wire),
    })
}

fn signature_cases() -> Vec<(&'static str, B256, [u8; 64])> {
    let both = (0..).map(|i| (i, samples::hash("digest", i)));
    let parity = |(i, digest): (u64, B256)| samples::key(i).sign(digest).0[32] >> 7;
    let even = both.clone().find(|sample| parity(*sample) == 0).unwrap();
    let odd = both.clone().find(|sample| parity(*sample) == 1).unwrap();
    let of = |sample: (u64, B256)| (sample.1, samples::key(sample.0).sign(sample.1).0);
    let (digest, good) = of(even);
    let (odd_digest, odd_good) = of(odd);
    let r = U256::from_be_slice(&good[..32]);
    let s = U256::from_be_slice(&good[32..]);
    let high = U256::ONE << 255;
    let join = |r: U256, s: U256| {
        let mut bytes = [0u8; 64];
        bytes[..32].copy_from_slice(&r.to_be_bytes::<32>());
        bytes[32..].copy_from_slice(&s.to_be_bytes::<32>());
        bytes
    };
    let half = ORDER >> 1;
    // No point of the curve has x = 5: 5^3 + 7 = 132 is no square.
    vec![
        ("even parity", digest, good),
        ("odd parity", odd_digest, odd_good),
        ("flipped parity: another signer", digest, join(r, s | high)),
        ("other digest: another signer", odd_digest, good),
        ("s = N/2: highest", digest, join(r, half)),
        ("s = N/2 + 1: high", digest, join(r, half + U256::ONE)),
        ("s = N/2 + 1 with parity: high", digest, join(r, (half + U256::ONE) | high)),
        ("s negated: high s, its top bit reads as parity", digest, join(r, ORDER - s)),
        ("zero s", digest, join(r, U256::ZERO)),
        ("zero s with parity", digest, join(r, high)),
        ("zero r", digest, join(U256::ZERO, s)),
        ("r = N", digest, join(ORDER, s)),
        ("r above N", digest, join(U256::MAX, s)),
        ("r = 5: no point of the curve", digest, join(U256::from(5), s)),
        ("64 zero bytes", digest, [0; 64]),
    ]
}
/// Name, digest, signature and signer of every case.
pub fn signature_rows() -> Vec<(&'static str, B256, [u8; 64], Option<Address>)> {
    signature_cases()
        .into_iter()
        .map(|(name, digest, bytes)| (name, digest, bytes, Signature(bytes).recover(digest).ok()))
        .collect()
}

pub fn signatures() -> Value {
    let all: Vec<Value> = signature_rows()
        .into_iter()
        .map(|(name, digest, bytes, signer)| {
            json!({
                "digest": hash(digest),
                "name": name,
                "signature": hex(bytes),
                "signer": address(signer.unwrap_or(Address::ZERO)),
                "valid": signer.is_some(),
            })
        })
        .collect();
    json!({ "signatures": all })
}

pub fn digests() -> Value {
    let domain = samples::domain();
    let numbers = [1u64, 256, u64::MAX];
    let attestations: Vec<Value> = numbers
        .iter()
        .map(|n| {
            let chain_hash = samples::hash("chain", *n);
            json!({
                "block_number": decimal(n),
                "chain_hash": hash(chain_hash),
                "digest": hash(attestation_digest(&domain, *n, chain_hash, 1)),
                "validator_set_id": "1",
            })
        })
        .collect();
    let observations: Vec<Value> = numbers
        .iter()
        .map(|n| {
            let event_hash = samples::hash("event", *n);
            json!({
                "digest": hash(observation_digest(&domain, *n, event_hash)),
                "event_count": decimal(n),
                "event_hash": hash(event_hash),
            })
        })
        .collect();
    let authorizations: Vec<Value> = numbers
        .iter()
        .map(|n| {
            let state = samples::hash("state", *n);
            json!({
                "coin": decimal(n),
                "digest": hash(authorization_digest(&domain, *n, state, 1_800_000_000 ^ n)),
                "not_after": decimal(1_800_000_000 ^ n),
                "state_hash": hash(state),
            })
        })
        .collect();
    json!({
        "attestations": attestations,
        "authorizations": authorizations,
        "observations": observations,
    })
}
