//! Directories that are no store, or somebody else's.

use plasma_store::jmt_sled::JmtSled;
use plasma_store::{Store, StoreError};

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
