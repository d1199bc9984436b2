//! What is known of a coin: its deposit and open exits in the contract, and its inclusions as the
//! wallet's own records, history files, Ethereum's events and the node show them.
//!
//! Nobody of them is trusted: an inclusion counts if it leads to the root on Ethereum, and a
//! source that says nothing or nonsense is named and passed over. So an exit can be started and
//! refuted without any node.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use plasma_client::challenge::Inclusion;
use plasma_client::coin_files::CoinFiles;
use plasma_client::history::History;
use plasma_client::history_file::{Header, HistoryFile};
use plasma_client::queries::CoinProof;
use plasma_client::rpc::NodeClient;
use plasma_core::domain::Domain;
use plasma_core::transfer::SignedTransfer;
use plasma_core::{B256, BlockNumber, CoinId};
use plasma_rootchain::contract::{OnChainCoin, RootChainContract};
use plasma_rootchain::ethereum::At;

use crate::commands::verify::files_error;
use crate::context::{Context, deposit_of};
use crate::ethereum::eth_error;
use crate::output::{CommandError, CommandResult, Output};

/// A coin as far as it is known.
pub struct Known {
    /// Every inclusion that leads to a root on Ethereum.
    pub history: History,
    /// The coin in the contract, at the latest block.
    pub on_chain: OnChainCoin,
    /// The transfer of the last state that the node has and Ethereum has not yet.
    pub ahead: Option<BlockNumber>,
    /// The last plasma block of which somebody has said what it holds of the coin.
    pub until: BlockNumber,
}

impl Known {
    /// `coin 3 belongs to 0x..`, and as of which block, if later ones are unknown.
    pub fn belongs(&self, last: BlockNumber) -> String {
        let (state, _) = self.history.claim();
        let text = format!("coin {} belongs to {}", state.coin, state.owner);
        if self.until < last { format!("{text} as of plasma block {}", self.until) } else { text }
    }

    /// Refuses a coin that has left the contract.
    pub fn active(&self) -> CommandResult<()> {
        if self.on_chain.status == 0 {
            return Ok(());
        }
        let coin = self.history.coin();
        let message = format!("coin {coin} has left: an exit of it was finalized");
        Err(CommandError::no("not_active", message, format!("plasma exit list {coin}")))
    }
}

/// Where inclusions are looked for.
pub struct Sources<'a> {
    context: &'a Context,
    contract: RootChainContract,
    domain: Domain,
    last: BlockNumber,
    files: &'a [PathBuf],
}

impl<'a> Sources<'a> {
    /// The configured node and contract, and history files.
    pub async fn new(context: &'a Context, files: &'a [PathBuf]) -> CommandResult<Self> {
        let contract = context.contract()?;
        let chain_id = contract.ethereum.chain_id().await.map_err(eth_error)?;
        let domain = Domain::new(chain_id, contract.address);
        let last = contract.last_block(At::Latest).await.map_err(eth_error)?;
        Ok(Self { context, contract, domain, last, files })
    }

    /// The last plasma block on Ethereum.
    pub fn last(&self) -> BlockNumber {
        self.last
    }

    /// The contract's domain.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Gathers what is known of a coin.
    pub async fn learn(&self, coin: CoinId, output: &Output) -> CommandResult<Known> {
        let deposit = deposit_of(&self.contract, coin).await?;
        let on_chain = self.contract.coin(coin, deposit.deposit_id, At::Latest).await;
        let history = History::new(coin, deposit, self.domain);
        let mut known = Known {
            history: history.map_err(|error| CommandError::failure("history", error, ""))?,
            on_chain: on_chain.map_err(eth_error)?,
            ahead: None,
            until: deposit.deposit_block,
        };
        let mut pool = Pool { sources: self, roots: BTreeMap::new(), output };
        match self.kept(coin) {
            Ok(Some(kept)) => {
                known.until = known.until.max(kept.checked());
                for shown in kept.included() {
                    pool.put(&mut known.history, shown.clone(), "the wallet").await?;
                }
            }
            Ok(None) => {}
            Err(error) => output.note(format!("without the wallet's records: {error}")),
        }
        let (shown, until) = self.read_files(&known.history)?;
        known.until = known.until.max(until);
        for shown in shown {
            pool.put(&mut known.history, shown, "the history file").await?;
        }
        let deployed_at = self.context.config.ethereum.deployed_at;
        match self.contract.evidence(coin, deployed_at).await {
            Ok(evidence) => {
                for shown in evidence {
                    pool.put(&mut known.history, shown, "an event on Ethereum").await?;
                }
            }
            Err(error) => output.note(format!("no events of Ethereum: {error}")),
        }
        self.ask_node(&mut known, &mut pool).await?;
        Ok(known)
    }

