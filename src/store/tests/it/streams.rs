//! Records in segment files: what was written is read, and nothing else is.

use std::sync::Arc;

use plasma_store::disk::{Disk, Mode};
use plasma_store::location::Location;
use plasma_store::sim::{Fault, SimDisk};
use plasma_store::stream::{Appender, Generations, Kind, Stream, read_pending};

const KINDS: [Kind; 2] = [Kind::Values, Kind::Pages];

fn start() -> Location {
    Location::new(0, 0).unwrap()
}

/// Bodies of odd lengths, in frames of three, over several segments of 4 KiB.
fn bodies() -> Vec<Vec<u8>> {
    let lengths = [0, 1, 2, 100, 127, 128, 505, 511, 512, 513, 900, 4000, 5000, 3, 20_000, 7];
    (0..).zip(lengths).map(|(i, length)| vec![i as u8; length]).collect()
}

fn write(stream: &Stream, kind: Kind, end: Location) -> (Vec<(Location, Vec<u8>)>, Location) {
    let mut appender = Appender::new(kind, 1, 4096, end);
    let mut records = Vec::new();
    for (i, body) in bodies().into_iter().enumerate() {
        if i % 3 == 0 {
            appender.frame(5, i as u8);
        }
        records.push((appender.record(&body).unwrap(), body));
    }
    let (pieces, end, _) = appender.finish();
    for (at, body) in &records {
        assert_eq!(&read_pending(kind, &pieces, *at).unwrap(), body);
    }
    assert!(stream.write(&pieces).unwrap(), "new names");
    (records, end.unwrap())
}

#[test]
fn records_are_read_where_they_were_written() {
    for kind in KINDS {
        let disk = SimDisk::new();
        let stream = Stream::new(Arc::new(disk.clone()), kind, Generations::new());
        let (mut records, end) = write(&stream, kind, start());
        let (more, end) = write(&stream, kind, end);
        records.extend(more);
        assert!(end.segment() > 3);
        assert!(records.is_sorted());
        let again = Stream::new(Arc::new(disk.clone()), kind, Generations::new());
        for (at, body) in &records {
            assert_eq!(&again.read(*at, end).unwrap(), body);
        }
        assert!(again.read(end, end).is_err());
        let (last, _) = records.last().unwrap();
        assert!(again.read(*last, *last).is_err(), "beyond the end");
        // Every length of the file below the last record's end is an error, never other bytes.
        let name = format!("{}-{:07}.0", kind.name(), last.segment());
        let file = disk.open(&name, Mode::Write).unwrap();
        for len in (u64::from(last.offset())..file.len().unwrap()).rev() {
            file.truncate(len).unwrap();
            assert!(again.read(*last, end).is_err());
        }
    }
}

#[test]
fn no_flipped_bit_is_read() {
    let disk = SimDisk::new();
    let stream = Stream::new(Arc::new(disk.clone()), Kind::Values, Generations::new());
    let mut appender = Appender::new(Kind::Values, 1, 1 << 20, start());
    appender.frame(1, 0);
    let at = appender.record(b"what is written").unwrap();
    let (pieces, end, _) = appender.finish();
    let end = end.unwrap();
    stream.write(&pieces).unwrap();
    let name = "values-0000000.0";
    let good = disk.bytes(name).unwrap();
    for byte in at.offset() as usize..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[byte] ^= 1 << bit;
            disk.damage(name, bad);
            let stream = Stream::new(Arc::new(disk.clone()), Kind::Values, Generations::new());
            assert!(stream.read(at, end).is_err(), "bit {bit} of byte {byte}");
        }
    }
    disk.damage(name, good);
    let stream = Stream::new(Arc::new(disk.clone()), Kind::Values, Generations::new());
    assert_eq!(stream.read(at, end).unwrap(), b"what is written");
    disk.inject(1, Fault::FlipBit);
    assert!(stream.read(at, end).is_err(), "a bit that the disk flips");
    let pages = Stream::new(Arc::new(disk.clone()), Kind::Pages, Generations::new());
    disk.damage("pages-0000000.0", disk.bytes(name).unwrap());
    assert!(pages.read(at, end).is_err(), "the other stream's bytes");
    assert!(stream.read(Location::new(0, at.offset() + 1).unwrap(), end).is_err());
}

#[test]
fn a_write_that_fails_is_reported() {
    for (call, fault) in [(1, Fault::Error), (2, Fault::Error), (2, Fault::Full), (3, Fault::Error)]
    {
        let disk = SimDisk::new();
        let stream = Stream::new(Arc::new(disk.clone()), Kind::Pages, Generations::new());
        let mut appender = Appender::new(Kind::Pages, 1, 1 << 20, start());
        appender.frame(1, 0);
        appender.record(b"x").unwrap();
        disk.inject(call, fault);
        assert!(stream.write(&appender.finish().0).is_err(), "call {call}: {fault:?}");
    }
}
