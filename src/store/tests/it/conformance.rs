//! What every backend must do, against a map per version.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use plasma_store::disk::FileDisk;
use plasma_store::hash::Sha2;
use plasma_store::jmt_sled::JmtSled;
use plasma_store::letus::{Letus, Options};
use plasma_store::{Commitment, Store, StoreError, Write, verify};
use proptest::prelude::*;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

type Open = fn(&Path) -> Box<dyn Store>;

/// Every backend; LETUS once as it is and once so that every border is met often: a cache for a few
/// pages, short segments, and bases every few deltas.
const BACKENDS: [Open; 4] = [
    |dir| Box::new(JmtSled::open(dir, 16 << 20).unwrap()),
    |dir| Box::new(Letus::open(dir, Options::default()).unwrap()),
    |dir| Box::new(Letus::open(dir, small()).unwrap()),
    |dir| {
        let disk = FileDisk::new(dir).unwrap();
        Box::new(Letus::<Sha2>::open_on(Arc::new(disk), dir, small()).unwrap())
    },
];

fn small() -> Options {
    Options { cache_bytes: 4_000, workers: 3, segment_bytes: 4_096, base_ratio: 1, deltas_max: 3 }
}

fn batches() -> impl Strategy<Value = Vec<Vec<Write>>> {
    let key =
        prop_oneof![prop::collection::vec(0..4u8, 1..4), prop::collection::vec(any::<u8>(), 9..10)];
    let value = prop::option::weighted(0.8, prop::collection::vec(any::<u8>(), 0..40));
    prop::collection::vec(prop::collection::vec((key, value), 0..12), 1..8)
}

/// Applies a batch to a map; returns what really changed.
fn apply(model: &mut Model, batch: &[Write]) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    let before = model.clone();
    for (key, value) in batch {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
    let keys = batch.iter().map(|(key, _)| key.clone());
    keys.filter(|key| before.get(key) != model.get(key))
        .map(|key| (key.clone(), model.get(&key).cloned()))
        .collect()
}

fn check_version(store: &dyn Store, version: u64, commitment: Commitment, model: &Model) {
    let mut scanned = Model::new();
    store
        .scan(version, &[], &mut |key, value| {
            scanned.insert(key.to_vec(), value.to_vec());
        })
        .unwrap();
    assert_eq!(&scanned, model);
    for key in model.keys().cloned().chain([vec![9, 9, 9], vec![]]) {
        let value = model.get(&key);
        assert_eq!(store.get(version, &key).unwrap().as_ref(), value);
        let proven = store.prove(version, &key).unwrap();
        assert_eq!(proven.value.as_ref(), value);
        let value = value.map(Vec::as_slice);
        verify(store.scheme(), commitment, &key, value, &proven.proof).unwrap();
        refuse_mutations(store.scheme(), commitment, &key, value, &proven.proof);
    }
}

fn refuse_mutations(
    scheme: &str,
    commitment: Commitment,
    key: &[u8],
    value: Option<&[u8]>,
    proof: &[u8],
) {
    let refused = |c: Commitment, key: &[u8], value: Option<&[u8]>, proof: &[u8]| {
        assert!(verify(scheme, c, key, value, proof).is_err());
    };
    let mut other = commitment;
    other.0[7] ^= 1;
    refused(other, key, value, proof);
    refused(commitment, key, Some(b"another value"), proof);
    if value.is_some() {
        refused(commitment, key, None, proof);
        refused(commitment, &[key, b"x"].concat(), value, proof);
    }
    refused(commitment, key, value, &[proof, &[0]].concat());
    refused(commitment, key, value, &proof[..proof.len() - 1]);
    for at in (0..proof.len()).step_by(7) {
        let mut changed = proof.to_vec();
        changed[at] ^= 1 << (at % 8);
        refused(commitment, key, value, &changed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_store_is_a_map_per_version(
        batches in batches(),
        reopen in 0..8usize,
        open in prop::sample::select(&BACKENDS),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path());
        let mut model = Model::new();
        let mut history = Vec::new();
        for (version, batch) in batches.iter().enumerate() {
            let version = version as u64;
            let commitment = store.commit(version, batch).unwrap();
            prop_assert_eq!(store.latest().map(|(v, _)| v), version.checked_sub(1));
            store.persist(version).unwrap();
            prop_assert_eq!(store.latest(), Some((version, commitment)));
            let changed = apply(&mut model, batch);
            history.push((commitment, model.clone(), changed));
            if reopen == version as usize {
                drop(store);
                store = open(dir.path());
                prop_assert_eq!(store.latest(), Some((version, commitment)));
            }
        }
        for (version, (commitment, model, _)) in history.iter().enumerate() {
            check_version(&*store, version as u64, *commitment, model);
        }
        let mut seen: Vec<_> = vec![BTreeMap::new(); history.len()];
        store.changes(0, history.len() as u64 - 1, &mut |version, key, value| {
            seen[version as usize].insert(key.to_vec(), value.map(<[u8]>::to_vec));
        }).unwrap();
        let changed: Vec<_> = history.into_iter().map(|(_, _, changed)| changed).collect();
        prop_assert_eq!(seen, changed);
    }

    #[test]
    fn garbage_is_no_proof(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let c = Commitment([1; 32]);
        for scheme in ["jmt-sha256/1", "letus-blake3/1", "letus-sha256/1", "another/1"] {
            prop_assert!(verify(scheme, c, b"key", Some(b"value"), &bytes).is_err());
            prop_assert!(verify(scheme, c, b"key", None, &bytes).is_err());
        }
    }
}

#[test]
fn the_jmt_s_commitment_depends_on_the_pairs_alone() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, two) = (BACKENDS[0](one.path()), BACKENDS[0](two.path()));
    let put = |key: &str, value: &str| (key.as_bytes().to_vec(), Some(value.as_bytes().to_vec()));
    let a = one.commit(0, &[put("a", "1"), put("b", "2"), put("c", "3")]).unwrap();
    one.persist(0).unwrap();
    let detour = [put("c", "9"), put("b", "2"), put("a", "1"), put("c", "3")];
    assert_eq!(two.commit(0, &detour).unwrap(), a, "the last write of a key counts");
    two.persist(0).unwrap();
    let changed = one.commit(1, &[put("d", "4")]).unwrap();
    assert_ne!(changed, a);
    one.persist(1).unwrap();
    assert_eq!(one.commit(2, &[(b"d".to_vec(), None)]).unwrap(), a, "deleted without a trace");
    one.persist(2).unwrap();
    assert_eq!(one.commit(3, &[]).unwrap(), a, "an empty commit changes nothing");
}

