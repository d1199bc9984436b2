//! A version goes to another store in chunks. 21 of store.md's list of tests.

use std::path::Path;
use std::sync::Arc;

use plasma_store::export::{CHUNK_BYTES, Head};
use plasma_store::hash::{Blake3, Sha2};
use plasma_store::import::{Import, ImportError};
use plasma_store::letus::{Letus, Options};
use plasma_store::sim::{Fault, SimDisk};
use plasma_store::{Commitment, Store, StoreError, Write};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::letus::{Model, SMALL, batch, check, models, open, step};

const VERSIONS: u64 = 12;

/// A store of some versions, with their facts.
fn written(keys: u32, writes: usize) -> (SimDisk, Letus, Vec<(Commitment, Model)>) {
    let mut random = StdRng::seed_from_u64(21);
    let batches: Vec<Vec<Write>> =
        (0..VERSIONS).map(|version| batch(&mut random, version, keys, writes)).collect();
    let disk = SimDisk::new();
    let store = open(&disk, SMALL).unwrap();
    let commitments: Vec<Commitment> =
        (0..).zip(&batches).map(|(version, batch)| step(&store, version, batch)).collect();
    (disk, store, commitments.into_iter().zip(models(&batches)).collect())
}

fn chunks(store: &Letus, version: u64, bytes: u64) -> Vec<Vec<u8>> {
    let export = store.export(version, bytes).unwrap();
    let all = (0..export.chunks()).map(|i| export.chunk(i).unwrap().unwrap()).collect();
    assert_eq!(export.chunk(export.chunks()).unwrap(), None);
    all
}

fn import(
    disk: &SimDisk,
    commitment: Commitment,
    chunks: &[Vec<u8>],
) -> Result<Letus, ImportError> {
    let (disk, name) = (Arc::new(disk.clone()), Path::new("sim"));
    let mut import = Import::<Blake3>::begin(disk, name, SMALL, commitment, &chunks[0])?;
    for (number, chunk) in (1..).zip(&chunks[1..]) {
        assert_eq!(import.next(), Some(number));
        import.chunk(chunk)?;
    }
    import.finish()
}

fn check_imported(store: &Letus, version: u64, facts: &[(Commitment, Model)]) {
    let (commitment, model) = &facts[version as usize];
    assert_eq!(store.oldest(), version);
    check(store, version, *commitment, model, &(0..40).collect::<Vec<u32>>());
    assert_eq!(store.audit(version).unwrap(), model.len() as u64);
    for earlier in 0..version {
        assert!(matches!(store.get(earlier, b"any"), Err(StoreError::Pruned { .. })));
    }
}

#[test]
fn an_imported_store_goes_on_like_the_other() {
    let (_, store, facts) = written(300, 150);
    for (version, bytes) in [(0, 1), (5, 300), (5, 4_000), (11, 50), (7, CHUNK_BYTES)] {
        let sent = chunks(&store, version, bytes);
        assert!(sent.len() == 2 || bytes < CHUNK_BYTES);
        let disk = SimDisk::new();
        let commitment = facts[version as usize].0;
        let mut other = import(&disk, commitment, &sent).unwrap();
        check_imported(&other, version, &facts);
        assert_eq!(chunks(&other, version, bytes), sent, "a function of the pairs alone");
        for next in version + 1..VERSIONS {
            let mut batch: Vec<Write> = Vec::new();
            store
                .changes(next, next, &mut |_, key, value| {
                    batch.push((key.to_vec(), value.map(<[u8]>::to_vec)));
                })
                .unwrap();
            assert_eq!(step(&other, next, &batch), facts[next as usize].0);
            check_imported(&other, version, &facts);
            if next % 3 == 0 {
                drop(other);
                other = open(&disk, SMALL).unwrap();
            }
        }
        other.prune(VERSIONS - 1).unwrap();
        check_imported(&other, VERSIONS - 1, &facts);
    }
}

#[test]
fn an_empty_version_is_sent_too() {
    let store = open(&SimDisk::new(), SMALL).unwrap();
    let commitment = step(&store, 0, &[]);
    let sent = chunks(&store, 0, CHUNK_BYTES);
    let other = import(&SimDisk::new(), commitment, &sent).unwrap();
    let batch = [(b"key".to_vec(), Some(b"value".to_vec()))];
    assert_eq!(step(&other, 1, &batch), step(&store, 1, &batch));
}

