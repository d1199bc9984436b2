//! The LETUS engine against a map per version and the naive tree. Numbers before tests are those of
//! store.md's list.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plasma_store::commitment::StateProof;
use plasma_store::hash::{Blake3, Domain, Hash, Hasher};
use plasma_store::letus::{self, Letus, Options, verify_at};
use plasma_store::proof::value_hash;
use plasma_store::sim::SimDisk;
use plasma_store::tree::{Leaf, path_of, root};
use plasma_store::{Commitment, Store, StoreError, Write, verify};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Borders are met often.
pub const SMALL: Options = Options {
    cache_bytes: 20_000,
    workers: 3,
    segment_bytes: 16_384,
    base_ratio: 1,
    deltas_max: 3,
};

pub fn open(disk: &SimDisk, options: Options) -> Result<Letus, StoreError> {
    Letus::open_on(Arc::new(disk.clone()), Path::new("sim"), options)
}

/// A batch over `keys` keys, with a share of deletions that grows and shrinks over the versions.
pub fn batch(random: &mut StdRng, version: u64, keys: u32, writes: usize) -> Vec<Write> {
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

pub fn apply(model: &mut Model, batch: &[Write]) {
    for (key, value) in batch {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
}

pub fn naive_root(model: &Model) -> Hash {
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

pub fn root_at(store: &Letus, version: u64) -> Hash {
    StateProof::decode(&store.prove(version, b"any").unwrap().proof).unwrap().anchor.at.root
}

pub fn step(store: &Letus, version: u64, batch: &[Write]) -> Commitment {
    let commitment = store.commit(version, batch).unwrap();
    store.persist(version).unwrap();
    commitment
}

/// Every fact of a version about some keys.
pub fn check(store: &Letus, version: u64, commitment: Commitment, model: &Model, keys: &[u32]) {
    assert_eq!(root_at(store, version), naive_root(model), "version {version}");
    let newest = store.latest().unwrap().1;
    for key in keys {
        let key = key.to_be_bytes();
        let value = model.get(&key[..]).map(Vec::as_slice);
        assert_eq!(store.get(version, &key).unwrap().as_deref(), value);
        let proven = store.prove(version, &key).unwrap();
        assert_eq!(proven.value.as_deref(), value);
        verify(store.scheme(), commitment, &key, value, &proven.proof).unwrap();
        let later = store.trie(0).prove_at(version, &key).unwrap();
        assert_eq!(verify_at::<Blake3>(newest, (0, &key), value, &later.proof), Ok(version));
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

/// 12: whatever was inserted and deleted before, in whatever order, the root is that of the pairs.
#[test]
fn roots_of_up_to_two_hundred_keys_in_any_order() {
    let store = open(&SimDisk::new(), SMALL).unwrap();
    let mut random = StdRng::seed_from_u64(12);
    let mut model = Model::new();
    for version in 0..400 {
        let key = |random: &mut StdRng| random.random_range(0..200u32).to_be_bytes().to_vec();
        let write = match random.random_ratio(version.min(200) as u32, 300) {
            true => (model.keys().next().cloned().unwrap_or_else(|| key(&mut random)), None),
            false => (key(&mut random), Some(vec![random.random()])),
        };
        step(&store, version, std::slice::from_ref(&write));
        apply(&mut model, &[write]);
        assert_eq!(root_at(&store, version), naive_root(&model), "version {version}");
    }
    for count in 0..=200u32 {
        let batch: Vec<Write> =
            (0..count).map(|i| (i.to_be_bytes().to_vec(), Some(vec![i as u8]))).collect();
        let store = open(&SimDisk::new(), SMALL).unwrap();
        step(&store, 0, &batch);
        let mut model = Model::new();
        apply(&mut model, &batch);
        assert_eq!(root_at(&store, 0), naive_root(&model), "{count} keys");
    }
}

/// BLAKE3, but the first `SHARED` bytes of all paths agree.
#[derive(Clone, Copy)]
struct Near<const SHARED: usize>;

impl<const SHARED: usize> Hasher for Near<SHARED> {
    const SCHEME: &'static str = "letus-near/1";

    fn hash(domain: Domain, parts: &[&[u8]]) -> Hash {
        let mut hash = Blake3::hash(domain, parts);
        if domain == Domain::Path {
            hash[..SHARED].fill(0);
        }
        hash
    }
}

/// 23: keys whose paths share 40 bits, and more, still are a map with the naive root.
#[test]
fn paths_that_share_many_bits() {
    near::<5>(10_000);
    near::<16>(500);
    near::<30>(200);
}

fn near<const SHARED: usize>(count: u32) {
    let disk = Arc::new(SimDisk::new());
    let name = Path::new("sim");
    let store = Letus::<Near<SHARED>>::open_on(disk.clone(), name, SMALL).unwrap();
    let key = |i: u32| i.to_be_bytes().to_vec();
    let batches: [Vec<Write>; 2] = [
        (0..count).map(|i| (key(i), Some(vec![1]))).collect(),
        (0..count).filter(|i| i % 3 > 0).map(|i| (key(i), (i % 3 > 1).then(|| vec![2]))).collect(),
    ];
    let mut model = Model::new();
    for (version, batch) in (0..).zip(&batches) {
        let commitment = store.commit(version, batch).unwrap();
        store.persist(version).unwrap();
        apply(&mut model, batch);
        let mut leaves: Vec<Leaf> = model
            .iter()
            .map(|(key, value)| Leaf {
                path: path_of::<Near<SHARED>>(0, key),
                value: value_hash::<Near<SHARED>>(value),
            })
            .collect();
        leaves.sort_unstable_by_key(|leaf| leaf.path);
        let root = root::<Near<SHARED>>(&leaves);
        for i in (0..count).step_by(7) {
            let proven = store.prove(version, &key(i)).unwrap();
            let value = model.get(&key(i)).map(Vec::as_slice);
            assert_eq!(proven.value.as_deref(), value);
            assert_eq!(StateProof::decode(&proven.proof).unwrap().anchor.at.root, root);
            let verified = letus::verify::<Near<SHARED>>(commitment, &key(i), value, &proven.proof);
            assert_eq!(verified, Ok(()));
        }
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

pub fn models(batches: &[Vec<Write>]) -> Vec<Model> {
    let mut model = Model::new();
    let after = |batch: &Vec<Write>| {
        apply(&mut model, batch);
        model.clone()
    };
    batches.iter().map(after).collect()
}

/// Set when a thread ends, also by a panic, so that the others end too.
pub struct Done<'a>(pub &'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
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
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2u64 {
            let (store, models, done) = (&store, &models, &done);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(reader);
                loop {
                    let latest = store.latest().unwrap().0;
                    let version = random.random_range(0..=latest);
                    let key = random.random_range(0..500u32).to_be_bytes();
                    let expected = models[version as usize].get(&key[..]);
                    assert_eq!(store.get(version, &key).unwrap().as_ref(), expected);
                    assert_eq!(store.prove(version, &key).unwrap().value.as_ref(), expected);
                    if latest == 39 || done.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
        }
        let _done = Done(&done);
        for version in 1..40 {
            step(&store, version, &batches[version as usize]);
        }
    });
}
