//! `plasma store`: a closed store, which only `prune` and `import` write to.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plasma_store::commits::OpenReport;
use plasma_store::disk::FileDisk;
use plasma_store::export::CHUNK_BYTES_MAX;
use plasma_store::hash::Blake3;
use plasma_store::import::{Import, ImportError};
use plasma_store::letus::{Letus, Options, verify_at};
use plasma_store::{Commitment, Store as _, StoreError, Version};
use serde_json::{Value, json};

use crate::cli::store::{AtKey, AtVersion, Store, StoreCommand};
use crate::home::{Home, read_file};
use crate::output::{CommandError, CommandResult, Exit, Output};

/// Runs it.
pub fn run(home: &Home, args: &Store, output: &mut Output) -> CommandResult<()> {
    let dir = args.dir.clone().unwrap_or_else(|| home.state());
    let store = ClosedStore { dir };
    match &args.command {
        StoreCommand::Info => store.info(output),
        StoreCommand::Verify { at, all, commitment } => {
            store.verify(*at, *all, *commitment, output)
        }
        StoreCommand::Get { key, prove } => store.get(key, *prove, output),
        StoreCommand::History { key } => store.history(key, output),
        StoreCommand::Range { from, to, limit, trie, at } => store.range(
            (&from.0, to.as_ref().map(|to| &to.0[..])),
            *limit as usize,
            *trie,
            *at,
            output,
        ),
        StoreCommand::Dump { at } => store.dump(*at, output),
        StoreCommand::Prune { version } => store.prune(*version, output),
        StoreCommand::Export { to, at, chunk_bytes } => store.export(to, *at, *chunk_bytes, output),
        StoreCommand::Import { from, commitment } => store.import(from, *commitment, output),
    }
}

/// Where a store is, or will be.
struct ClosedStore {
    dir: PathBuf,
}

fn hex0x(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}

fn shown(value: Option<&[u8]>) -> String {
    value.map_or_else(|| "deleted".into(), hex0x)
}

fn file_error(path: &Path) -> impl Fn(io::Error) -> CommandError {
    move |error| {
        let message = format!("{}: {error}", path.display());
        CommandError::failure("file", message, "check the path, its rights and the room there")
    }
}

impl ClosedStore {
    fn failed(&self, error: StoreError) -> CommandError {
        let dir = self.dir.display();
        let (exit, code, help) = match &error {
            StoreError::Missing { .. } => {
                (Exit::Usage, "store_missing", "plasma store info --store DIR".into())
            }
            StoreError::Locked { .. } => {
                (Exit::Failure, "store_locked", "stop the node that runs on it".into())
            }
            StoreError::Foreign { .. } => {
                let help = "only stores of scheme letus-blake3/1 have these commands; --store DIR \
                            names another";
                (Exit::Usage, "store_foreign", help.into())
            }
            StoreError::Format { .. } => {
                (Exit::Usage, "store_format", "use the version of plasma that wrote it".into())
            }
            StoreError::Corrupt(_) => {
                let help = "keep the directory, and bring it back from a copy; a node can also \
                            start again from an empty one (its blocks are in CometBFT's store)";
                (Exit::Failure, "store_corrupt", help.into())
            }
            StoreError::Version { .. } | StoreError::Pruned { .. } => {
                (Exit::No, "store_version", format!("plasma store info --store {dir}"))
            }
            _ => (Exit::Failure, "store", format!("check the disk of {dir}")),
        };
        let message = match error {
            StoreError::Corrupt(_) => format!("{dir}: {error}"),
            error => error.to_string(),
        };
        CommandError::new(exit, code, message, help)
    }

    fn to_read(&self) -> CommandResult<Letus> {
        Letus::open_to_read(&self.dir, Options::default()).map_err(|error| self.failed(error))
    }

    /// The store, and the asked version or its newest.
    fn at(&self, at: AtVersion) -> CommandResult<(Letus, Version)> {
        let store = self.to_read()?;
        let newest = || store.latest().map(|(version, _)| version);
        let version = at.version.or_else(newest).ok_or_else(|| {
            CommandError::no("store_empty", "the store has no version yet", "start its node")
        })?;
        Ok((store, version))
    }