#[test]
fn wrong_chunks_are_refused_one_by_one() {
    let (_, store, facts) = written(40, 20);
    let commitment = facts[11].0;
    let sent = chunks(&store, 11, 400);
    assert!(sent.len() > 4, "{}", sent.len());
    let begin = |chunk: &[u8]| {
        let disk = Arc::new(SimDisk::new());
        Import::<Blake3>::begin(disk, Path::new("sim"), SMALL, commitment, chunk)
    };
    let refused = |result: Result<(), ImportError>| {
        assert!(matches!(result, Err(ImportError::Chunk(_))), "{result:?}");
    };
    let head = &sent[0];
    for at in 0..head.len() {
        let mut bad = head.clone();
        bad[at] ^= 1 << (at % 8);
        // The number of chunks is only a hint, the tree says when all are there.
        if !(49..53).contains(&at) {
            assert!(Head::read::<Blake3>(&bad, commitment).is_err(), "byte {at}");
        }
        assert!(Head::read::<Blake3>(&head[..at], commitment).is_err());
    }
    assert!(Head::read::<Blake3>(&[&head[..], &[0]].concat(), commitment).is_err());
    assert!(Head::read::<Blake3>(head, facts[10].0).is_err());
    assert!(Head::read::<Sha2>(head, commitment).is_err());
    let mut import = begin(head).unwrap();
    for (number, chunk) in (1..).zip(&sent[1..]) {
        for at in 0..chunk.len() {
            let mut bad = chunk.clone();
            bad[at] ^= 1 << (at % 8);
            refused(import.chunk(&bad));
            refused(import.chunk(&chunk[..at]));
        }
        refused(import.chunk(&[&chunk[..], &[0]].concat()));
        // Another one, also if it is good at its time; one of another version.
        let others = (1..).zip(&sent[1..]).filter(|(other, _)| *other != number);
        others.for_each(|(_, other)| refused(import.chunk(other)));
        chunks(&store, 10, 400)[1..].iter().for_each(|other| refused(import.chunk(other)));
        import.chunk(chunk).unwrap();
    }
    check_imported(&import.finish().unwrap(), 11, &facts);
    let mut import = begin(head).unwrap();
    import.chunk(&sent[1]).unwrap();
    assert!(matches!(import.finish(), Err(ImportError::Chunk(_))), "chunks are missing");
    let full = Arc::new(SimDisk::new());
    step(&open(&full, SMALL).unwrap(), 0, &[]);
    let begun = Import::<Blake3>::begin(full, Path::new("sim"), SMALL, commitment, head);
    assert!(matches!(begun.map(drop), Err(ImportError::Store(StoreError::Foreign { .. }))));
}

/// The power goes at any call: all of the version is there or nothing, and it can be begun again.
#[test]
fn power_loss_inside_import() {
    let (_, store, facts) = written(60, 30);
    let commitment = facts[11].0;
    let sent = chunks(&store, 11, 900);
    let calm = SimDisk::new();
    import(&calm, commitment, &sent).unwrap();
    let mut outcomes = [0, 0];
    for at in 1..=calm.calls() {
        for seed in 0..3 {
            let disk = SimDisk::new();
            disk.inject(at, Fault::PowerLoss);
            let done = import(&disk, commitment, &sent).is_ok();
            disk.crash(at * 7 + seed);
            let found = open(&disk, SMALL).unwrap_or_else(|e| panic!("call {at}: {e}"));
            let whole = found.latest().is_some();
            assert!(whole || !done);
            outcomes[usize::from(whole)] += 1;
            if whole {
                check_imported(&found, 11, &facts);
                continue;
            }
            drop(found);
            let other = import(&disk, commitment, &sent).unwrap();
            check_imported(&other, 11, &facts);
        }
    }
    assert!(outcomes[0] > 20 && outcomes[1] > 0, "{outcomes:?}");
}

#[test]
fn what_is_being_sent_is_not_pruned() {
    let (_, store, facts) = written(200, 100);
    let sent = chunks(&store, 4, 500);
    let export = store.export(4, 500).unwrap();
    assert_eq!(store.prune(11).unwrap().oldest, 4);
    let again: Vec<Vec<u8>> =
        (0..export.chunks()).map(|i| export.chunk(i).unwrap().unwrap()).collect();
    assert_eq!(again, sent);
    drop(export);
    assert_eq!(store.prune(11).unwrap().oldest, 11);
    assert!(matches!(store.export(4, 500).map(drop), Err(StoreError::Pruned { .. })));
    let other = import(&SimDisk::new(), facts[4].0, &sent).unwrap();
    assert_eq!(other.latest(), Some((4, facts[4].0)));
    let options = Options::default();
    let full = Import::<Sha2>::begin(
        Arc::new(SimDisk::new()),
        Path::new("sim"),
        options,
        facts[4].0,
        &sent[0],
    );
    assert!(full.is_err(), "another hash");
}
