//! What the watcher remembers: each watched coin's [`History`], and how far Ethereum was read.
//!
//! In memory one history a coin: its deposit and its inclusions with their proofs; exclusions are
//! checked and forgotten. On disk one append-only file `watch.log` of JSON lines:
//!
//! | line | meaning |
//! |---|---|
//! | `{"format":"plasma-watch/1","chain_id":1,"root_chain":"0x.."}` | the first line |
//! | `{"history":"01.."}` | a coin's history (`plasma_client::history`, stored form, hex) |
//! | `{"checked":7,"coins":[[1,100]]}` | these runs of coins are checked up to block 7 |
//! | `{"ethereum":[90,"0x.."],"counts":[3,1,7],"touched":[[1,2]]}` | read so far; exiting coins |
//! | `{"missing":7,"since":1700000000}` | since then nobody shows what block 7 holds at some coin |
//! | `{"owners":["0x.."],"named":[5]}` | guarded; more needs another look at Ethereum |
//! | `{"forget":5}` | a coin that has left the contract |
//!
//! Every line is a fact that was verified, and is synced before anything is done because of it. A
//! line that a crash tore off is verified again. At each start the file is written anew without
//! what later lines replace. A lock keeps a second watcher out of the same directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use plasma_client::history::History;
use plasma_core::domain::Domain;
use plasma_core::{Address, B256, BlockNumber, CoinId};
use serde::{Deserialize, Serialize};

use super::scan::Counts;

const FORMAT: &str = "plasma-watch/1";

/// Why the book cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// The file system.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another watcher runs there.
    #[error("another watcher uses {0}")]
    Locked(PathBuf),
    /// The file is of another contract or format.
    #[error("{path} belongs to {found}, not to this contract")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it names.
        found: String,
    },
}

/// Runs (first, last) of consecutive coins.
type Runs = Vec<(CoinId, CoinId)>;

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Format { format: String, chain_id: u64, root_chain: Address },
    History { history: String },
    Checked { checked: BlockNumber, coins: Runs },
    Ethereum { ethereum: (u64, B256), counts: (u64, u64, u64), touched: Runs },
    Missing { missing: BlockNumber, since: u64 },
    Guards { owners: BTreeSet<Address>, named: BTreeSet<CoinId> },
    Forget { forget: CoinId },
}

/// How far Ethereum was read, at its finalized block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Number and hash of the block.
    pub block: (u64, B256),
    /// What the contract had counted there.
    pub counts: Counts,
}

/// What the watcher remembers.
#[derive(Debug)]
pub struct Book {
    path: PathBuf,
    file: File,
    /// Held for as long as the book is open.
    _lock: File,
    /// The file may end in a part of a line.
    torn: bool,
    domain: Domain,
    coins: BTreeMap<CoinId, History>,
    /// Coins that ever had an exit.
    touched: BTreeSet<CoinId>,
    position: Option<Position>,
    /// Since when blocks are missing (Unix seconds of Ethereum).
    missing: BTreeMap<BlockNumber, u64>,
    /// Whose coins, and which others, Ethereum was read for.
    guards: (BTreeSet<Address>, BTreeSet<CoinId>),
}

