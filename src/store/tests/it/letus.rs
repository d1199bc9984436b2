//! The LETUS engine against a map per version and the naive tree, and against crashes, faults and
//! damage. Numbers in names are those of store.md's list of tests.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use plasma_store::commitment::StateProof;
use plasma_store::disk::Disk;
use plasma_store::hash::{Blake3, Hash};
use plasma_store::letus::{Letus, Options, verify_at};
use plasma_store::proof::value_hash;
use plasma_store::sim::{Fault, SimDisk};
use plasma_store::tree::{Leaf, path_of, root};
use plasma_store::{Commitment, Store, StoreError, Write, verify};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Borders are met often.
const SMALL: Options = Options {
    cache_bytes: 20_000,
    workers: 3,
    segment_bytes: 16_384,
    base_ratio: 1,
    deltas_max: 3,
};

fn open(disk: &SimDisk, options: Options) -> Result<Letus, StoreError> {
    Letus::open_on(Arc::new(disk.clone()), Path::new("sim"), options)
}

/// A batch over `keys` keys, with a share of deletions that grows and shrinks over the versions.
fn batch(random: &mut StdRng, version: u64, keys: u32, writes: usize) -> Vec<Write> {
    let deletions = if version % 20 < 12 { 10 } else { 75 };
    (0..writes)
        .map(|_| {
            let key = random.random_range(0..keys).to_be_bytes().to_vec();
            let value = (!random.random_ratio(deletions, 100)).then(|| {
                let length = random.random_range(0..60);
                (0..length).map(|_| random.random()).collect()
            });
            (key, value)
        })
        .collect()
}

