//! A disk in memory that forgets at a crash whatever it may forget, and fails when told to.
//!
//! Each write since a file's last sync survives a crash or not, sector by sector; so does each
//! change of length, and each change of a name since the last `sync_dir`. All of it is drawn from
//! a seed. Without crash and faults it is the store's memory backend.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::{Disk, DiskFile, Mode};

/// What a disk writes in one piece.
pub const SECTOR: usize = 512;

/// What an I/O call does instead of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails with EIO and has done nothing.
    Error,
    /// A write fails with ENOSPC after its first half; other calls as `Error`.
    Full,
    /// A read fills the buffer with one bit flipped; other calls as they should.
    FlipBit,
    /// A write goes to another place of the same file; other calls as they should.
    Misdirect,
    /// The power goes: this and every later call fails until [`SimDisk::crash`].
    PowerLoss,
}

/// The disk; clones are the same one.
#[derive(Clone, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    files: BTreeMap<u64, Bytes>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    renamed: Vec<NameChange>,
    next: u64,
    calls: u64,
    faults: BTreeMap<u64, Fault>,
    dead: bool,
    locked: bool,
    /// Incremented by a crash: handles of an earlier life are dead.
    life: u64,
}

#[derive(Clone)]
enum NameChange {
    Set(String, u64),
    Rename(String, String, u64),
    Unlink(String),
}

#[derive(Default, Clone)]
struct Bytes {
    now: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Clone)]
enum Pending {
    Write(u64, Vec<u8>),
    Length(u64),
}

/// SplitMix64: a seeded source that needs no library here.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

fn dead() -> io::Error {
    io::Error::other("the simulated machine has no power")
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file {name:?}"))
}

fn put(bytes: &mut Vec<u8>, offset: u64, written: &[u8]) {
    let start = offset as usize;
    let end = start + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(written);
}

impl State {
    /// Counts a call and says what shall go wrong in it.
    fn call(&mut self, life: u64) -> io::Result<Option<Fault>> {
        if self.dead || life != self.life {
            return Err(dead());
        }
        self.calls += 1;
        match self.faults.remove(&self.calls) {
            Some(Fault::Error) => Err(io::Error::from_raw_os_error(5)),
            Some(Fault::PowerLoss) => {
                self.dead = true;
                Err(dead())
            }
            other => Ok(other),
        }
    }
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// How many I/O calls there were.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Lets the `n`-th I/O call from now on (1 is the next) go wrong.
    pub fn inject(&self, n: u64, fault: Fault) {
        let mut state = self.state();
        let at = state.calls + n;
        state.faults.insert(at, fault);
    }

    /// The machine restarts; what was not synced survives as `seed` decides. Handles of before
    /// are dead, faults not met are forgotten.
    pub fn crash(&self, seed: u64) {
        let mut random = Random(seed);
        let mut state = self.state();
        for bytes in state.files.values_mut() {
            let mut kept = std::mem::take(&mut bytes.durable);
            for pending in std::mem::take(&mut bytes.pending) {
                match &pending {
                    Pending::Length(_) if !random.coin() => {}
                    Pending::Length(_) => keep(&mut kept, pending),
                    Pending::Write(offset, written) => {
                        let all = random.next().is_multiple_of(4);
                        for (offset, part) in sectors(*offset, written) {
                            if all || random.coin() {
                                put(&mut kept, offset, part);
                            }
                        }
                    }
                }
            }
            bytes.now.clone_from(&kept);
            bytes.durable = kept;
        }
        let mut names = state.durable_names.clone();
        for change in std::mem::take(&mut state.renamed) {
            if random.coin() {
                apply(&mut names, change);
            }
        }
        state.names.clone_from(&names);
        state.durable_names = names;
        state.life += 1;
        (state.dead, state.locked) = (false, false);
        state.faults.clear();
    }

    /// A file's bytes, for tests that damage them.
    pub fn bytes(&self, name: &str) -> io::Result<Vec<u8>> {
        let state = self.state();
        let id = state.names.get(name).ok_or_else(|| not_found(name))?;
        Ok(state.files.get(id).map(|file| file.now.clone()).unwrap_or_default())
    }

    /// Replaces a file's bytes, durably, as a fault of the medium would.
    pub fn damage(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        let next = state.next;
        let id = *state.names.entry(name.to_owned()).or_insert(next);
        state.next = next.max(id + 1);
        state.durable_names.insert(name.to_owned(), id);
        let file = Bytes { now: bytes.clone(), durable: bytes, pending: Vec::new() };
        state.files.insert(id, file);
    }
}

