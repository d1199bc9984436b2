//! What receivers and senders check of a coin before they act (protocol.md section 7): the deposit
//! record, every block since against roots on Ethereum, and that no exit is open.
//!
//! Blocks that were checked at Ethereum's finalized block are kept in `coins/` of the home, so
//! that only new ones are checked the next time. Nothing that a node or a file says is believed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use plasma_client::certified::{CertifiedError, Stored, certified_roots};
use plasma_client::coin_files::{CoinFiles, CoinFilesError};
use plasma_client::history::{History, HistoryError, follow};
use plasma_client::history_file::{FileError, Header, HistoryFile, write_shown};
use plasma_client::queries::CoinProof;
use plasma_client::rpc::NodeClient;
use plasma_core::coin::Deposit;
use plasma_core::domain::Domain;
use plasma_core::{B256, BlockNumber, CoinId};
use plasma_rootchain::contract::{RootChain, RootChainContract};
use plasma_rootchain::ethereum::{At, EthError};
use tokio::task::JoinSet;

use crate::context::{Context, rpc_error};
use crate::ethereum::eth_error;
use crate::output::{CommandError, CommandResult};

/// Blocks that are checked before they are stored.
const STEP: u64 = 1_000;
/// Roots that are asked for at a time.
const ROOTS_AT_ONCE: usize = 32;

/// Roots by block.
pub type Roots = BTreeMap<BlockNumber, B256>;

/// Ethereum at its finalized and its latest block, as one look found it.
pub struct View {
    contract: RootChainContract,
    /// What is verified and signed belongs to this contract.
    pub domain: Domain,
    finalized: At,
    latest: At,
    /// Number of Ethereum's finalized block.
    pub finalized_number: u64,
    /// Last plasma block that is stored there.
    pub final_block: BlockNumber,
    /// What the contract says at the latest block.
    pub stored: Stored,
}

impl View {
    /// Looks.
    pub async fn read(context: &Context) -> CommandResult<Self> {
        let contract = context.contract()?;
        let read = async {
            let chain_id = contract.ethereum.chain_id().await?;
            let none = || EthError::Answer("no such block".into());
            let finalized = contract.ethereum.head(At::Finalized).await?.ok_or_else(none)?.number;
            let latest = contract.ethereum.head(At::Latest).await?.ok_or_else(none)?;
            let latest = At::Number(latest.number);
            let at_finalized = At::Number(finalized);
            let final_block = contract.last_block(at_finalized).await?;
            let stored = Stored {
                last_block: contract.last_block(latest).await?,
                chain_hash: contract.read(RootChain::chainHashCall {}, latest).await?,
                set_hash: contract.read(RootChain::validatorSetHashCall {}, latest).await?,
            };
            Ok((chain_id, finalized, latest, final_block, stored))
        };
        let (chain_id, finalized_number, latest, final_block, stored) =
            read.await.map_err(eth_error)?;
        let domain = Domain::new(chain_id, contract.address);
        let finalized = At::Number(finalized_number);
        Ok(Self { contract, domain, finalized, latest, finalized_number, final_block, stored })
    }

    /// A coin's deposit record at the finalized block.
    pub async fn deposit(&self, coin: CoinId) -> CommandResult<Deposit> {
        let found = self.contract.deposit_of(coin, self.finalized).await.map_err(eth_error)?;
        if let Some(deposit) = found {
            return Ok(deposit);
        }
        let latest = self.contract.deposit_of(coin, self.latest).await.map_err(eth_error)?;
        Err(match latest {
            Some(_) => {
                let message = format!("the deposit of coin {coin} is not finalized on Ethereum");
                CommandError::no("not_finalized", message, "wait, then again")
            }
            None => {
                let message = format!("no deposit on Ethereum created coin {coin}");
                CommandError::no("not_found", message, "plasma deposit --from NAME")
            }
        })
    }

    /// What Ethereum's contract holds against a coin, at the finalized or the latest block.
    pub async fn leaving(&self, deposit: &Deposit, coin: CoinId) -> CommandResult<Option<Leaving>> {
        for at in [self.finalized, self.latest] {
            let state = self.contract.coin(coin, deposit.deposit_id, at).await;
            let state = state.map_err(eth_error)?;
            if state.status != 0 {
                return Ok(Some(Leaving::Gone));
            }
            if !state.open.is_empty() {
                return Ok(Some(Leaving::Exiting));
            }
        }
        Ok(None)
    }

    /// The roots of blocks `from ..= to` at a block of Ethereum.
    async fn roots(&self, from: BlockNumber, to: BlockNumber, at: At) -> CommandResult<Roots> {
        let mut roots = BTreeMap::new();
        let mut asked = JoinSet::new();
        for number in from..=to {
            if asked.len() == ROOTS_AT_ONCE {
                take_root(&mut asked, &mut roots).await?;
            }
            let contract = self.contract.clone();
            asked.spawn(async move { (number, contract.root(number, at).await) });
        }
        while !asked.is_empty() {
            take_root(&mut asked, &mut roots).await?;
        }
        Ok(roots)
    }

    /// The roots above Ethereum's newest that the validators have certified.
    pub async fn certified(&self, node: &NodeClient) -> CommandResult<Roots> {
        certified_roots(node, &self.domain, &self.stored).await.map_err(|error| match error {
            CertifiedError::Rpc(error) => rpc_error(error),
            other => CommandError::no("certificate", other, "ask another node: [node] rpc"),
        })
    }
}

type AskedRoots = JoinSet<(BlockNumber, Result<Option<B256>, EthError>)>;

async fn take_root(asked: &mut AskedRoots, roots: &mut Roots) -> CommandResult<()> {
    let Some(answer) = asked.join_next().await else { return Ok(()) };
    let (number, root) = answer.map_err(|error| CommandError::failure("ethereum", error, ""))?;
    roots.extend(root.map_err(eth_error)?.map(|root| (number, root)));
    Ok(())
}