fn apply(model: &mut Model, batch: &[Write]) {
    for (key, value) in batch {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
}

fn naive_root(model: &Model) -> Hash {
    let mut leaves: Vec<Leaf> = model
        .iter()
        .map(|(key, value)| Leaf {
            path: path_of::<Blake3>(0, key),
            value: value_hash::<Blake3>(value),
        })
        .collect();
    leaves.sort_unstable_by_key(|leaf| leaf.path);
    root::<Blake3>(&leaves)
}

fn root_at(store: &Letus, version: u64) -> Hash {
    StateProof::decode(&store.prove(version, b"any").unwrap().proof).unwrap().at.root
}

fn step(store: &Letus, version: u64, batch: &[Write]) -> Commitment {
    let commitment = store.commit(version, batch).unwrap();
    store.persist(version).unwrap();
    commitment
}

/// Every fact of a version about some keys.
fn check(store: &Letus, version: u64, commitment: Commitment, model: &Model, keys: &[u32]) {
    assert_eq!(root_at(store, version), naive_root(model), "version {version}");
    let newest = store.latest().unwrap().1;
    for key in keys {
        let key = key.to_be_bytes();
        let value = model.get(&key[..]).map(Vec::as_slice);
        assert_eq!(store.get(version, &key).unwrap().as_deref(), value);
        let proven = store.prove(version, &key).unwrap();
        assert_eq!(proven.value.as_deref(), value);
        verify(store.scheme(), commitment, &key, value, &proven.proof).unwrap();
        let later = store.prove_at(version, &key).unwrap();
        assert_eq!(verify_at::<Blake3>(newest, &key, value, &later.proof), Ok(version));
        if newest != commitment {
            let refused = verify(store.scheme(), newest, &key, value, &later.proof);
            assert!(refused.is_err(), "an old value is not the current one");
        }
    }
}

/// 11, 12, 15, 22: splits, merges, deltas and bases, with a cache smaller than a batch.
#[test]
fn a_map_per_version_with_the_naive_root() {
    const KEYS: u32 = 3_000;
    let disk = SimDisk::new();
    let mut random = StdRng::seed_from_u64(11);
    let mut store = open(&disk, SMALL).unwrap();
    let mut model = Model::new();
    let mut versions = Vec::new();
    for version in 0..100 {
        let batch = batch(&mut random, version, KEYS, 400);
        let commitment = step(&store, version, &batch);
        apply(&mut model, &batch);
        versions.push((commitment, model.clone()));
        if version % 10 == 7 {
            drop(store);
            store = open(&disk, SMALL).unwrap();
        }
        let keys: Vec<u32> = (0..10).map(|_| random.random_range(0..KEYS)).collect();
        check(&store, version, commitment, &model, &keys);
    }
    for _ in 0..200 {
        let version = random.random_range(0..100u64);
        let (commitment, model) = &versions[version as usize];
        let keys: Vec<u32> = (0..5).map(|_| random.random_range(0..KEYS)).collect();
        check(&store, version, *commitment, model, &keys);
    }
}

/// 15: every state of one key is found, however many there are.
#[test]
fn ten_thousand_versions_of_one_key() {
    let store = open(&SimDisk::new(), Options::default()).unwrap();
    let value = |version: u64| (version % 7 != 3).then(|| version.to_be_bytes().to_vec());
    for version in 0..10_000 {
        step(&store, version, &[(b"key".to_vec(), value(version))]);
    }
    for version in (0..10_000).step_by(37).chain([9_999]) {
        assert_eq!(store.get(version, b"key").unwrap(), value(version));
    }
}

/// 19: neither threads nor cache nor bases nor openings change a commitment.
#[test]
fn the_same_commitments_by_any_options() {
    let run = |options: Options, reopen: bool| {
        let disk = SimDisk::new();
        let mut random = StdRng::seed_from_u64(19);
        let mut store = open(&disk, options).unwrap();
        let mut commitments = Vec::new();
        for version in 0..30 {
            commitments.push(step(&store, version, &batch(&mut random, version, 2_000, 300)));
            if reopen {
                drop(store);
                store = open(&disk, options).unwrap();
            }
        }
        commitments
    };
    let expected = run(Options::default(), false);
    for workers in [1, 2, 8] {
        assert_eq!(run(Options { workers, ..Options::default() }, workers == 2), expected);
    }
    assert_eq!(run(SMALL, true), expected);
}

const SCRIPT: u64 = 6;

fn scripted() -> Vec<Vec<Write>> {
    let mut random = StdRng::seed_from_u64(3);
    (0..SCRIPT).map(|version| batch(&mut random, version, 120, 60)).collect()
}

/// Runs the script from where the store is; the newest acknowledged version.
fn run_script(store: &Letus, batches: &[Vec<Write>]) -> Result<(), StoreError> {
    let next = store.latest().map_or(0, |(version, _)| version + 1);
    for version in next..batches.len() as u64 {
        store.commit(version, &batches[version as usize])?;
        store.persist(version)?;
    }
    Ok(())
}

fn models(batches: &[Vec<Write>]) -> Vec<Model> {
    let mut model = Model::new();
    let after = |batch: &Vec<Write>| {
        apply(&mut model, batch);
        model.clone()
    };
    batches.iter().map(after).collect()
}

fn check_all(store: &Letus, models: &[Model]) {
    let Some((latest, _)) = store.latest() else { return };
    for version in 0..=latest {
        let mut found = Model::new();
        store
            .scan(version, &[], &mut |key, value| {
                found.insert(key.to_vec(), value.to_vec());
            })
            .unwrap();
        assert_eq!(found, models[version as usize], "version {version}");
        assert_eq!(root_at(store, version), naive_root(&models[version as usize]));
    }
}

/// 3, 4: the power goes at any I/O call, of the first life or of the one after it. What was
/// acknowledged is there, whole, and work goes on.
#[test]
fn power_loss_at_every_call() {
    let batches = scripted();
    let models = models(&batches);
    let calm = SimDisk::new();
    run_script(&open(&calm, SMALL).unwrap(), &batches).unwrap();
    let calls = calm.calls();
    assert!(calls > 60, "{calls}");
    for at in 1..=calls {
        for seed in 0..3 {
            let disk = SimDisk::new();
            disk.inject(at, Fault::PowerLoss);
            let acknowledged = match open(&disk, SMALL) {
                Ok(store) => {
                    let _ = run_script(&store, &batches);
                    store.latest().map(|(version, _)| version)
                }
                Err(_) => None,
            };
            disk.crash(at * 31 + seed);
            // The power goes again while the store recovers.
            disk.inject(1 + (at + seed) % 17, Fault::PowerLoss);
            let again = open(&disk, SMALL).map(|store| run_script(&store, &batches));
            drop(again);
            disk.crash(at * 37 + seed);
            let store = open(&disk, SMALL).unwrap_or_else(|e| panic!("call {at}, {seed}: {e}"));
            let latest = store.latest().map(|(version, _)| version);
            assert!(latest >= acknowledged, "call {at}: {latest:?} of {acknowledged:?}");
            check_all(&store, &models);
            run_script(&store, &batches).unwrap();
            assert_eq!(store.latest().unwrap().0, SCRIPT - 1);
            check_all(&store, &models);
        }
    }
}

/// 8, 9, 10: whatever call fails, whatever way, nothing acknowledged is lost, and after a failed
/// write the handle writes no more.
#[test]
fn errors_at_every_call() {
    let batches = scripted();
    let models = models(&batches);
    let calm = SimDisk::new();
    run_script(&open(&calm, SMALL).unwrap(), &batches).unwrap();
    for at in 1..=calm.calls() {
        for fault in [Fault::Error, Fault::Full] {
            let disk = SimDisk::new();
            disk.inject(at, fault);
            let Ok(store) = open(&disk, SMALL) else { continue };
            let failed = run_script(&store, &batches);
            let latest = store.latest().map(|(version, _)| version);
            if let Err(StoreError::Backend(_)) = failed {
                let next = latest.map_or(0, |latest| latest + 1);
                let next = store.commit(next, &[]).and_then(|_| store.persist(next));
                // A read that failed is tried again; a write is not.
                assert!(matches!(next, Ok(()) | Err(StoreError::Poisoned)), "{next:?}");
            }
            drop(store);
            // A fault that no call has met may meet the first opening.
            let store = open(&disk, SMALL).or_else(|_| open(&disk, SMALL)).unwrap();
            assert!(store.latest().map(|(version, _)| version) >= latest, "call {at}");
            if failed.is_err() && latest.is_none_or(|latest| latest < SCRIPT - 1) {
                continue;
            }
            check_all(&store, &models);
        }
    }
}

/// 6: no flipped bit is read as something else: an error, or the truth.
#[test]
fn no_flipped_bit_is_believed() {
    let batches = scripted();
    let models = models(&batches);
    let disk = SimDisk::new();
    run_script(&open(&disk, SMALL).unwrap(), &batches).unwrap();
    let mut found = 0;
    for name in disk.list().unwrap() {
        let good = disk.bytes(&name).unwrap();
        // The commit log is mostly zeros that nobody reads.
        let used = good.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for at in (0..used).step_by(if used > 10_000 { 7 } else { 1 }) {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            disk.damage(&name, bad);
            let read = || -> Result<(), StoreError> {
                let store = open(&disk, SMALL)?;
                let (latest, _) = store.latest().ok_or(StoreError::Poisoned)?;
                let model = &models[latest as usize];
                let mut seen = Model::new();
                store.scan(latest, &[], &mut |key, value| {
                    seen.insert(key.to_vec(), value.to_vec());
                })?;
                assert_eq!(&seen, model, "{name} at {at}");
                Ok(())
            };
            found += u32::from(read().is_err());
            // What the opening wrote goes too.
            disk.damage(&name, good.clone());
        }
    }
    assert!(found > 1_000, "{found}");
}

/// 18: readers of fixed versions beside a writer.
#[test]
fn readers_beside_the_writer() {
    let store = open(&SimDisk::new(), SMALL).unwrap();
    let batches: Vec<Vec<Write>> = {
        let mut random = StdRng::seed_from_u64(18);
        (0..40).map(|version| batch(&mut random, version, 500, 100)).collect()
    };
    let models = models(&batches);
    step(&store, 0, &batches[0]);
    std::thread::scope(|scope| {
        for reader in 0..2u64 {
            let (store, models) = (&store, &models);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(reader);
                loop {
                    let latest = store.latest().unwrap().0;
                    let version = random.random_range(0..=latest);
                    let key = random.random_range(0..500u32).to_be_bytes();
                    let expected = models[version as usize].get(&key[..]);
                    assert_eq!(store.get(version, &key).unwrap().as_ref(), expected);
                    assert_eq!(store.prove(version, &key).unwrap().value.as_ref(), expected);
                    if latest == 39 {
                        break;
                    }
                }
            });
        }
        for version in 1..40 {
            step(&store, version, &batches[version as usize]);
        }
    });
}
