//! The disks themselves: a real directory and the simulated one agree, and the simulated one
//! forgets no more and no less than it may.

use std::collections::BTreeSet;

use plasma_store::disk::{Disk, FileDisk, Mode};
use plasma_store::sim::{Fault, SECTOR, SimDisk};

fn read(disk: &dyn Disk, name: &str) -> Vec<u8> {
    let file = disk.open(name, Mode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn both_disks_behave_alike() {
    let dir = tempfile::tempdir().unwrap();
    let real = FileDisk::new(&dir.path().join("new")).unwrap();
    for disk in [&real as &dyn Disk, &SimDisk::new()] {
        assert!(disk.open("a", Mode::Read).is_err());
        assert!(disk.open("a", Mode::Write).is_err());
        let a = disk.open("a", Mode::Create).unwrap();
        assert!(disk.open("a", Mode::Create).is_err());
        a.write_at(3, b"abc").unwrap();
        assert_eq!(read(disk, "a"), b"\0\0\0abc");
        a.truncate(5).unwrap();
        assert_eq!(a.len().unwrap(), 5);
        assert!(a.read_at(4, &mut [0; 2]).is_err());
        a.sync().unwrap();
        assert!(disk.open("a", Mode::Read).unwrap().write_at(0, b"x").is_err());
        disk.rename("a", "b").unwrap();
        disk.open("c", Mode::Create).unwrap();
        disk.sync_dir().unwrap();
        let guard = disk.lock().unwrap();
        assert!(disk.lock().is_err());
        drop(guard);
        drop(disk.lock().unwrap());
        assert_eq!(disk.list().unwrap(), ["b", "c"]);
        disk.unlink("c").unwrap();
        assert!(disk.unlink("c").is_err());
        assert_eq!(read(disk, "b"), b"\0\0\0ab");
    }
}

#[test]
fn a_crash_keeps_what_was_synced_and_any_sectors_of_the_rest() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let disk = SimDisk::new();
        let file = disk.open("f", Mode::Create).unwrap();
        disk.sync_dir().unwrap();
        file.write_at(0, &[1; 2 * SECTOR]).unwrap();
        file.sync().unwrap();
        file.write_at(0, &[2; 3 * SECTOR]).unwrap();
        disk.open("g", Mode::Create).unwrap();
        disk.crash(seed);
        assert!(file.len().is_err(), "a handle of the life before");
        let bytes = read(&disk, "f");
        for sector in bytes.chunks(SECTOR) {
            assert!([0, 1, 2].iter().any(|kind| sector.iter().all(|byte| byte == kind)));
        }
        assert!(!bytes[..2 * SECTOR].contains(&0), "synced bytes are there");
        let kinds: Vec<u8> = bytes.iter().step_by(SECTOR).copied().collect();
        outcomes.insert((kinds, disk.list().unwrap().len()));
    }
    assert_eq!(outcomes.len(), 8 * 2, "each sector and the name, kept or not");
}

#[test]
fn a_failed_sync_is_not_made_good_by_the_next() {
    let disk = SimDisk::new();
    let file = disk.open("f", Mode::Create).unwrap();
    disk.sync_dir().unwrap();
    file.write_at(0, b"lost").unwrap();
    disk.inject(1, Fault::Error);
    assert!(file.sync().is_err());
    file.sync().unwrap();
    disk.crash(1);
    assert_eq!(read(&disk, "f"), b"");
}

#[test]
fn faults_hit_the_call_they_are_set_for() {
    let disk = SimDisk::new();
    let file = disk.open("f", Mode::Create).unwrap();
    file.write_at(0, b"0123").unwrap();
    disk.inject(2, Fault::Error);
    file.write_at(4, b"4567").unwrap();
    assert!(file.write_at(8, b"89").is_err());
    disk.inject(1, Fault::Full);
    assert!(file.write_at(8, b"89").is_err());
    disk.inject(1, Fault::FlipBit);
    let mut bytes = [0; 9];
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"112345678", "half of the last write, one bit of the first byte");
    disk.inject(1, Fault::PowerLoss);
    assert!(file.sync().is_err());
    assert!(disk.list().is_err());
    disk.crash(0);
    disk.list().unwrap();
}
