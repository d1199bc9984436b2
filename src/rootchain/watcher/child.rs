//! The watcher's side of the child chain: proofs of each new plasma block for every watched coin,
//! from nodes that nobody trusts, against the roots in the contract at the finalized block.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plasma_client::challenge::Inclusion;
use plasma_client::history::{History, HistoryError, follow};
use plasma_client::rpc::NodeClient;
use plasma_core::transfer::ChildError;
use plasma_core::{B256, BlockNumber, CoinId};
use serde_json::json;
use tokio::task::JoinSet;

use super::{WatchError, Watcher};
use crate::ethereum::At;

/// Questions to nodes, or to Ethereum for roots, at the same time.
const QUESTIONS: usize = 16;
/// Coins whose histories are kept together: what a crash costs.
const COINS_PER_BATCH: usize = 500;
/// Plasma blocks that one question goes over, so that no coin keeps the others waiting.
const BLOCKS_PER_QUESTION: u64 = 1_000;
/// How long nodes are asked before Ethereum is looked at again.
const TURN: Duration = Duration::from_secs(5);
/// Most coins that nodes may name as the owners' and that are not verified yet.
const CANDIDATES_MAX: usize = 100_000;

type Roots = Arc<BTreeMap<BlockNumber, B256>>;

/// A history that was followed, with why it ends before its goal, if it does.
type Followed = (History, Option<String>);

impl Watcher {
    /// Checks new plasma blocks. Nodes that are away or lie are no error: what they do not show is
    /// missing.
    pub(super) async fn follow_child(&mut self) -> Result<(), WatchError> {
        let newest = self.stored();
        self.report.progress.stored = newest;
        self.list_coins(newest).await?;
        let until = Instant::now() + TURN;
        let mut behind: Vec<History> = self.behind(newest);
        while !behind.is_empty() && Instant::now() < until {
            let rest = behind.split_off(COINS_PER_BATCH.min(behind.len()));
            self.check(behind, newest, until).await?;
            behind = rest;
        }
        self.ask_for_signatures().await?;
        let coins = self.book.coins().values();
        self.report.progress.checked = coins.map(History::checked).min().unwrap_or(newest);
        self.book.prune_missing();
        Ok(())
    }

    /// Histories that end before the newest block: those that miss nothing first, so that a coin
    /// whose data is withheld does not keep the others waiting.
    fn behind(&self, newest: BlockNumber) -> Vec<History> {
        let all = self.book.coins().values().chain(self.candidates.values());
        let mut behind: Vec<&History> = all.filter(|h| h.checked() < newest).collect();
        behind.sort_by_key(|history| self.missing.contains_key(&history.coin()));
        behind.into_iter().cloned().collect()
    }

