//! Bytes on disk: what a format's files are to the byte, and that no bytes make a decoder panic.

use std::path::Path;
use std::sync::Arc;

use plasma_store::disk::Disk;
use plasma_store::export::{Head, read_chunk};
use plasma_store::hash::{Blake3, Domain, Hasher, Sha2};
use plasma_store::letus::Letus;
use plasma_store::location::Location;
use plasma_store::page_record::load;
use plasma_store::proof::Proof;
use plasma_store::sim::SimDisk;
use plasma_store::values::ValueRecord;
use plasma_store::{Commitment, Store};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::letus::{SMALL, batch, open, step};

/// A store of thirty versions, a pruning and a second opening, of format 2.
fn golden() -> SimDisk {
    let disk = SimDisk::new();
    let mut random = StdRng::seed_from_u64(2);
    let store = open(&disk, SMALL).unwrap();
    for version in 0..30 {
        step(&store, version, &batch(&mut random, version, 200, 60));
    }
    store.prune(28).unwrap();
    drop(store);
    let store = open(&disk, SMALL).unwrap();
    step(&store, 30, &batch(&mut random, 30, 200, 60));
    disk
}

/// 19, and the golden files: the same bytes each time, on each machine. Who changes them changes
/// the format, and its number.
#[test]
fn files_are_the_same_to_the_byte() {
    let disk = golden();
    let mut all = Vec::new();
    for name in disk.list().unwrap() {
        all.extend_from_slice(name.as_bytes());
        all.extend_from_slice(&disk.bytes(&name).unwrap());
    }
    let digest: String =
        Blake3::hash(Domain::Value, &[&all]).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, "bc4121bec1399448b4978df972038767acdbe4e6695fc2c0a1169722e7dce1bb");
}

/// A store whose files are any bytes, or its own with some bytes replaced.
fn damaged() -> impl Strategy<Value = Vec<(usize, usize, Vec<u8>)>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::vec((any::<usize>(), any::<usize>(), bytes), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let at = Location::new(1, 1).unwrap();
        let _ = ValueRecord::decode(at, &bytes);
        for tag in 0..5u8 {
            let body = [&[tag], &bytes[..]].concat();
            let read = |_| Ok::<_, ()>(body.clone());
            let _ = load(at, &[0; 32], read, |_, _| ());
        }
        let _ = Proof::decode(&bytes);
        let _ = Head::read::<Blake3>(&bytes, Commitment([1; 32]));
        prop_assert!(read_chunk::<Sha2>(&bytes, [1; 32]).is_err());
    }

    #[test]
    fn no_files_make_an_opening_panic(damage in damaged()) {
        let disk = golden();
        let names = disk.list().unwrap();
        for (file, at, bytes) in damage {
            let name = &names[file % names.len()];
            let mut all = disk.bytes(name).unwrap();
            // Most of the commit log is zeros.
            let used = all.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
            let at = at % used;
            let end = (at + bytes.len()).min(all.len());
            all.splice(at..end, bytes);
            disk.damage(name, all);
        }
        if let Ok(store) = <Letus>::open_on(Arc::new(disk), Path::new("sim"), SMALL) {
            let latest = store.latest().map_or(0, |(version, _)| version);
            let _ = store.audit(latest);
            let _ = store.trie(0).prove_at(28, b"key");
            let _ = store.changes(29, latest, &mut |_, _, _| ());
        }
    }
}
