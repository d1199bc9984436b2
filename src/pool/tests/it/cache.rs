//! The cache returns what recovery returns, whatever it remembers.

use plasma_core::signature::{Signature, SigningKey};
use plasma_core::{Address, B256};
use plasma_ledger::{SerialVerifier, Verifier};
use plasma_pool::SignatureCache;
use proptest::prelude::*;

fn signed(seed: u8, message: u8, broken: bool) -> (B256, Signature) {
    let key = SigningKey::from_bytes([seed; 32]).unwrap();
    let digest = B256::repeat_byte(message);
    let mut signature = key.sign(digest);
    if broken {
        signature.0[..32].fill(0);
    }
    (digest, signature)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_cache_of_any_size_answers_as_recovery_does(
        batches in prop::collection::vec(
            prop::collection::vec((1..6u8, 0..6u8, prop::bool::weighted(0.2)), 0..40), 1..6),
        capacity in 1..20usize,
        workers in 1..4usize,
    ) {
        let cache = SignatureCache::new(capacity, workers);
        for batch in batches {
            let batch: Vec<_> = batch.into_iter().map(|(s, m, b)| signed(s, m, b)).collect();
            prop_assert_eq!(cache.recover_all(&batch), SerialVerifier.recover_all(&batch));
        }
    }
}

#[test]
fn one_signature_under_two_digests_has_two_signers() {
    let cache = SignatureCache::new(10, 1);
    let (digest, signature) = signed(1, 1, false);
    let owner = SigningKey::from_bytes([1; 32]).unwrap().address();
    for _ in 0..2 {
        assert_eq!(cache.recover_all(&[(digest, signature)]), [Some(owner)]);
        let other: Vec<Option<Address>> = cache.recover_all(&[(B256::repeat_byte(2), signature)]);
        assert_ne!(other, [Some(owner)]);
    }
}