    /// What the wallet has kept of a coin that it has verified.
    fn kept(&self, coin: CoinId) -> CommandResult<Option<History>> {
        let files = CoinFiles::open(&self.context.home.0.join("coins"), &self.domain);
        let kept = files.map_err(files_error)?.load(coin).map_err(files_error)?;
        Ok(kept.map(|(history, _)| history))
    }

    /// The inclusions in the files of this coin, and their last block.
    fn read_files(&self, history: &History) -> CommandResult<(Vec<Inclusion>, BlockNumber)> {
        let (mut found, mut until) = (Vec::new(), 0);
        for path in self.files {
            let bad = |error: &dyn std::fmt::Display| {
                let message = format!("{}: {error}", path.display());
                CommandError::usage(message, "plasma coin export COIN FILE")
            };
            let reader = BufReader::new(File::open(path).map_err(|error| bad(&error))?);
            let mut file = HistoryFile::open(reader).map_err(|error| bad(&error))?;
            if file.header().coin != history.coin() {
                continue;
            }
            file.header().agree_with(&Header::of(history)).map_err(|error| bad(&error))?;
            let mut block = history.deposit().deposit_block;
            while let Some(CoinProof { transfer, proof }) =
                file.next_shown().map_err(|error| bad(&error))?
            {
                block = block.saturating_add(1);
                found.extend(transfer.map(|transfer| Inclusion { block, transfer, proof }));
            }
            until = until.max(block);
        }
        Ok((found, until))
    }

    async fn ask_node(&self, known: &mut Known, pool: &mut Pool<'_>) -> CommandResult<()> {
        let node = self.context.node()?;
        let coin = known.history.coin();
        let transfers = match node.coin_history(coin).await {
            Ok(transfers) => transfers.unwrap_or_default(),
            Err(error) => {
                pool.output.note(format!("without the node: {error}"));
                return Ok(());
            }
        };
        for (block, transfer) in transfers.iter().filter(|(block, _)| *block <= self.last) {
            if let Some(shown) = shown(&node, *block, transfer, pool.output).await {
                pool.put(&mut known.history, shown, "the node").await?;
            }
        }
        known.until = known.until.max(self.last);
        // What is no valid transfer of the owner's concerns nobody.
        let (state, _) = known.history.claim();
        let mut ahead = transfers.iter().filter(|(block, transfer)| {
            *block > self.last && transfer.child_of(&state, *block, &self.domain).is_ok()
        });
        known.ahead = ahead.next().map(|(block, _)| *block);
        Ok(())
    }
}

/// A transfer with the node's proof of its inclusion.
async fn shown(
    node: &NodeClient,
    block: BlockNumber,
    transfer: &SignedTransfer,
    output: &Output,
) -> Option<Inclusion> {
    match node.coin_proof(transfer.transfer.coin, block).await {
        Ok(Some(CoinProof { transfer: Some(transfer), proof })) => {
            Some(Inclusion { block, transfer, proof })
        }
        Ok(_) => {
            output.note(format!("the node proves no transfer in block {block}"));
            None
        }
        Err(error) => {
            output.note(format!("the node proves nothing in block {block}: {error}"));
            None
        }
    }
}

/// Puts inclusions into a history, with the roots that were read already.
struct Pool<'a> {
    sources: &'a Sources<'a>,
    roots: BTreeMap<BlockNumber, Option<B256>>,
    output: &'a Output,
}

impl Pool<'_> {
    async fn put(
        &mut self,
        history: &mut History,
        shown: Inclusion,
        source: &str,
    ) -> CommandResult<()> {
        let block = shown.block;
        let root = match self.roots.get(&block) {
            Some(root) => *root,
            None => {
                let root = self.sources.contract.root(block, At::Latest).await;
                let root = root.map_err(eth_error)?;
                self.roots.insert(block, root);
                root
            }
        };
        let Some(root) = root else {
            self.output.note(format!("{source}: block {block} is not on Ethereum"));
            return Ok(());
        };
        // Garbage is known too: it may be the exiting transfer of an exit.
        if let Err(error) = history.learn(root, shown) {
            self.output.note(format!("{source}: {error}"));
        }
        Ok(())
    }
}
