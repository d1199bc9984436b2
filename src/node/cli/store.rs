//! `plasma store`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use plasma_store::Commitment;

use crate::context::parse_hash;

/// A key of a store: 0x and hex digits, or text.
#[derive(Debug, Clone)]
pub struct Key(pub Vec<u8>);

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("0x") {
            Some(digits) => {
                hex::decode(digits).map(Self).map_err(|error| format!("after 0x: {error}"))
            }
            None => Ok(Self(text.as_bytes().to_vec())),
        }
    }
}

fn commitment(text: &str) -> Result<Commitment, &'static str> {
    parse_hash(text).map(Commitment).ok_or("it has 64 hex digits")
}

/// `plasma store`.
#[derive(Debug, Args)]
pub struct Store {
    /// Directory of the store; default: that of the home's node.
    #[arg(long = "store", value_name = "DIR", global = true)]
    pub dir: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: StoreCommand,
}

/// A version; a node's are heights.
#[derive(Debug, Clone, Copy, Args)]
pub struct AtVersion {
    /// The version, a height of the chain; default: the newest.
    #[arg(long, value_name = "V")]
    pub version: Option<u64>,
}

/// A key of a trie.
#[derive(Debug, Clone, Args)]
pub struct AtKey {
    /// The key: 0x and hex digits, or text.
    pub key: Key,
    /// Its trie; a node's keys are in 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub trie: u64,
    /// At which version.
    #[command(flatten)]
    pub at: AtVersion,
}

/// Verbs of `plasma store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// What the store is and how much it holds.
    Info,
    /// Read versions from the disk and recompute every hash.
    #[command(after_help = "Example: plasma store verify --version 100 --commitment 0x...\n\
        A commitment that was kept elsewhere shows a store that was rolled back or forked.")]
    Verify {
        /// Which version.
        #[command(flatten)]
        at: AtVersion,
        /// All kept versions.
        #[arg(long, conflicts_with = "version")]
        all: bool,
        /// What the version's commitment (app hash) must be.
        #[arg(long, value_name = "HASH", conflicts_with = "all", value_parser = commitment)]
        commitment: Option<Commitment>,
    },
    /// A key's value; exit code 3 if it has none.
    #[command(after_help = "Example: plasma store get 0x43 --version 7 --prove")]
    Get {
        /// Which key.
        #[command(flatten)]
        key: AtKey,
        /// With the proof of the value, or of its absence, against the newest commitment.
        #[arg(long)]
        prove: bool,
    },
    /// A key's changes, the newest first, as far back as they are kept.
    History {
        /// Which key.
        #[command(flatten)]
        key: AtKey,
    },
    /// Pairs of a trie by ascending key. Reads the whole version.
    #[command(after_help = "Example: plasma store range --from 0x63 --to 0x64 --limit 20")]
    Range {
        /// First key.
        #[arg(long, value_name = "KEY", default_value = "")]
        from: Key,
        /// First key after the last one.
        #[arg(long, value_name = "KEY")]
        to: Option<Key>,
        /// Most pairs.
        #[arg(long, value_name = "N", default_value_t = 100,
              value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        limit: u32,
        /// The trie; a node's keys are in 0.
        #[arg(long, value_name = "N", default_value_t = 0)]
        trie: u64,
        /// At which version.
        #[command(flatten)]
        at: AtVersion,
    },
    /// All pairs of all tries of a version, in the order of the tree: trie, key, value.
    Dump {
        /// Which version.
        #[command(flatten)]
        at: AtVersion,
    },
    /// Give up the versions before V, and give back what only they need.
    #[command(after_help = "Example: plasma store prune 1000")]
    Prune {
        /// The oldest version to keep.
        version: u64,
    },
    /// Write a version as chunks, one file each, to be imported elsewhere.
    #[command(after_help = "Example: plasma store export chunks/ --version 1000")]
    Export {
        /// Directory of the chunks; it must be empty or not there.
        to: PathBuf,
        /// Which version.
        #[command(flatten)]
        at: AtVersion,
        /// About how many bytes a chunk has.
        #[arg(long, value_name = "BYTES", default_value_t = 4 << 20,
              value_parser = clap::value_parser!(u64).range(1 << 10..=16 << 20))]
        chunk_bytes: u64,
    },
    /// Build a store from an export's chunks; each is checked.
    #[command(after_help = "Example: plasma store import chunks/ --commitment 0x... --store new/")]
    Import {
        /// Directory of the chunks.
        from: PathBuf,
        /// The version's commitment (app hash), known from elsewhere: the chunks prove themselves
        /// against it.
        #[arg(long, value_name = "HASH", value_parser = commitment)]
        commitment: Commitment,
    },
}
