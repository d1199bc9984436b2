//! The LETUS engine against crashes, faults and damage. Numbers before tests are those of
//! store.md's list.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use plasma_store::disk::{Disk, DiskFile, Mode};
use plasma_store::letus::Letus;
use plasma_store::sim::{Fault, SimDisk};
use plasma_store::{Store, StoreError, Write};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::letus::{Model, SMALL, batch, models, naive_root, open, root_at, step};

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
                // A read that failed is tried again; a write is not.
                let again = run_script(&store, &batches);
                assert!(matches!(again, Ok(()) | Err(StoreError::Poisoned)), "{again:?}");
            }
            drop(store);
            // A fault that no call has met may meet the first opening.
            let store = open(&disk, SMALL).or_else(|_| open(&disk, SMALL)).unwrap();
            assert!(store.latest().map(|(version, _)| version) >= latest, "call {at}");
            check_all(&store, &models);
            if failed.is_ok() {
                assert_eq!(latest, Some(SCRIPT - 1));
            }
        }
    }
}

/// A finished script's disk.
fn finished(batches: &[Vec<Write>]) -> SimDisk {
    let disk = SimDisk::new();
    run_script(&open(&disk, SMALL).unwrap(), batches).unwrap();
    disk
}

/// The files of a disk, of which damaged copies are made.
struct Original(Vec<(String, Vec<u8>)>);

impl Original {
    fn of(disk: &SimDisk) -> Self {
        let file = |name: String| {
            let mut bytes = disk.bytes(&name).unwrap();
            if name == "commits" {
                // Zeros that the log has grown by: the same to a reader, and faster to copy.
                bytes.truncate(16_384);
            }
            (name, bytes)
        };
        Self(disk.list().unwrap().into_iter().map(file).collect())
    }

    /// A disk with these files, but one has other bytes.
    fn with(&self, other: &str, bytes: Vec<u8>) -> SimDisk {
        let disk = SimDisk::new();
        self.0.iter().for_each(|(name, bytes)| disk.damage(name, bytes.clone()));
        disk.damage(other, bytes);
        disk
    }
}

/// Opens and reads everything: the newest version that was found, all of whose facts are true and
/// provable, or an error that says where the damage is.
fn read_all(disk: &SimDisk, models: &[Model]) -> Result<Option<u64>, StoreError> {
    let store = open(disk, SMALL)?;
    let Some((latest, _)) = store.latest() else { return Ok(None) };
    for version in 0..=latest {
        let model = &models[version as usize];
        let mut seen = Model::new();
        store.scan(version, &[], &mut |key, value| {
            seen.insert(key.to_vec(), value.to_vec());
        })?;
        assert_eq!(&seen, model, "version {version}");
        for (key, value) in model.iter().step_by(17) {
            assert_eq!(store.get(version, key)?.as_ref(), Some(value));
        }
        assert_eq!(try_root(&store, version)?, naive_root(model));
        assert_eq!(store.audit(version)?, model.len() as u64);
    }
    Ok(Some(latest))
}

fn try_root(store: &Letus, version: u64) -> Result<plasma_store::hash::Hash, StoreError> {
    store.prove(version, b"any")?;
    Ok(root_at(store, version))
}

fn names_a_place(error: &StoreError) -> bool {
    match error {
        StoreError::Corrupt(what) => ["values", "pages", "commits", "range", "manifest", "frames"]
            .iter()
            .any(|place| what.contains(place)),
        StoreError::Foreign { .. } | StoreError::Format { .. } => true,
        _ => false,
    }
}

/// 1, 2: a tail is cut, or zeros, from any byte of the last three blocks on. Of the commit log:
/// the store goes back to the last whole record. Of a stream: what a record names was synced before
/// it, so this is no crash but a loss, and it is said, with its place.
#[test]
fn cut_tails() {
    let batches = scripted();
    let models = models(&batches);
    let original = Original::of(&finished(&batches));
    for (name, bytes) in &original.0 {
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let from = used.saturating_sub(if name == "commits" { 1_700 } else { 12_000 });
        let step = if used - from > 5_000 { 11 } else { 1 };
        for at in (from..used).step_by(step) {
            for zeros in [false, true] {
                let mut cut = bytes[..at].to_vec();
                if zeros {
                    cut.resize(bytes.len(), 0);
                }
                match read_all(&original.with(name, cut), &models) {
                    Ok(latest) if name == "commits" => assert!(latest < Some(SCRIPT)),
                    Ok(latest) => assert_eq!(latest, Some(SCRIPT - 1), "{name} to {at}"),
                    Err(error) => assert!(names_a_place(&error), "{name} to {at}: {error}"),
                }
            }
        }
    }
    // A store that has lost its log is not an empty store.
    for commits in [vec![], vec![0; 16_384]] {
        let lost = read_all(&original.with("commits", commits), &models).unwrap_err();
        assert!(matches!(&lost, StoreError::Corrupt(what) if what.contains("lost")), "{lost}");
    }
    // The copies of the last record stand 4 KiB apart: without the second, it is repaired; without
    // both, its commit is not there.
    let (_, commits) = original.0.iter().find(|(name, _)| name == "commits").unwrap();
    let last = (SCRIPT as usize - 1) * 512;
    for (cuts, latest) in [(vec![last], SCRIPT - 1), (vec![last, last + 4_096], SCRIPT - 2)] {
        let mut torn = commits.clone();
        cuts.iter().for_each(|cut| torn[cut + 100..cut + 512].fill(0));
        let disk = original.with("commits", torn);
        let store = open(&disk, SMALL).unwrap();
        assert_eq!(store.latest().unwrap().0, latest);
        let report = store.open_report();
        assert_eq!(report.repaired, (cuts.len() == 1).then_some(SCRIPT - 1));
        assert_eq!(report.cut, (cuts.len() == 2).then_some(SCRIPT - 1));
        drop(store);
        assert_eq!(read_all(&disk, &models).unwrap(), Some(latest));
    }
}