#[test]
fn an_unpersisted_commit_is_seen_by_nobody() {
    BACKENDS.iter().for_each(an_unpersisted_commit);
}

fn an_unpersisted_commit(open: &Open) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let write = |value: &str| vec![(b"key".to_vec(), Some(value.as_bytes().to_vec()))];
    store.commit(0, &write("first")).unwrap();
    store.persist(0).unwrap();
    let second = store.commit(1, &write("second")).unwrap();
    assert_eq!(store.get(0, b"key").unwrap().unwrap(), b"first");
    assert!(matches!(store.get(1, b"key"), Err(StoreError::Version { asked: 1, .. })));
    store.discard();
    assert!(store.persist(1).is_err(), "nothing to persist");
    assert_ne!(store.commit(1, &write("third")).unwrap(), second);
    assert_eq!(store.commit(1, &write("second")).unwrap(), second, "the newest commit counts");
    store.persist(1).unwrap();
    assert_eq!(store.newest(1, b"key").unwrap().unwrap(), (1, Some(b"second".to_vec())));
    assert_eq!(store.newest(0, b"key").unwrap().unwrap(), (0, Some(b"first".to_vec())));
    for wrong in [0, 1, 3] {
        assert!(matches!(store.commit(wrong, &[]), Err(StoreError::Version { .. })));
    }
    let long = vec![(vec![0; 1025], None)];
    assert!(matches!(store.commit(2, &long), Err(StoreError::TooLarge { .. })));
}

#[test]
fn scans_and_changes_keep_to_their_range() {
    BACKENDS.iter().for_each(scans_and_changes);
}

fn scans_and_changes(open: &Open) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let key = |prefix: u8, i: u8| vec![prefix, i];
    for version in 0..4u8 {
        let batch = vec![
            (key(1, version), Some(vec![version])),
            (key(2, version), Some(vec![version])),
            (key(1, 0), Some(vec![9, version])),
        ];
        store.commit(version.into(), &batch).unwrap();
        store.persist(version.into()).unwrap();
    }
    store.commit(4, &[(key(1, 1), None)]).unwrap();
    store.persist(4).unwrap();
    let scanned = |version, prefix: &[u8]| {
        let mut keys = Vec::new();
        store.scan(version, prefix, &mut |key, _| keys.push(key.to_vec())).unwrap();
        keys
    };
    assert_eq!(scanned(1, &[1]), [key(1, 0), key(1, 1)]);
    assert_eq!(scanned(4, &[1]), [key(1, 0), key(1, 2), key(1, 3)]);
    assert_eq!(scanned(4, &[2, 3]), [key(2, 3)]);
    assert!(scanned(4, &[3]).is_empty());
    let changed = |from, to| {
        let mut seen = Vec::new();
        store
            .changes(from, to, &mut |v, key, value| seen.push((v, key.to_vec(), value.is_none())))
            .unwrap();
        seen
    };
    let third = [(2, key(1, 0), false), (2, key(1, 2), false), (2, key(2, 2), false)];
    assert_eq!(changed(2, 2), third);
    assert_eq!(changed(4, 4), [(4, key(1, 1), true)]);
    assert_eq!(changed(0, 4).len(), 3 * 4);
    assert!(changed(3, 2).is_empty());
    let none = &mut |_: &[u8], _: &[u8]| {};
    assert!(matches!(store.scan(5, &[], none), Err(StoreError::Version { asked: 5, .. })));
    let none = &mut |_: u64, _: &[u8], _: Option<&[u8]>| {};
    assert!(matches!(store.changes(0, 5, none), Err(StoreError::Version { asked: 5, .. })));
    assert!(matches!(store.prove(5, &[1]), Err(StoreError::Version { asked: 5, .. })));
    assert!(matches!(store.newest(5, &[1]), Err(StoreError::Version { asked: 5, .. })));
}
