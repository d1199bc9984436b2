//! Directories that are no store, or somebody else's.

use std::collections::BTreeMap;
use std::path::Path;

use plasma_store::jmt_sled::JmtSled;
use plasma_store::letus::Letus;
use plasma_store::{Store, StoreError};

use crate::letus::SMALL;

#[test]
fn a_store_in_use_is_locked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let first = JmtSled::open(&path, 1 << 20).unwrap();
    assert!(matches!(JmtSled::open(&path, 1 << 20), Err(StoreError::Locked { .. })));
    drop(first);
    assert_eq!(JmtSled::open(&path, 1 << 20).unwrap().latest(), None);
}

#[test]
fn foreign_directories_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("letter.txt"), "dear reader").unwrap();
    let opened = JmtSled::open(dir.path(), 1 << 20).map(drop);
    assert!(matches!(opened, Err(StoreError::Foreign { .. })));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was written");

    let other = dir.path().join("other");
    let db = sled::open(&other).unwrap();
    db.insert(b"m", b"another-scheme/1").unwrap();
    db.flush().unwrap();
    drop(db);
    match JmtSled::open(&other, 1 << 20).map(drop) {
        Err(StoreError::Foreign { found, .. }) => assert_eq!(found, "another-scheme/1"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_of_another_length_are_corruption() {
    let dir = tempfile::tempdir().unwrap();
    let store = JmtSled::open(dir.path(), 1 << 20).unwrap();
    store.commit(0, &[(b"k".to_vec(), Some(b"v".to_vec()))]).unwrap();
    store.persist(0).unwrap();
    drop(store);
    let db = sled::open(dir.path()).unwrap();
    // The value's key with a byte more, which sorts before that of the next version; half a change.
    let (key, value) = db.scan_prefix(b"v").next().unwrap().unwrap();
    db.insert([&key[..], b"!"].concat(), value).unwrap();
    db.insert(b"c!", b"").unwrap();
    db.flush().unwrap();
    drop(db);
    let store = JmtSled::open(dir.path(), 1 << 20).unwrap();
    store.commit(1, &[]).unwrap();
    store.persist(1).unwrap();
    assert!(matches!(store.get(1, b"k"), Err(StoreError::Corrupt(_))));
    let changes = store.changes(1, 1, &mut |_, _, _| ());
    assert!(matches!(changes, Err(StoreError::Corrupt(_))));
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn opening_to_read_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Letus::open(dir.path(), SMALL).unwrap();
    let key = b"k".to_vec();
    for version in 0..4u8 {
        store.commit(version.into(), &[(key.clone(), Some(vec![version]))]).unwrap();
        store.persist(version.into()).unwrap();
    }
    assert!(matches!(Letus::open_to_read(dir.path(), SMALL), Err(StoreError::Locked { .. })));
    let digest = store.digest(3).unwrap();
    drop(store);
    // A segment that no commit names, the end of a write that was cut off, a damaged copy.
    std::fs::write(dir.path().join("values-9.0"), "never acknowledged").unwrap();
    let mut commits = std::fs::read(dir.path().join("commits")).unwrap();
    let last = commits.len() - commits.len() % 512;
    let copy = (0..last).step_by(512).rev().find(|at| commits[*at..at + 512] != [0; 512]).unwrap();
    commits[copy + 7] ^= 1;
    std::fs::write(dir.path().join("commits"), &commits).unwrap();

    let before = files(dir.path());
    let store = Letus::open_to_read(dir.path(), SMALL).unwrap();
    assert!(store.open_report().repaired.is_some(), "{:?}", store.open_report());
    assert_eq!(store.get(3, b"k").unwrap(), Some(vec![3]));
    assert_eq!(store.get(0, b"k").unwrap(), Some(vec![0]));
    assert_eq!(store.digest(3).unwrap(), digest);
    assert_eq!(store.audit(3).unwrap(), 1);
    assert!(matches!(store.commit(4, &[(key, None)]), Err(StoreError::ReadOnly)));
    assert!(matches!(store.prune(2), Err(StoreError::ReadOnly)));
    drop(store);
    assert_eq!(files(dir.path()), before);

    let store = Letus::open(dir.path(), SMALL).unwrap();
    assert!(store.open_report().repaired.is_some(), "it was still to be repaired");
    assert!(!dir.path().join("values-9.0").exists());
}

#[test]
fn what_is_no_store_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| Letus::open_to_read(path, SMALL).map(drop).unwrap_err();
    let missing = dir.path().join("missing");
    assert!(matches!(open(&missing), StoreError::Missing { .. }));
    assert!(!missing.exists());
    let file = dir.path().join("file");
    std::fs::write(&file, "text").unwrap();
    assert!(matches!(open(&file), StoreError::Missing { .. }));
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(matches!(open(&empty), StoreError::Missing { .. }));
    let sled = dir.path().join("sled");
    drop(JmtSled::open(&sled, 1 << 20).unwrap());
    assert!(matches!(open(&sled), StoreError::Foreign { .. }));
}