/// 6: no flipped bit is read as something else: the truth, or an error with its place.
#[test]
fn no_flipped_bit_is_believed() {
    let batches = scripted();
    let models = models(&batches);
    let original = Original::of(&finished(&batches));
    let mut found = 0;
    for (name, good) in &original.0 {
        // The commit log is mostly zeros that nobody reads.
        let used = good.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for at in (0..used).step_by(if used > 5_000 { 7 } else { 1 }) {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            match read_all(&original.with(name, bad), &models) {
                Ok(latest) => assert!(latest < Some(SCRIPT), "{name} at {at}"),
                Err(error) => {
                    assert!(names_a_place(&error), "{name} at {at}: {error}");
                    found += 1;
                }
            }
        }
    }
    assert!(found > 1_000, "{found}");
}

/// 7: a file in another's place, of the same store or of an earlier time.
#[test]
fn swapped_and_stale_files() {
    let batches = scripted();
    let models = models(&batches);
    let disk = SimDisk::new();
    run_script(&open(&disk, SMALL).unwrap(), &batches[..3]).unwrap();
    let early = Original::of(&disk);
    run_script(&open(&disk, SMALL).unwrap(), &batches).unwrap();
    let original = Original::of(&disk);
    let (mut refused, mut others) = (0, 0);
    for (name, _) in &original.0 {
        for (other, bytes) in original.0.iter().chain(&early.0).filter(|(other, _)| other != name) {
            match read_all(&original.with(name, bytes.clone()), &models) {
                Ok(latest) => assert!(latest < Some(SCRIPT), "{other} as {name}"),
                Err(error) => {
                    assert!(names_a_place(&error), "{other} as {name}: {error}");
                    refused += 1;
                }
            }
            others += 1;
        }
    }
    assert!(refused * 2 > others, "{refused} of {others}");
    for (name, bytes) in &early.0 {
        match read_all(&original.with(name, bytes.clone()), &models) {
            // An earlier commit log is an earlier store: only a copy of the commitment elsewhere
            // tells it from the truth.
            Ok(latest) => assert!(latest == Some(2) || latest == Some(SCRIPT - 1), "{name}"),
            Err(error) => assert!(names_a_place(&error), "{name}: {error}"),
        }
    }
}

/// A disk of which one sync of a file fails.
struct FailingSync {
    disk: SimDisk,
    /// Syncs until then.
    left: Arc<AtomicU32>,
}

struct FailingFile {
    file: Arc<dyn DiskFile>,
    left: Arc<AtomicU32>,
}

impl Disk for FailingSync {
    fn open(&self, name: &str, mode: Mode) -> std::io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(name, mode)?;
        Ok(Arc::new(FailingFile { file, left: Arc::clone(&self.left) }))
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.disk.rename(from, to)
    }
    fn unlink(&self, name: &str) -> std::io::Result<()> {
        self.disk.unlink(name)
    }
    fn sync_dir(&self) -> std::io::Result<()> {
        self.disk.sync_dir()
    }
    fn list(&self) -> std::io::Result<Vec<String>> {
        self.disk.list()
    }
    fn lock(&self) -> std::io::Result<Box<dyn Send + Sync>> {
        self.disk.lock()
    }
}

impl DiskFile for FailingFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_at(offset, bytes)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.file.read_at(offset, buffer)
    }
    fn len(&self) -> std::io::Result<u64> {
        self.file.len()
    }
    fn truncate(&self, len: u64) -> std::io::Result<()> {
        self.file.truncate(len)
    }
    fn sync(&self) -> std::io::Result<()> {
        match self.left.fetch_sub(1, Ordering::SeqCst) {
            1 => Err(std::io::Error::from_raw_os_error(5)),
            _ => self.file.sync(),
        }
    }
}

/// 10: a sync fails once, and what was written before it may be gone: no later commit succeeds,
/// what was durable before is read on.
#[test]
fn no_commit_after_a_failed_sync() {
    let batches = scripted();
    let models = models(&batches);
    let mut failed = 0;
    for nth in 1..100 {
        let disk = SimDisk::new();
        let left = Arc::new(AtomicU32::new(u32::MAX));
        let failing = FailingSync { disk: disk.clone(), left: Arc::clone(&left) };
        let store = <Letus>::open_on(Arc::new(failing), Path::new("sim"), SMALL).unwrap();
        step(&store, 0, &batches[0]);
        left.store(nth, Ordering::SeqCst);
        if run_script(&store, &batches).is_ok() {
            break;
        }
        failed += 1;
        let latest = store.latest().unwrap().0;
        assert!(matches!(store.commit(latest + 1, &[]), Err(StoreError::Poisoned)));
        assert!(matches!(store.persist(latest + 1), Err(StoreError::Poisoned)));
        check_all(&store, &models);
        drop(store);
        disk.crash(nth.into());
        let store = open(&disk, SMALL).unwrap();
        assert!(store.latest().unwrap().0 >= latest);
        check_all(&store, &models);
    }
    assert!(failed >= 4 * (SCRIPT as u32 - 1), "{failed}");
}