fn keep(bytes: &mut Vec<u8>, change: Pending) {
    match change {
        Pending::Write(offset, written) => put(bytes, offset, &written),
        Pending::Length(len) => bytes.resize(len as usize, 0),
    }
}

/// A write's sectors.
fn sectors(offset: u64, written: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = written;
    let mut at = offset;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = (SECTOR - at as usize % SECTOR).min(rest.len());
        let (part, after) = rest.split_at(length);
        let start = at;
        (rest, at) = (after, at + length as u64);
        Some((start, part))
    })
}

fn apply(names: &mut BTreeMap<String, u64>, change: NameChange) {
    match change {
        NameChange::Set(name, id) => {
            names.insert(name, id);
        }
        NameChange::Rename(from, to, id) => {
            names.remove(&from);
            names.insert(to, id);
        }
        NameChange::Unlink(name) => {
            names.remove(&name);
        }
    }
}

struct SimFile {
    disk: SimDisk,
    id: u64,
    life: u64,
    writable: bool,
}

struct SimLock {
    disk: SimDisk,
    life: u64,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.life == self.life {
            state.locked = false;
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str, mode: Mode) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        let life = state.life;
        state.call(life)?;
        let id = match (state.names.get(name), mode) {
            (Some(_), Mode::Create) => return Err(io::ErrorKind::AlreadyExists.into()),
            (None, Mode::Create) => {
                let id = state.next;
                state.next += 1;
                state.files.insert(id, Bytes::default());
                state.names.insert(name.to_owned(), id);
                state.renamed.push(NameChange::Set(name.to_owned(), id));
                id
            }
            (Some(id), _) => *id,
            (None, _) => return Err(not_found(name)),
        };
        Ok(Arc::new(SimFile { disk: self.clone(), id, life, writable: mode != Mode::Read }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let life = state.life;
        state.call(life)?;
        let id = *state.names.get(from).ok_or_else(|| not_found(from))?;
        let change = NameChange::Rename(from.to_owned(), to.to_owned(), id);
        apply(&mut state.names, change.clone());
        state.renamed.push(change);
        Ok(())
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        let life = state.life;
        state.call(life)?;
        state.names.remove(name).ok_or_else(|| not_found(name))?;
        state.renamed.push(NameChange::Unlink(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        let life = state.life;
        let done = state.call(life);
        if state.dead {
            return done.map(drop);
        }
        let changes = std::mem::take(&mut state.renamed);
        done.map(|_| changes.into_iter().for_each(|c| apply(&mut state.durable_names, c)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        let life = state.life;
        state.call(life)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        let mut state = self.state();
        if state.locked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locked = true;
        Ok(Box::new(SimLock { disk: self.clone(), life: state.life }))
    }
}

impl SimFile {
    fn with<T>(
        &self,
        work: impl FnOnce(&mut Bytes, Option<Fault>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.disk.state();
        let fault = state.call(self.life)?;
        work(state.files.entry(self.id).or_default(), fault)
    }

    fn writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.writable()?;
        self.with(|file, fault| {
            let (offset, part) = match fault {
                Some(Fault::Full) => (offset, &bytes[..bytes.len() / 2]),
                Some(Fault::Misdirect) => (offset / 2, bytes),
                _ => (offset, bytes),
            };
            put(&mut file.now, offset, part);
            file.pending.push(Pending::Write(offset, part.to_vec()));
            match fault {
                Some(Fault::Full) => Err(io::Error::from_raw_os_error(28)),
                _ => Ok(()),
            }
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.with(|file, fault| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let found = file.now.get(start..).and_then(|bytes| bytes.get(..buffer.len()));
            buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
            if let (Some(Fault::FlipBit), Some(byte)) = (fault, buffer.first_mut()) {
                *byte ^= 1;
            }
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|file, _| Ok(file.now.len() as u64))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.writable()?;
        self.with(|file, _| {
            file.now.resize(len as usize, 0);
            file.pending.push(Pending::Length(len));
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let done = state.call(self.life);
        let powered = !state.dead;
        let file = state.files.entry(self.id).or_default();
        let pending = if powered { std::mem::take(&mut file.pending) } else { Vec::new() };
        // A failed sync loses what it should have kept, and a later one does not bring it back.
        done.map(|_| pending.into_iter().for_each(|change| keep(&mut file.durable, change)))
    }
}
