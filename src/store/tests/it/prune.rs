//! Pruning gives space back and loses nothing that is kept. Numbers before tests are those of
//! store.md's list.

use std::sync::atomic::{AtomicBool, Ordering};

use plasma_store::disk::Disk;
use plasma_store::letus::{Letus, Options};
use plasma_store::sim::{Fault, SimDisk};
use plasma_store::{Commitment, Store, StoreError, Write};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::letus::{Done, Model, SMALL, batch, check, models, open, step};

/// Segments of a few records.
const SHORT: Options = Options { segment_bytes: 2_048, ..SMALL };

fn check_from(store: &Letus, oldest: u64, facts: &[(Commitment, Model)]) {
    assert_eq!(store.oldest(), oldest);
    let latest = store.latest().unwrap().0;
    for version in 0..oldest {
        let refused = store.get(version, b"any");
        assert!(matches!(refused, Err(StoreError::Pruned { oldest: o, .. }) if o == oldest));
        let refused = store.changes(version, latest, &mut |_, _, _| ());
        assert!(matches!(refused, Err(StoreError::Pruned { .. })));
    }
    for version in oldest..=latest {
        let (commitment, model) = &facts[version as usize];
        check(store, version, *commitment, model, &[0, 1, 7, 40, 99]);
        let mut scanned = Model::new();
        store
            .scan(version, &[], &mut |key, value| {
                scanned.insert(key.to_vec(), value.to_vec());
            })
            .unwrap();
        assert_eq!(&scanned, model, "version {version}");
        assert_eq!(store.audit(version).unwrap(), model.len() as u64);
        assert_eq!(store.digest(version).unwrap(), *commitment);
        check_history(store, version, oldest, facts);
    }
    let mut last = facts[oldest as usize].1.clone();
    if oldest < latest {
        store
            .changes(oldest + 1, latest, &mut |_, key, value| {
                match value {
                    Some(value) => last.insert(key.to_vec(), value.to_vec()),
                    None => last.remove(key),
                };
            })
            .unwrap();
    }
    assert_eq!(last, facts[latest as usize].1, "changes from {oldest}");
}

/// The values of a key that the versions had, newest first, as far back as they are kept.
fn check_history(store: &Letus, version: u64, oldest: u64, facts: &[(Commitment, Model)]) {
    for key in [3u32, 50].map(|key| key.to_be_bytes().to_vec()) {
        let mut seen = Vec::new();
        store
            .trie(0)
            .history(version, &key, &mut |v, value| seen.push((v, value.map(<[u8]>::to_vec))))
            .unwrap();
        let at = |version: u64| facts[version as usize].1.get(&key).cloned();
        let before = |version: u64| version.checked_sub(1).and_then(at);
        let mut expected: Vec<_> = (oldest + 1..=version)
            .rev()
            .filter(|version| at(*version) != before(*version))
            .map(|version| (version, at(version)))
            .collect();
        // What the oldest version had, since whenever.
        let first = seen.last().filter(|(version, _)| *version <= oldest).cloned();
        match &first {
            Some((_, value)) => assert_eq!(value, &at(oldest)),
            None => assert_eq!(at(oldest), None),
        }
        expected.extend(first);
        assert_eq!(seen, expected);
    }
}

/// Versions of the script with their facts, on a disk of their own.
fn written(seed: u64, versions: u64) -> (SimDisk, Vec<Vec<Write>>, Vec<(Commitment, Model)>) {
    let mut random = StdRng::seed_from_u64(seed);
    let batches: Vec<Vec<Write>> =
        (0..versions).map(|version| batch(&mut random, version, 120, 25)).collect();
    let disk = SimDisk::new();
    let store = open(&disk, SHORT).unwrap();
    let commitments: Vec<Commitment> =
        (0..).zip(&batches).map(|(version, batch)| step(&store, version, batch)).collect();
    let facts = commitments.into_iter().zip(models(&batches)).collect();
    (disk, batches, facts)
}

fn bytes(disk: &SimDisk) -> usize {
    let streams = ["values-", "pages-"];
    let names = disk.list().unwrap();
    let of_streams = names.iter().filter(|name| streams.iter().any(|s| name.starts_with(s)));
    of_streams.map(|name| disk.bytes(name).unwrap().len()).sum()
}

/// 16, 19: whatever is pruned when, also across openings, what is kept is as if nothing was.
#[test]
fn pruned_stores_keep_the_rest() {
    let (mut dropped, mut compacted) = (0, 0);
    for seed in 0..4 {
        let (_, batches, facts) = written(seed, 60);
        let mut random = StdRng::seed_from_u64(seed);
        let disk = SimDisk::new();
        let mut store = open(&disk, SHORT).unwrap();
        let mut oldest = 0;
        for (version, batch) in (0..).zip(&batches) {
            assert_eq!(step(&store, version, batch), facts[version as usize].0);
            if random.random_ratio(1, 5) {
                let asked = random.random_range(0..=version);
                let before = bytes(&disk);
                let pruned = store.prune(asked).unwrap();
                oldest = asked.max(oldest);
                assert_eq!(pruned.oldest, oldest);
                assert_eq!(pruned.bytes as usize, before - bytes(&disk));
                (dropped, compacted) = (dropped + pruned.dropped, compacted + pruned.compacted);
                check_from(&store, oldest, &facts);
            }
            if random.random_ratio(1, 7) {
                drop(store);
                store = open(&disk, SHORT).unwrap();
                check_from(&store, oldest, &facts);
            }
        }
        assert!(matches!(store.prune(60), Err(StoreError::Version { asked: 60, .. })));
    }
    assert!(dropped > 100 && compacted > 20, "{dropped} dropped, {compacted} compacted");
}

