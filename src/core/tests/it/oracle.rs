//! Independent oracles: EIP-712 and ABI encoding by alloy-sol-types, signatures by k256.

use alloy_sol_types::{Eip712Domain, SolStruct, SolValue, sol};
use k256::ecdsa::{RecoveryId, VerifyingKey, signature::hazmat::PrehashVerifier};
use plasma_core::certificate::attestation_digest;
use plasma_core::event::{RootEvent, observation_digest};
use plasma_core::exit::authorization_digest;
use plasma_core::keccak::keccak256;
use plasma_core::signature::Signature;
use plasma_core::{Address, B256, transfer};
use proptest::prelude::*;

use crate::samples;

sol! {
    struct Transfer {
        uint64 coin; uint64 prevBlock; bytes32 prevHash; address newOwner; uint64 maxBlock;
    }
    struct Deposit {
        uint64 coin; address owner; uint8 assetKind; address token; uint256 tokenId;
        uint256 value; uint64 depositBlock;
    }
    struct RootAttestation { uint64 blockNumber; bytes32 chainHash; uint64 validatorSetId; }
    struct Observation { uint64 eventCount; bytes32 eventHash; }
    struct ExitAuthorization { uint64 coin; bytes32 stateHash; uint64 notAfter; }
}

fn domain() -> Eip712Domain {
    let ours = samples::domain();
    alloy_sol_types::eip712_domain! {
        name: "Plasma Cash",
        version: "1",
        chain_id: ours.chain_id,
        verifying_contract: ours.root_chain,
    }
}

#[test]
fn domain_separator() {
    assert_eq!(samples::domain().separator, domain().separator());
}

#[test]
fn deposit_hashes() {
    for d in samples::deposits() {
        let theirs = Deposit {
            coin: d.first_coin,
            owner: d.owner,
            assetKind: d.asset_kind,
            token: d.token,
            tokenId: d.token_id,
            value: d.value,
            depositBlock: d.deposit_block,
        };
        let ours = d.state(d.first_coin, &samples::domain()).hash;
        assert_eq!(ours, theirs.eip712_signing_hash(&domain()));
    }
}

#[test]
fn events_are_abi_encoded() {
    for d in samples::deposits() {
        // Solidity pads each static value to a word: wider integers encode the same.
        let theirs = (
            (1u64, d.deposit_id, d.first_coin, d.count, d.owner),
            (u64::from(d.asset_kind), d.token, d.token_id, d.value, d.deposit_block),
        )
            .abi_encode();
        assert_eq!(RootEvent::Deposited(d).encode(), theirs);
    }
    let coin = u64::MAX;
    assert_eq!(RootEvent::ExitStarted(coin).encode(), (2u64, coin).abi_encode());
    assert_eq!(RootEvent::Thawed(coin).encode(), (3u64, coin).abi_encode());
    assert_eq!(RootEvent::ExitFinalized(coin).encode(), (4u64, coin).abi_encode());
}

/// Recovery by k256 under the protocol's rules.
fn recover(digest: B256, bytes: [u8; 64]) -> Option<Address> {
    let mut plain = bytes;
    let odd = plain[32] & 0x80 != 0;
    plain[32] &= 0x7f;
    let signature = k256::ecdsa::Signature::from_slice(&plain).ok()?;
    if signature.normalize_s().is_some() {
        return None;
    }
    let id = RecoveryId::new(odd, false);
    let key = VerifyingKey::recover_from_prehash(digest.as_slice(), &signature, id).ok()?;
    key.verify_prehash(digest.as_slice(), &signature).ok()?;
    let point = key.to_encoded_point(false);
    Some(Address::from_slice(&keccak256(&point.as_bytes()[1..])[12..]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn digests(
        a in any::<u64>(), b in any::<u64>(), c in any::<u64>(),
        hash in any::<[u8; 32]>(), owner in any::<[u8; 20]>(),
    ) {
        let ours = samples::domain();
        let hash = B256::from(hash);
        let transfer = transfer::Transfer {
            coin: a, prev_block: b, prev_hash: hash, new_owner: owner.into(), max_block: c,
        };
        let theirs = Transfer {
            coin: a, prevBlock: b, prevHash: hash, newOwner: owner.into(), maxBlock: c,
        };
        prop_assert_eq!(transfer.digest(&ours), theirs.eip712_signing_hash(&domain()));
        let theirs = RootAttestation { blockNumber: a, chainHash: hash, validatorSetId: b };
        prop_assert_eq!(
            attestation_digest(&ours, a, hash, b),
            theirs.eip712_signing_hash(&domain())
        );
        let theirs = Observation { eventCount: a, eventHash: hash };
        prop_assert_eq!(observation_digest(&ours, a, hash), theirs.eip712_signing_hash(&domain()));
        let theirs = ExitAuthorization { coin: a, stateHash: hash, notAfter: b };
        prop_assert_eq!(
            authorization_digest(&ours, a, hash, b),
            theirs.eip712_signing_hash(&domain())
        );
    }

    #[test]
    fn signatures(key in 0..1_000_000u64, digest in any::<[u8; 32]>(), bit in 0..512usize) {
        let key = samples::key(key);
        let digest = B256::from(digest);
        let signature = key.sign(digest);
        prop_assert_eq!(signature.recover(digest), Ok(key.address()));
        prop_assert_eq!(recover(digest, signature.0), Some(key.address()));
        let mut flipped = signature.0;
        flipped[bit / 8] ^= 1 << (bit % 8);
        let ours = Signature(flipped).recover(digest).ok();
        prop_assert_eq!(ours, recover(digest, flipped));
        prop_assert_ne!(ours, Some(key.address()));
    }

    #[test]
    fn arbitrary_signature_bytes(
        digest in any::<[u8; 32]>(), r in any::<[u8; 32]>(), s in any::<[u8; 32]>(),
    ) {
        let mut bytes = [0u8; 64];
        bytes[..32].copy_from_slice(&r);
        bytes[32..].copy_from_slice(&s);
        let ours = Signature(bytes).recover(digest.into()).ok();
        prop_assert_eq!(ours, recover(digest.into(), bytes));
    }
}

#[test]
fn vectors_of_bad_signatures_are_bad_for_k256_too() {
    let rows = crate::vectors::signature_rows();
    assert!(rows.len() > 10);
    for (name, digest, bytes, signer) in rows {
        assert_eq!(recover(digest, bytes), signer, "{name}");
    }
}