/// Why a coin is not to be taken or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// An exit is open.
    Exiting,
    /// An exit has won.
    Gone,
}

/// Who shows what blocks hold at a coin: a file first, then a node.
pub struct Source<'a> {
    /// A portable history.
    pub file: Option<HistoryFile<BufReader<File>>>,
    /// An untrusted node.
    pub node: Option<&'a NodeClient>,
}

impl Source<'_> {
    /// Extends a history up to block `to`; returns the portable form of what was checked.
    async fn follow(
        &mut self,
        history: &mut History,
        to: BlockNumber,
        roots: &Roots,
    ) -> (Vec<u8>, CommandResult<()>) {
        let mut shown = Vec::new();
        let mut keep = |proof: &CoinProof| {
            // Writing to memory does not fail.
            let _ = write_shown(&mut shown, proof);
        };
        let root = |number: BlockNumber| roots.get(&number).copied();
        let mut done = Ok(());
        if let Some(file) = &mut self.file {
            done = file.follow(history, to, root, &mut keep).map_err(file_error);
        }
        if done.is_ok() && history.checked() < to {
            done = match self.node {
                Some(node) => {
                    follow(node, history, to, root, &mut keep).await.map_err(history_error)
                }
                None => Err(history_error(HistoryError::Missing(history.checked() + 1))),
            };
        }
        (shown, done)
    }
}

/// Opens a portable history.
pub fn open_file(path: &Path) -> CommandResult<HistoryFile<BufReader<File>>> {
    let file = File::open(path).map_err(|error| {
        CommandError::usage(format!("{}: {error}", path.display()), "check the path")
    })?;
    HistoryFile::open(BufReader::new(file)).map_err(file_error)
}

/// A coin's history as it was checked.
pub struct Checked {
    /// Up to the last plasma block at Ethereum's finalized block.
    pub last_final: History,
    /// Up to the last one at Ethereum's latest block, or as far as it is shown.
    pub latest: History,
    /// What is missing up to there.
    pub latest_error: Option<CommandError>,
    /// The portable form of the blocks in `latest` that are not in `last_final`.
    pub latest_shown: Vec<u8>,
}

/// Checks a coin up to Ethereum's finalized block, which must succeed, and from there to its
/// latest, which may lack data. Garbage in either is refused.
pub async fn check(
    view: &View,
    files: &CoinFiles,
    coin: CoinId,
    deposit: Deposit,
    source: &mut Source<'_>,
) -> CommandResult<Checked> {
    let header = Header { domain: view.domain, coin, deposit };
    let mut history = files.load_or_new(&header).map_err(files_error)?;
    if let Some(file) = &source.file {
        file.header().agree_with(&header).map_err(file_error)?;
    }
    while history.checked() < view.final_block {
        let to = view.final_block.min(history.checked() + STEP);
        let roots = view.roots(history.checked() + 1, to, view.finalized).await?;
        let (shown, done) = source.follow(&mut history, to, &roots).await;
        history.refuse_garbage().map_err(history_error)?;
        if !shown.is_empty() {
            files.store(&history, &shown).map_err(files_error)?;
        }
        done?;
    }
    history.refuse_garbage().map_err(history_error)?;
    let mut latest = history.clone();
    let newest = view.stored.last_block;
    let roots = view.roots(latest.checked() + 1, newest, view.latest).await?;
    let (latest_shown, done) = source.follow(&mut latest, newest, &roots).await;
    latest.refuse_garbage().map_err(history_error)?;
    Ok(Checked { last_final: history, latest, latest_error: done.err(), latest_shown })
}

/// A history's error as a command's.
pub fn history_error(error: HistoryError) -> CommandError {
    match error {
        HistoryError::Rpc(error) => rpc_error(error),
        other => {
            let help = "refuse the coin, or ask another node; its owner: plasma exit start COIN";
            CommandError::no("history", other, help)
        }
    }
}

/// A history file's error as a command's.
pub fn file_error(error: FileError) -> CommandError {
    match error {
        FileError::History(error) => history_error(error),
        FileError::Io(error) => CommandError::failure("history_file", error, "check the file"),
        other => CommandError::no("history_file", other, "ask the sender for another file"),
    }
}

/// A wallet file's error as a command's.
pub fn files_error(error: CoinFilesError) -> CommandError {
    match error {
        CoinFilesError::Other(error) => file_error(error),
        other => CommandError::failure("coin_files", other, "see coins/ in the home"),
    }
}

/// The wallet's files of a contract.
pub fn coin_files(context: &Context, view: &View) -> CommandResult<CoinFiles> {
    CoinFiles::open(&context.home.0.join("coins"), &view.domain).map_err(files_error)
}

/// Writes a portable history: the kept blocks, then those that are not final.
pub fn write_portable(
    files: &CoinFiles,
    checked: &Checked,
    out: &mut impl Write,
) -> CommandResult<u64> {
    let failed = |error| CommandError::failure("history_file", error, "check the path");
    let coin = checked.last_final.coin();
    let mut written = 0;
    match files.load(coin).map_err(files_error)? {
        Some((_, length)) => {
            let kept = files.history_path(coin);
            let mut kept = plasma_client::coin_files::open_prefix(&kept, length).map_err(failed)?;
            written += std::io::copy(&mut kept, out).map_err(failed)?;
        }
        // Nothing is final yet.
        None => {
            let header = Header::of(&checked.last_final).encode();
            out.write_all(&header).map_err(failed)?;
            written += header.len() as u64;
        }
    }
    out.write_all(&checked.latest_shown).map_err(failed)?;
    Ok(written + checked.latest_shown.len() as u64)
}