    /// Follows these histories, and keeps how far they got.
    async fn check(
        &mut self,
        some: Vec<History>,
        newest: BlockNumber,
        until: Instant,
    ) -> Result<(), WatchError> {
        let lowest = some.iter().map(History::checked).min().unwrap_or(newest) + 1;
        let newest = newest.min(lowest.saturating_add(BLOCKS_PER_QUESTION - 1));
        self.read_roots(lowest, newest).await?;
        let mut tasks: JoinSet<Followed> = JoinSet::new();
        let (mut moved, mut rested, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        let mut waiting = some.into_iter().filter(|history| history.checked() < newest);
        loop {
            // A node that hangs keeps the next look waiting for one answer, not for all.
            while tasks.len() < QUESTIONS
                && Instant::now() < until
                && let Some(history) = waiting.next()
            {
                let nodes = self.settings.nodes.clone();
                tasks.spawn(ask(nodes, history, newest, Arc::clone(&self.roots)));
            }
            let Some(done) = tasks.join_next().await else { break };
            // A task that panicked is as good as one that found nothing.
            let Ok((history, error)) = done else { continue };
            if let Some(error) = error {
                failed.push((history.coin(), history.checked() + 1, error));
            } else {
                self.missing.remove(&history.coin());
            }
            let coin = history.coin();
            let known = self.book.history(coin).or_else(|| self.candidates.get(&coin));
            let Some(known) = known else { continue };
            self.report.progress.proofs += history.checked() - known.checked();
            if history.included() != known.included() {
                moved.push(history);
            } else if history.checked() > known.checked() {
                rested.push(history);
            }
        }
        self.keep(moved, rested, newest).await?;
        self.miss(failed)
    }

    /// Keeps histories, and judges candidates that have arrived.
    async fn keep(
        &mut self,
        moved: Vec<History>,
        rested: Vec<History>,
        newest: BlockNumber,
    ) -> Result<(), WatchError> {
        let (candidates, moved): (Vec<_>, Vec<_>) =
            moved.into_iter().partition(|history| self.candidates.contains_key(&history.coin()));
        let (more, rested): (Vec<_>, Vec<_>) =
            rested.into_iter().partition(|history| self.candidates.contains_key(&history.coin()));
        for history in &moved {
            self.latest.remove(&history.coin());
            if let Some(last) = history.included().last() {
                let (coin, block) = (history.coin(), last.block);
                let to = history.state().owner;
                let text = format!("coin {coin}: moved in plasma block {block}, now of {to}");
                let data = json!({"coin": coin, "plasma_block": block, "owner": to});
                self.report.step("moved", text, data);
            }
        }
        self.book.keep(moved)?;
        self.book.keep_checked(rested)?;
        let mut new = Vec::new();
        for history in candidates.into_iter().chain(more) {
            let coin = history.coin();
            if history.checked() < newest || newest < self.stored() {
                self.candidates.insert(coin, history);
                continue;
            }
            self.candidates.remove(&coin);
            if self.rules.owners.contains(&history.claim().0.owner) {
                new.push(history);
            } else {
                self.refused.insert(coin, newest);
            }
        }
        self.welcome(new).await
    }

    /// Watches coins that were verified to be an owner's.
    async fn welcome(&mut self, new: Vec<History>) -> Result<(), WatchError> {
        if new.is_empty() {
            return Ok(());
        }
        let coins: Vec<CoinId> = new.iter().map(History::coin).collect();
        for history in &new {
            let (coin, owner) = (history.coin(), history.state().owner);
            let text = format!("coin {coin}: verified to be of {owner}, watched from now on");
            self.report.step("watch", text, json!({"coin": coin, "owner": owner}));
        }
        self.book.keep(new)?;
        let Some(position) = self.book.position() else { return Ok(()) };
        let mut touched = BTreeSet::new();
        self.look_back(&coins, position.block.0, &mut touched).await?;
        if !touched.is_empty() {
            self.book.keep_position(position, &touched)?;
            self.dirty.extend(touched);
        }
        Ok(())
    }

    /// Keeps since when blocks are missing.
    fn miss(&mut self, failed: Vec<(CoinId, BlockNumber, String)>) -> Result<(), WatchError> {
        let now = self.report.progress.ethereum.2;
        for (coin, block, error) in failed {
            if self.candidates.remove(&coin).is_some() {
                // Whoever named it does not show it.
                continue;
            }
            tracing::debug!(coin, plasma_block = block, %error, "no proof");
            let since = self.book.missing_since(block, now)?;
            self.missing.insert(coin, (block, since));
        }
        Ok(())
    }

    /// Asks the other nodes for a block that was shown with a bad signature: the leaf does not
    /// hold the signature, so that the good one may exist.
    async fn ask_for_signatures(&mut self) -> Result<(), WatchError> {
        let now = self.report.progress.ethereum.2;
        let suspicious: Vec<(CoinId, BlockNumber)> = self
            .book
            .coins()
            .values()
            .filter_map(|history| match history.garbage() {
                Some((block, ChildError::BadSignature)) => Some((history.coin(), block)),
                _ => None,
            })
            .collect();
        for (coin, block) in suspicious {
            let since = self.book.missing_since(block, now)?;
            self.missing.insert(coin, (block, since));
            self.read_roots(block, block).await?;
            let (Some(known), Some(root)) = (self.book.history(coin), self.roots.get(&block))
            else {
                continue;
            };
            let mut history = known.clone();
            for node in &self.settings.nodes {
                let Ok(Some(shown)) = node.coin_proof(coin, block).await else { continue };
                let Some(transfer) = shown.transfer else { continue };
                // What proves nothing is not learned.
                let _ = history.learn(*root, Inclusion { block, transfer, proof: shown.proof });
            }
            if history != *known {
                self.missing.remove(&coin);
                self.book.keep(vec![history])?;
            }
        }
        Ok(())
    }

    /// Reads the roots of these blocks that were not read yet.
    async fn read_roots(&mut self, from: BlockNumber, to: BlockNumber) -> Result<(), WatchError> {
        let Some(position) = self.book.position() else { return Ok(()) };
        let at = At::Number(position.block.0);
        let mut wanted = (from..=to).filter(|block| !self.roots.contains_key(block));
        let (mut tasks, mut new) = (JoinSet::new(), Vec::new());
        loop {
            while tasks.len() < QUESTIONS
                && let Some(block) = wanted.next()
            {
                let contract = self.contract.clone();
                tasks
                    .spawn(async move { contract.root(block, at).await.map(|root| (block, root)) });
            }
            let Some(done) = tasks.join_next().await else { break };
            let Ok(answer) = done else { continue };
            if let (block, Some(root)) = answer? {
                new.push((block, root));
            }
        }
        drop(wanted);
        if !new.is_empty() {
            Arc::make_mut(&mut self.roots).extend(new);
        }
        Ok(())
    }

    /// Asks nodes for the owners' coins, once a plasma block. What they say is verified; what they
    /// hide the owner names (`--coin`), and a deposit or evidence on Ethereum shows.
    async fn list_coins(&mut self, newest: BlockNumber) -> Result<(), WatchError> {
        if self.listed_at == Some(newest) {
            return Ok(());
        }
        let Some(position) = self.book.position() else { return Ok(()) };
        let at = At::Number(position.block.0);
        let last_coin = self.contract.read(crate::contract::RootChain::lastCoinCall {}, at).await?;
        let mut named: BTreeSet<CoinId> = BTreeSet::new();
        let mut heard = false;
        for node in self.settings.nodes.clone() {
            for owner in self.rules.owners.clone() {
                let Ok(runs) = node.account_coins(owner).await else { continue };
                heard = true;
                for (first, length) in runs {
                    let last = first.saturating_add(length - 1).min(last_coin);
                    let new = (first..=last).filter(|coin| self.is_news(*coin, newest));
                    named.extend(new.take(CANDIDATES_MAX - named.len()));
                }
            }
        }
        for coin in named {
            if let Some(deposit) = self.deposit_of(coin, at).await? {
                self.candidates.insert(coin, History::new(coin, deposit, self.domain)?);
            }
        }
        // Those of this very block's deposits have nothing to be checked.
        let ready = |history: &&History| history.checked() >= newest;
        let ready: Vec<History> = self.candidates.values().filter(ready).cloned().collect();
        self.keep(ready, Vec::new(), newest).await?;
        if heard {
            self.listed_at = Some(newest);
        }
        Ok(())
    }

    fn is_news(&self, coin: CoinId, newest: BlockNumber) -> bool {
        self.book.history(coin).is_none()
            && !self.candidates.contains_key(&coin)
            && self.refused.get(&coin).is_none_or(|at| *at < newest)
            && self.candidates.len() < CANDIDATES_MAX
    }
}

/// Follows a history at one node after the other, as far as any of them shows it.
async fn ask(
    nodes: Vec<NodeClient>,
    mut history: History,
    newest: BlockNumber,
    roots: Roots,
) -> Followed {
    let mut failed = "there is no node".to_owned();
    for node in &nodes {
        let root = |block: BlockNumber| roots.get(&block).copied();
        match follow(node, &mut history, newest, root, |_| {}).await {
            Ok(()) => return (history, None),
            Err(error @ HistoryError::NoRoot(_)) => return (history, Some(error.to_string())),
            Err(error) => failed = error.to_string(),
        }
    }
    (history, Some(failed))
}