    fn info(&self, output: &mut Output) -> CommandResult<()> {
        let store = self.to_read()?;
        let OpenReport { cut, repaired } = store.open_report();
        if let Some(number) = cut {
            output.warn(format!("commit {number} was never acknowledged; a start cuts it off"));
        }
        if let Some(number) = repaired {
            output.warn(format!("a copy of commit {number} is damaged; a start repairs it"));
        }
        let mut files: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for entry in fs::read_dir(&self.dir).map_err(file_error(&self.dir))? {
            let entry = entry.map_err(file_error(&self.dir))?;
            let bytes = entry.metadata().map_err(file_error(&entry.path()))?.len();
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = name.split('-').next().unwrap_or_default().to_owned();
            let (count, sum) = files.entry(kind).or_default();
            (*count, *sum) = (*count + 1, *sum + bytes);
        }
        let latest = store.latest();
        let bytes: u64 = files.values().map(|(_, bytes)| bytes).sum();
        let mut text =
            format!("store       {}\nscheme      {}", self.dir.display(), store.scheme());
        match latest {
            Some((version, commitment)) => {
                text += &format!("\nversions    {} to {version}", store.oldest());
                text += &format!("\ncommitment  {commitment}");
            }
            None => text += "\nversions    none",
        }
        for (kind, (count, bytes)) in &files {
            text += &format!("\n{kind:<11} {bytes} bytes in {count} files");
        }
        text += &format!("\nall         {bytes} bytes");
        let list = |(kind, (count, bytes)): (&String, &(u64, u64))| {
            (kind.clone(), json!({"files": count, "bytes": bytes}))
        };
        let data = json!({
            "dir": self.dir, "scheme": store.scheme(), "oldest": store.oldest(),
            "latest": latest.map(|(version, _)| version),
            "commitment": latest.map(|(_, commitment)| commitment.to_string()),
            "files": files.iter().map(list).collect::<serde_json::Map<_, _>>(), "bytes": bytes,
        });
        output.result(text, data);
        Ok(())
    }

    fn verify(
        &self,
        at: AtVersion,
        all: bool,
        expected: Option<Commitment>,
        output: &Output,
    ) -> CommandResult<()> {
        let (store, last) = self.at(at)?;
        let first = if all { store.oldest() } else { last };
        let mut keys = 0;
        for version in first..=last {
            keys = store.audit(version).map_err(|error| self.failed(error))?;
        }
        let commitment = store.digest(last).map_err(|error| self.failed(error))?;
        if let Some(expected) = expected.filter(|expected| *expected != commitment) {
            let message = format!(
                "version {last} has commitment {commitment}, not {expected}: this store was \
                 rolled back, forked, or is another chain's"
            );
            let help = "compare both with another node's app hash of the next height";
            return Err(CommandError::no("store_commitment", message, help));
        }
        let which = if first == last {
            format!("version {last}")
        } else {
            format!("versions {first} to {last}")
        };
        let text = format!("{which}: every hash is right; {keys} keys, commitment {commitment}");
        let data = json!({"from": first, "to": last, "keys": keys,
                          "commitment": commitment.to_string()});
        output.result(text, data);
        Ok(())
    }

    fn get(&self, at: &AtKey, prove: bool, output: &Output) -> CommandResult<()> {
        let (store, version) = self.at(at.at)?;
        let (trie, key) = (store.trie(at.trie), &at.key.0[..]);
        let failed = |error| self.failed(error);
        let mut data = json!({"trie": at.trie, "key": hex0x(key), "version": version});
        let Some((newest, commitment)) = store.latest().filter(|_| prove) else {
            let Some(value) = trie.get(version, key).map_err(failed)? else {
                let message = format!("key {} has no value at version {version}", hex0x(key));
                return Err(CommandError::no("store_key", message, "plasma store range"));
            };
            data["value"] = json!(hex0x(&value));
            output.result(hex0x(&value), data);
            return Ok(());
        };
        let proven = trie.prove_at(version, key).map_err(failed)?;
        let value = proven.value.as_deref();
        verify_at::<Blake3>(commitment, (at.trie, key), value, &proven.proof)
            .map_err(|error| self.failed(StoreError::Corrupt(format!("its proof: {error}"))))?;
        data["value"] = json!(value.map(hex0x));
        data["proof"] = json!(hex0x(&proven.proof));
        data["commitment"] = json!(commitment.to_string());
        data["commitment_version"] = json!(newest);
        let text = format!(
            "value       {}\nproof       {}\nagainst     {commitment} of version {newest}",
            value.map_or_else(|| "none".into(), hex0x),
            hex0x(&proven.proof)
        );
        output.result(text, data);
        Ok(())
    }

    fn history(&self, at: &AtKey, output: &Output) -> CommandResult<()> {
        let (store, version) = self.at(at.at)?;
        let mut each = |version: Version, value: Option<&[u8]>| {
            let text = format!("{version} {}", shown(value));
            output.line(text, json!({"version": version, "value": value.map(hex0x)}));
        };
        store
            .trie(at.trie)
            .history(version, &at.key.0, &mut each)
            .map_err(|error| self.failed(error))
    }