/// 16: the power goes at any I/O call of a pruning: it has happened or it has not, and it can be
/// done again.
#[test]
fn power_loss_inside_prune() {
    let (disk, batches, facts) = written(16, 30);
    let names = disk.list().unwrap();
    let files: Vec<(String, Vec<u8>)> =
        names.into_iter().map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect();
    let fresh = || {
        let disk = SimDisk::new();
        for (name, bytes) in &files {
            let len = if name == "commits" { 65_536 } else { bytes.len() };
            disk.damage(name, bytes[..len].to_vec());
        }
        disk
    };
    let calls = {
        let disk = fresh();
        let store = open(&disk, SHORT).unwrap();
        let before = disk.calls();
        let pruned = store.prune(25).unwrap();
        assert!(pruned.dropped > 5 && pruned.compacted > 1, "{pruned:?}");
        disk.calls() - before
    };
    let mut outcomes = [0, 0];
    for at in 1..=calls {
        for fault in [Fault::PowerLoss, Fault::Error] {
            let disk = fresh();
            let store = open(&disk, SHORT).unwrap();
            disk.inject(at, fault);
            if store.prune(25).is_ok() {
                // The commit record is read from its copy then.
                assert!(at == 1 && fault == Fault::Error, "call {at}: {fault:?}");
                continue;
            }
            if fault == Fault::Error {
                check_from(&store, store.oldest(), &facts);
                assert!(matches!(store.prune(26), Err(StoreError::Poisoned)));
                step(&store, 30, &batches[0]);
            }
            drop(store);
            disk.crash(at);
            let store = open(&disk, SHORT).unwrap_or_else(|e| panic!("call {at}: {e}"));
            let oldest = store.oldest();
            assert!([0, 25].contains(&oldest));
            outcomes[usize::from(oldest == 25)] += 1;
            if store.latest().unwrap().0 == 29 {
                check_from(&store, oldest, &facts);
            }
            store.prune(27).unwrap();
            let model = &facts[28].1;
            check(&store, 28, facts[28].0, model, &[3, 5, 90]);
        }
    }
    assert!(outcomes.iter().all(|count| *count > 4), "{outcomes:?}");
}

/// 17, 18: readers of pinned and of new versions beside a writer and a pruner.
#[test]
fn readers_beside_writer_and_pruner() {
    let (_, batches, facts) = written(17, 120);
    let store = open(&SimDisk::new(), SHORT).unwrap();
    step(&store, 0, &batches[0]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (store, facts, done) = (&store, &facts, &done);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(seed);
                while !done.load(Ordering::SeqCst) {
                    let latest = store.latest().unwrap().0;
                    let version = random.random_range(store.oldest().min(latest)..=latest);
                    let Ok(_pin) = store.pin(version) else { continue };
                    for _ in 0..10 {
                        let key = random.random_range(0..120u32).to_be_bytes();
                        let expected = facts[version as usize].1.get(&key[..]);
                        assert_eq!(store.get(version, &key).unwrap().as_ref(), expected);
                        let proven = store.trie(0).prove_at(version, &key).unwrap();
                        assert_eq!(proven.value.as_ref(), expected);
                    }
                }
            });
        }
        let (store, done) = (&store, &done);
        let writing = Done(done);
        scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                let latest = store.latest().unwrap().0;
                store.prune(latest.saturating_sub(5)).unwrap();
            }
        });
        for version in 1..120 {
            assert_eq!(step(store, version, &batches[version as usize]), facts[version as usize].0);
        }
        drop(writing);
    });
    let pin = store.pin(119).unwrap();
    step(&store, 120, &[]);
    assert_eq!(store.prune(120).unwrap().oldest, 119, "the pinned version stays");
    drop(pin);
    assert_eq!(store.prune(120).unwrap().oldest, 120);
}

/// The disk holds what is needed, not what was written: when all is overwritten again and again,
/// when some keys never are, and when keys come and go.
#[test]
fn a_pruned_disk_is_bounded() {
    let disk = SimDisk::new();
    let mut store = open(&disk, SHORT).unwrap();
    let mut sizes = Vec::new();
    let key = |i: u64| i.to_be_bytes().to_vec();
    for version in 0..400u64 {
        let mut batch: Vec<Write> =
            (0..20).map(|i| (key(i), Some(version.to_be_bytes().repeat(4)))).collect();
        // Sixty cold keys, in segments between the hot ones.
        batch.extend((version < 60).then(|| (key(1_000 + version), Some(vec![1; 32]))));
        // Each version's own key, deleted by the next.
        batch.push((key(2_000 + version), Some(vec![2; 32])));
        batch.extend(version.checked_sub(1).map(|before| (key(2_000 + before), None)));
        step(&store, version, &batch);
        if version % 10 == 9 {
            store.prune(version - 3).unwrap();
            sizes.push(bytes(&disk));
        }
        if version % 100 == 99 {
            drop(store);
            store = open(&disk, SHORT).unwrap();
        }
    }
    let early = sizes[8..14].iter().max().unwrap();
    let late = sizes[30..].iter().max().unwrap();
    assert!(late * 2 < early * 3, "{sizes:?}");
    assert!(*late < 150_000, "{sizes:?}");
    for i in 0..60 {
        assert_eq!(store.get(399, &key(1_000 + i)).unwrap(), Some(vec![1; 32]));
    }
}