impl Book {
    /// Opens the book in a directory, and tidies its file.
    pub fn open(dir: &Path, domain: Domain) -> Result<Self, BookError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| BookError::Io { path, source }
        };
        fs::create_dir_all(dir).map_err(failed(dir))?;
        let lock_path = dir.join("lock");
        let lock = File::create(&lock_path).map_err(failed(&lock_path))?;
        lock.try_lock().map_err(|_| BookError::Locked(dir.to_owned()))?;
        let path = dir.join("watch.log");
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut book = Self {
            file: file.map_err(failed(&path))?,
            path,
            _lock: lock,
            torn: false,
            domain,
            coins: BTreeMap::new(),
            touched: BTreeSet::new(),
            position: None,
            missing: BTreeMap::new(),
            guards: Default::default(),
        };
        book.load()?;
        book.prune_missing();
        book.rewrite().map_err(failed(&book.path))?;
        Ok(book)
    }

    /// A line that does not read says nothing. What it said is read again from Ethereum, unless it
    /// is the last one: that was torn by a crash, and not acted on.
    fn load(&mut self) -> Result<(), BookError> {
        let (mut damaged, mut torn) = (false, false);
        let failed = |source| BookError::Io { path: self.path.clone(), source };
        let reader = BufReader::new(File::open(&self.path).map_err(failed)?);
        for line in reader.split(b'\n') {
            let line = line.map_err(failed)?;
            damaged |= torn;
            torn = false;
            let Ok(line) = serde_json::from_slice(&line) else {
                torn = !line.is_empty();
                continue;
            };
            match line {
                Line::Format { format, chain_id, root_chain } => {
                    let domain = Domain::new(chain_id, root_chain);
                    if format != FORMAT || domain != self.domain {
                        let found = format!("{format}, {root_chain} on chain {chain_id}");
                        return Err(BookError::Foreign { path: self.path.clone(), found });
                    }
                }
                Line::History { history } => {
                    let decoded = hex_bytes(&history).and_then(|b| History::decode(&b).ok());
                    match decoded.filter(|history| *history.domain() == self.domain) {
                        Some(history) => drop(self.coins.insert(history.coin(), history)),
                        None => damaged = true,
                    }
                }
                Line::Checked { checked, coins } => {
                    for (first, last) in coins {
                        for (_, history) in self.coins.range_mut(first..=last) {
                            history.resume(checked);
                        }
                    }
                }
                Line::Ethereum { ethereum, counts: (deposits, exits, blocks), touched } => {
                    let counts = Counts { deposits, exits, blocks };
                    self.position = Some(Position { block: ethereum, counts });
                    self.touched.extend(touched.iter().flat_map(|(a, b)| *a..=*b));
                }
                Line::Missing { missing, since } => {
                    self.missing.entry(missing).or_insert(since);
                }
                Line::Guards { owners, named } => self.guards = (owners, named),
                Line::Forget { forget } => {
                    self.coins.remove(&forget);
                    self.touched.remove(&forget);
                }
            }
        }
        if damaged {
            self.position = None;
        }
        Ok(())
    }

    /// Writes the file anew: each fact once.
    fn rewrite(&mut self) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let mut out = BufWriter::new(File::create(&beside)?);
        let Domain { chain_id, root_chain, .. } = self.domain;
        write_line(&mut out, &Line::Format { format: FORMAT.into(), chain_id, root_chain })?;
        let (owners, named) = self.guards.clone();
        write_line(&mut out, &Line::Guards { owners, named })?;
        for history in self.coins.values() {
            write_line(&mut out, &history_line(history))?;
        }
        if let Some(position) = self.position {
            write_line(&mut out, &position_line(position, self.touched.iter().copied()))?;
        }
        for (&missing, &since) in &self.missing {
            write_line(&mut out, &Line::Missing { missing, since })?;
        }
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&beside, &self.path)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.torn = false;
        Ok(())
    }

    /// Appends lines and waits until they are on disk.
    fn append(&mut self, lines: &[Line]) -> Result<(), BookError> {
        let mut bytes = Vec::new();
        if self.torn {
            bytes.push(b'\n');
        }
        // Of a write that fails, on a full disk, a part may be there.
        self.torn = true;
        let written = lines.iter().try_for_each(|line| write_line(&mut bytes, line));
        let written = written.and_then(|()| self.file.write_all(&bytes));
        written
            .and_then(|()| self.file.sync_data())
            .map_err(|source| BookError::Io { path: self.path.clone(), source })?;
        self.torn = false;
        Ok(())
    }

    /// Sets whose coins, and which others, are guarded. For new ones everything is read again.
    pub fn guard(
        &mut self,
        owners: BTreeSet<Address>,
        named: BTreeSet<CoinId>,
    ) -> Result<(), BookError> {
        let known = owners.is_subset(&self.guards.0) && named.is_subset(&self.guards.1);
        if !known {
            // First, so that a crash in between reads again too.
            self.position = None;
            self.guards = (owners.clone(), named.clone());
            self.rewrite().map_err(|source| BookError::Io { path: self.path.clone(), source })?;
        }
        Ok(())
    }

    /// Watched coins, ascending.
    pub fn coins(&self) -> &BTreeMap<CoinId, History> {
        &self.coins
    }

    /// A coin's history.
    pub fn history(&self, coin: CoinId) -> Option<&History> {
        self.coins.get(&coin)
    }

    /// Coins that ever had an exit.
    pub fn touched(&self) -> &BTreeSet<CoinId> {
        &self.touched
    }

    /// How far Ethereum was read; none before the first time.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Keeps histories that are new or have new inclusions.
    pub fn keep(&mut self, histories: Vec<History>) -> Result<(), BookError> {
        if histories.is_empty() {
            return Ok(());
        }
        let lines: Vec<Line> = histories.iter().map(history_line).collect();
        self.append(&lines)?;
        self.coins.extend(histories.into_iter().map(|history| (history.coin(), history)));
        Ok(())
    }

    /// Keeps that these histories reach further, without new inclusions.
    pub fn keep_checked(&mut self, histories: Vec<History>) -> Result<(), BookError> {
        let mut reached: BTreeMap<BlockNumber, Vec<CoinId>> = BTreeMap::new();
        for history in &histories {
            reached.entry(history.checked()).or_default().push(history.coin());
        }
        let lines: Vec<Line> = reached
            .into_iter()
            .map(|(checked, mut coins)| {
                coins.sort_unstable();
                // A run that skips coins which are not watched says nothing of them.
                Line::Checked { checked, coins: runs(coins) }
            })
            .collect();
        if lines.is_empty() {
            return Ok(());
        }
        self.append(&lines)?;
        self.coins.extend(histories.into_iter().map(|history| (history.coin(), history)));
        Ok(())
    }

    /// Keeps how far Ethereum was read, and which coins had an exit there.
    pub fn keep_position(
        &mut self,
        position: Position,
        touched: &BTreeSet<CoinId>,
    ) -> Result<(), BookError> {
        let new = touched.difference(&self.touched).copied();
        self.append(&[position_line(position, new)])?;
        self.touched.extend(touched);
        self.position = Some(position);
        Ok(())
    }

    /// Since when a block is missing; `now` if nobody has missed it before.
    pub fn missing_since(&mut self, block: BlockNumber, now: u64) -> Result<u64, BookError> {
        if let Some(since) = self.missing.get(&block) {
            return Ok(*since);
        }
        self.append(&[Line::Missing { missing: block, since: now }])?;
        self.missing.insert(block, now);
        Ok(now)
    }

    /// Forgets the missing of blocks that every coin has passed.
    pub fn prune_missing(&mut self) {
        let passed = self.coins.values().map(History::checked).min().unwrap_or(0);
        self.missing.retain(|block, _| *block > passed);
    }

    /// Forgets how far Ethereum was read: everything is read again.
    pub fn forget_position(&mut self) {
        self.position = None;
    }

    /// Forgets a coin.
    pub fn forget(&mut self, coin: CoinId) -> Result<(), BookError> {
        self.append(&[Line::Forget { forget: coin }])?;
        self.coins.remove(&coin);
        self.touched.remove(&coin);
        Ok(())
    }
}

fn position_line(
    Position { block, counts }: Position,
    touched: impl Iterator<Item = CoinId>,
) -> Line {
    Line::Ethereum {
        ethereum: block,
        counts: (counts.deposits, counts.exits, counts.blocks),
        touched: runs(touched),
    }
}

fn history_line(history: &History) -> Line {
    Line::History { history: alloy::primitives::hex::encode(history.encode()) }
}

fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    alloy::primitives::hex::decode(text).ok()
}

fn write_line(out: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// Runs of ascending coins.
fn runs(coins: impl IntoIterator<Item = CoinId>) -> Runs {
    let mut runs: Runs = Vec::new();
    for coin in coins {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(coin) => *last = coin,
            _ => runs.push((coin, coin)),
        }
    }
    runs
}