    fn range(
        &self,
        (from, to): (&[u8], Option<&[u8]>),
        limit: usize,
        trie: u64,
        at: AtVersion,
        output: &Output,
    ) -> CommandResult<()> {
        let (store, version) = self.at(at)?;
        // The least keys so far.
        let mut found = BTreeMap::new();
        let mut each = |tid: u64, key: &[u8], value: &[u8]| {
            if tid == trie && key >= from && to.is_none_or(|to| key < to) {
                found.insert(key.to_vec(), value.to_vec());
                if found.len() > limit {
                    found.pop_last();
                }
            }
        };
        store.pairs(version, &mut each).map_err(|error| self.failed(error))?;
        for (key, value) in &found {
            output.line(format!("{} {}", hex0x(key), hex0x(value)), pair(trie, key, value));
        }
        Ok(())
    }

    fn dump(&self, at: AtVersion, output: &Output) -> CommandResult<()> {
        let (store, version) = self.at(at)?;
        let mut each = |tid: u64, key: &[u8], value: &[u8]| {
            output.line(format!("{tid} {} {}", hex0x(key), hex0x(value)), pair(tid, key, value));
        };
        store.pairs(version, &mut each).map_err(|error| self.failed(error))
    }

    fn prune(&self, version: Version, output: &Output) -> CommandResult<()> {
        // What is no store must not become one.
        drop(self.to_read()?);
        let failed = |error| self.failed(error);
        let store = Letus::open(&self.dir, Options::default()).map_err(failed)?;
        let pruned = store.prune(version).map_err(failed)?;
        let text = format!(
            "the oldest version is {}; {} segments dropped, {} compacted, {} bytes given back",
            pruned.oldest, pruned.dropped, pruned.compacted, pruned.bytes
        );
        let data = json!({"oldest": pruned.oldest, "dropped": pruned.dropped,
                          "compacted": pruned.compacted, "bytes": pruned.bytes});
        output.result(text, data);
        Ok(())
    }

    fn export(
        &self,
        to: &Path,
        at: AtVersion,
        chunk_bytes: u64,
        output: &Output,
    ) -> CommandResult<()> {
        let (store, version) = self.at(at)?;
        let failed = |error| self.failed(error);
        let commitment = store.digest(version).map_err(failed)?;
        let export = store.export(version, chunk_bytes).map_err(failed)?;
        fs::create_dir_all(to).map_err(file_error(to))?;
        if fs::read_dir(to).map_err(file_error(to))?.next().is_some() {
            let message = format!("{} is not empty", to.display());
            return Err(CommandError::usage(message, "name a new directory"));
        }
        let mut bytes = 0;
        for number in 0..export.chunks() {
            let chunk = export.chunk(number).map_err(failed)?.unwrap_or_default();
            let path = chunk_path(to, number);
            let mut file = File::create(&path).map_err(file_error(&path))?;
            file.write_all(&chunk).map_err(file_error(&path))?;
            file.sync_all().map_err(file_error(&path))?;
            bytes += chunk.len();
        }
        let chunks = export.chunks();
        let text = format!(
            "version {version} in {chunks} chunks, {bytes} bytes\ncommitment  {commitment}"
        );
        let data = json!({"version": version, "chunks": chunks, "bytes": bytes,
                          "commitment": commitment.to_string()});
        output.result(text, data);
        Ok(())
    }

    fn import(&self, from: &Path, commitment: Commitment, output: &Output) -> CommandResult<()> {
        let read = |number: usize| {
            let path = chunk_path(from, number);
            // Of a longer file only enough to be refused.
            read_file(&path, CHUNK_BYTES_MAX as u64 + 1).map_err(file_error(&path))
        };
        let failed = |number: usize, error: ImportError| match error {
            ImportError::Chunk(error) => {
                let message = format!("{}: {error}", chunk_path(from, number).display());
                CommandError::no("chunk", message, "get this chunk again, from another sender")
            }
            ImportError::Store(error) => self.failed(error),
        };
        let first = read(0)?;
        let disk = FileDisk::new(&self.dir).map_err(file_error(&self.dir))?;
        let options = Options::default();
        let mut import =
            Import::<Blake3>::begin(Arc::new(disk), &self.dir, options, commitment, &first)
                .map_err(|error| failed(0, error))?;
        while let Some(number) = import.next() {
            let number = number as usize;
            import.chunk(&read(number)?).map_err(|error| failed(number, error))?;
        }
        let store = import.finish().map_err(|error| failed(0, error))?;
        let version = store.latest().map(|(version, _)| version);
        let text = format!(
            "{} is a store of version {} with commitment {commitment}",
            self.dir.display(),
            version.unwrap_or_default()
        );
        let data = json!({"version": version, "commitment": commitment.to_string()});
        output.result(text, data);
        Ok(())
    }
}

fn pair(trie: u64, key: &[u8], value: &[u8]) -> Value {
    json!({"trie": trie, "key": hex0x(key), "value": hex0x(value)})
}

fn chunk_path(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("chunk-{number:06}"))
}
