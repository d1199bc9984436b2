//! kill -9 of a real process while it writes: what was acknowledged is there, and nothing is half.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use plasma_store::hash::{Blake3, Hasher};
use plasma_store::{Store, Write, jmt_sled};

/// Set in the child: the scheme, and the directory to write to.
const WRITER: &str = "PLASMA_STORE_TEST_WRITER";
const KILLS: u64 = 36;

fn open(scheme: &str, dir: &Path) -> Arc<dyn Store> {
    plasma_store::open(scheme, dir, 1 << 20, 2).unwrap()
}

/// Every version rewrites a counter and some keys, so that a mixture of two versions shows.
fn batch(version: u64) -> Vec<Write> {
    let value = version.to_be_bytes().to_vec();
    let key = |i: u64| [&b"k"[..], &i.to_be_bytes()].concat();
    let mut batch: Vec<Write> =
        (0..20).map(|i| (key((version * 7 + i * 13) % 101), Some(value.clone()))).collect();
    batch.push((b"counter".to_vec(), Some(value)));
    batch
}

/// Not a test of its own: the process that is killed.
#[test]
fn writer() {
    let Ok(arguments) = std::env::var(WRITER) else { return };
    let (scheme, dir) = arguments.split_once(' ').unwrap();
    let store = open(scheme, Path::new(dir));
    let mut version = store.latest().map_or(0, |(version, _)| version + 1);
    loop {
        store.commit(version, &batch(version)).unwrap();
        store.persist(version).unwrap();
        println!("persisted {version}");
        version += 1;
    }
}

/// 5.
#[test]
fn a_killed_writer_loses_nothing_acknowledged() {
    [jmt_sled::SCHEME, Blake3::SCHEME].iter().for_each(|scheme| kill(scheme));
}

fn kill(scheme: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut acknowledged = None;
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crashes::writer", "--exact", "--nocapture"])
            .env(WRITER, format!("{scheme} {}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let wanted = 3 + round * 5 % 17;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let persisted = lines
            .map_while(Result::ok)
            .filter_map(|line| line.rsplit_once("persisted ")?.1.parse::<u64>().ok());
        acknowledged = persisted.take(wanted as usize).last().or(acknowledged);
        child.kill().unwrap();
        child.wait().unwrap();
        check(&*open(scheme, &path), acknowledged.unwrap());
    }
}

/// The store holds exactly the state of its latest version, which is no older than `acknowledged`.
fn check(store: &dyn Store, acknowledged: u64) {
    let (latest, commitment) = store.latest().unwrap();
    assert!(latest >= acknowledged, "{latest} < {acknowledged}");
    let mut expected = std::collections::BTreeMap::new();
    for version in 0..=latest {
        expected.extend(batch(version));
    }
    for (key, value) in expected {
        let proven = store.prove(latest, &key).unwrap();
        assert_eq!(proven.value, value, "version {latest}");
        let value = value.as_deref();
        plasma_store::verify(store.scheme(), commitment, &key, value, &proven.proof).unwrap();
    }
}
