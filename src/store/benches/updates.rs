//! `updates [KEYS] [BLOCKS]`: 10,000 uniform updates a block of 32-byte keys with 64-byte values,
//! each block durable (workload U of store.md), then reads and proofs; prints rates, bytes, memory.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Instant;

use plasma_store::hash::Blake3;
use plasma_store::letus::{Letus, Options, verify_at};
use plasma_store::{Store, Write};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const BLOCK: usize = 10_000;

fn key(i: u64) -> Vec<u8> {
    let mut key = vec![0; 32];
    key[..8].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[24..].copy_from_slice(&i.to_be_bytes());
    key
}

fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find(|line| line.starts_with("write_bytes")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn status(name: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn disk_bytes(dir: &std::path::Path) -> u64 {
    std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum()
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let keys = numbers.first().copied().unwrap_or(1_000_000);
    let blocks = numbers.get(1).copied().unwrap_or(100);
    let dir = std::env::temp_dir().join(format!("letus-{}", std::process::id()));
    let options = Options { cache_bytes: 1 << 30, ..Options::default() };
    let store = Letus::open(&dir, options).unwrap();
    let mut random = StdRng::seed_from_u64(1);
    let value = |random: &mut StdRng| {
        let mut value = vec![0; 64];
        random.fill(&mut value[..]);
        value
    };
    let mut version = 0;
    for start in (0..keys).step_by(100_000) {
        let batch: Vec<Write> = (start..(start + 100_000).min(keys))
            .map(|i| (key(i), Some(value(&mut random))))
            .collect();
        store.commit(version, &batch).unwrap();
        store.persist(version).unwrap();
        version += 1;
    }
    println!("loaded {keys} keys, {} kB resident", status("VmRSS"));
    let (mut committed, mut persisted) = (0.0, 0.0);
    let (bytes, cpu, disk) = (written(), cpu_s(), disk_bytes(&dir));
    for _ in 0..blocks {
        let batch: Vec<Write> = (0..BLOCK)
            .map(|_| (key(random.random_range(0..keys)), Some(value(&mut random))))
            .collect();
        let started = Instant::now();
        store.commit(version, &batch).unwrap();
        committed += started.elapsed().as_secs_f64();
        let started = Instant::now();
        store.persist(version).unwrap();
        persisted += started.elapsed().as_secs_f64();
        version += 1;
    }
    let updates = (blocks * BLOCK as u64) as f64;
    println!(
        "{:.0} updates/s (commit {:.1} ms, persist {:.1} ms a block), {:.2} us CPU, {:.0} B \
         written and {:.0} B of disk an update, peak {} kB",
        updates / (committed + persisted),
        committed / blocks as f64 * 1e3,
        persisted / blocks as f64 * 1e3,
        (cpu_s() - cpu) / updates * 1e6,
        (written() - bytes) as f64 / updates,
        (disk_bytes(&dir) - disk) as f64 / updates,
        status("VmHWM"),
    );
    reads(&store, keys, &mut random);
    drop(store);
    let started = Instant::now();
    drop(Letus::open(&dir, options).unwrap());
    println!("open {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Microseconds of each of many calls, on average.
fn each(calls: u32, mut call: impl FnMut()) -> f64 {
    let started = Instant::now();
    (0..calls).for_each(|_| call());
    started.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
}

fn reads(store: &Letus, keys: u64, random: &mut StdRng) {
    const CALLS: u32 = 10_000;
    let (newest, commitment) = store.latest().unwrap();
    let old = newest / 2;
    let mut any = || key(random.random_range(0..keys));
    for (what, version) in [("newest", newest), ("old", old)] {
        let get = each(CALLS, || assert!(store.get(version, &any()).unwrap().is_some()));
        let mut made = Vec::new();
        let prove = each(CALLS, || {
            let key = any();
            let proven = store.trie(0).prove_at(version, &key).unwrap();
            made.push((key, proven));
        });
        let bytes: usize = made.iter().map(|(_, proven)| proven.proof.len()).sum();
        let mut next = made.iter();
        let verify = each(CALLS, || {
            let (key, proven) = next.next().unwrap();
            let value = proven.value.as_deref();
            assert_eq!(
                verify_at::<Blake3>(commitment, (0, key), value, &proven.proof),
                Ok(version)
            );
        });
        println!(
            "{what} version: get {get:.2} us; proof of {} B: made in {prove:.1} us, verified in \
             {verify:.1} us",
            bytes / CALLS as usize
        );
    }
}
