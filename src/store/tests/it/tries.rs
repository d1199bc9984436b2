//! Several tries under one commitment, and proofs of many keys at once.

use std::collections::BTreeMap;

use plasma_store::hash::Blake3;
use plasma_store::letus::{Letus, verify_at, verify_many};
use plasma_store::sim::SimDisk;
use plasma_store::trie::ProvenMany;
use plasma_store::{Commitment, Store, Write};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::letus::{SMALL, open};

type Models = Vec<BTreeMap<(u64, Vec<u8>), Vec<u8>>>;

/// A store with three tries over the same keys.
fn written(versions: u64) -> (Letus, Models, Commitment) {
    let store = open(&SimDisk::new(), SMALL).unwrap();
    let mut random = StdRng::seed_from_u64(1);
    let (mut model, mut models) = (BTreeMap::new(), Vec::new());
    for version in 0..versions {
        let batch: Vec<(u64, Write)> = (0..40)
            .map(|_| {
                let (tid, key) = (random.random_range(0..3), random.random_range(0..60u8));
                let value = (!random.random_ratio(1, 4)).then(|| vec![random.random(); 5]);
                (tid, (vec![key], value))
            })
            .collect();
        for (tid, (key, value)) in &batch {
            let place = (*tid, key.clone());
            match value {
                Some(value) => model.insert(place, value.clone()),
                None => model.remove(&place),
            };
        }
        store.commit_tries(version, &batch).unwrap();
        store.persist(version).unwrap();
        models.push(model.clone());
    }
    let (_, newest) = store.latest().unwrap();
    (store, models, newest)
}

#[test]
fn tries_are_namespaces_of_one_tree() {
    let (store, models, newest) = written(30);
    for (version, model) in models.iter().enumerate() {
        let version = version as u64;
        for tid in 0..4 {
            let trie = store.trie(tid);
            for key in 0..60u8 {
                let value = model.get(&(tid, vec![key])).map(Vec::as_slice);
                let proven = trie.prove_at(version, &[key]).unwrap();
                assert_eq!(proven.value.as_deref(), value);
                let check = |tid| verify_at::<Blake3>(newest, (tid, &[key]), value, &proven.proof);
                assert_eq!(check(tid), Ok(version));
                assert!(value.is_none() || check(tid + 1).is_err(), "a proof of another trie");
                assert_eq!(trie.get(version, &[key]).unwrap().as_deref(), value);
            }
            let mut pairs = BTreeMap::new();
            let mut put = |key: &[u8], value: &[u8]| {
                pairs.insert((tid, key.to_vec()), value.to_vec());
            };
            trie.scan(version, &[], &mut put).unwrap();
            let own = model.iter().filter(|((of, _), _)| *of == tid);
            assert!(pairs.iter().eq(own));
        }
    }
    // Changes of a trie are its own.
    let mut model = BTreeMap::new();
    let mut change = |_: u64, key: &[u8], value: Option<&[u8]>| {
        match value {
            Some(value) => model.insert((1, key.to_vec()), value.to_vec()),
            None => model.remove(&(1, key.to_vec())),
        };
    };
    store.trie(1).changes(0, 29, &mut change).unwrap();
    assert!(model.iter().eq(models[29].iter().filter(|((tid, _), _)| *tid == 1)));
}

/// 13, of many keys.
#[test]
fn one_proof_of_many_keys() {
    let (store, models, newest) = written(30);
    let mut random = StdRng::seed_from_u64(2);
    for round in 0..200 {
        let (version, tid) = (random.random_range(0..30), random.random_range(0..4));
        let keys: Vec<[u8; 1]> = (0..round % 40).map(|_| [random.random_range(0..70u8)]).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let ProvenMany { values, proof } = store.trie(tid).prove_many(version, &keys).unwrap();
        let value = |key: &&[u8]| models[version as usize].get(&(tid, key.to_vec())).cloned();
        assert_eq!(values, keys.iter().map(value).collect::<Vec<_>>());
        let values = values.iter().map(Option::as_deref);
        let mut pairs: Vec<_> = keys.iter().copied().zip(values).collect();
        let check = |pairs: &[_]| verify_many::<Blake3>(newest, tid, pairs, &proof);
        assert_eq!(check(&pairs), Ok(version), "round {round}");
        for i in 0..pairs.len() {
            let right = pairs[i].1;
            let wrong = if right.is_none() { Some(&b"any"[..]) } else { None };
            pairs[i].1 = wrong;
            assert!(check(&pairs).is_err());
            pairs[i].1 = right.map(|_| &b"other"[..]).or(Some(b""));
            assert!(check(&pairs).is_err());
            pairs[i].1 = right;
        }
    }
    // Any other bytes are refused.
    let keys: Vec<[u8; 1]> = (0..12).map(|key| [key]).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let ProvenMany { values, proof } = store.trie(0).prove_many(7, &keys).unwrap();
    let values = values.iter().map(Option::as_deref);
    let pairs: Vec<_> = keys.iter().copied().zip(values).collect();
    let check = |bytes: &[u8]| verify_many::<Blake3>(newest, 0, &pairs, bytes);
    assert_eq!(check(&proof), Ok(7));
    for at in 0..proof.len() {
        for bit in 0..8 {
            let mut bytes = proof.clone();
            bytes[at] ^= 1 << bit;
            assert!(check(&bytes).is_err(), "bit {bit} of byte {at}");
        }
        assert!(check(&proof[..at]).is_err());
        let mut bytes = proof.clone();
        bytes.insert(at, 0);
        assert!(check(&bytes).is_err());
        bytes.splice(at..at + 2, []);
        assert!(check(&bytes).is_err());
    }
    assert!(check(&[&proof[..], &[0]].concat()).is_err());
    assert!(verify_many::<Blake3>(newest, 0, &pairs[1..], &proof).is_err());
}
