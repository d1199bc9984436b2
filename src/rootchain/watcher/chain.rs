//! The watcher's side of Ethereum: events in one pass for all coins, and the state in the contract
//! of those coins that events are about.

use std::collections::{BTreeMap, BTreeSet};

use plasma_client::challenge::Inclusion;
use plasma_client::history::History;
use plasma_client::queries::CoinProof;
use plasma_core::coin::Deposit;
use plasma_core::{BlockNumber, CoinId};
use serde_json::json;

use super::book::Position;
use super::decide::SeenCoin;
use super::scan::{Counts, Event, What};
use super::{WatchError, Watcher, receiver};
use crate::contract::RootChain;
use crate::ethereum::{At, Head};

/// Most coins of one question about their past.
const COINS_PER_QUESTION: usize = 100;

/// Most blocks above the finalized one, a week's: beyond it an endpoint is not believed.
const UNFINALIZED_MAX: u64 = 50_400;

impl Watcher {
    /// Reads what is new on Ethereum.
    pub(super) async fn follow_ethereum(&mut self) -> Result<(), WatchError> {
        let ethereum = self.contract.ethereum.clone();
        if ethereum.syncing().await? {
            return Err(WatchError::Syncing);
        }
        let finalized = ethereum.head(At::Finalized).await?;
        let finalized = finalized.ok_or(WatchError::NoBlock("finalized"))?;
        let latest = ethereum.head(At::Latest).await?.ok_or(WatchError::NoBlock("latest"))?;
        // A liar's head would keep the watcher reading for ever.
        if latest.number.saturating_sub(finalized.number) > UNFINALIZED_MAX {
            return Err(WatchError::NoBlock("plausible latest"));
        }
        if finalized.number < self.settings.deployed_at {
            return Err(WatchError::NoBlock("finalized, with the contract,"));
        }
        if self.heads != Some((finalized, latest)) {
            self.follow_finalized(finalized).await?;
            self.follow_latest(finalized, latest).await?;
            self.heads = Some((finalized, latest));
        }
        self.refresh(finalized, latest).await?;
        let progress = &mut self.report.progress;
        progress.ethereum = (latest.number, finalized.number, latest.timestamp);
        progress.coins = self.book.coins().len();
        progress.exiting = self.seen.values().filter(|seen| !seen.open.is_empty()).count();
        Ok(())
    }

    /// Forgets how far Ethereum was read.
    pub(super) fn read_again(&mut self) {
        self.book.forget_position();
        self.heads = None;
        self.dirty.extend(self.book.touched());
    }

    /// The plasma blocks in the contract at the finalized block.
    pub(super) fn stored(&self) -> BlockNumber {
        self.book.position().map_or(0, |position| position.counts.blocks)
    }

    /// Reads events up to the finalized block: they stay.
    async fn follow_finalized(&mut self, head: Head) -> Result<(), WatchError> {
        let at = At::Number(head.number);
        let (mut from, mut counts) = (self.settings.deployed_at, Counts::default());
        if let Some(Position { block: (number, hash), counts: before }) = self.book.position() {
            if head.number < number {
                return Err(WatchError::Lagging { has: head.number, read: number });
            }
            let there = self.contract.ethereum.head(At::Number(number)).await?;
            if there.map(|head| head.hash) != Some(hash) {
                return Err(WatchError::Reorganised(number));
            }
            (from, counts) = (number + 1, before);
        } else {
            self.add_named(at).await?;
        }
        let mut touched = BTreeSet::new();
        while from <= head.number {
            let contract = self.contract.clone();
            let (events, last) = self.scanner.read(&contract, from, head.number).await?;
            counts = counts.after(&events);
            self.take_settled(&events, head.number, &mut touched).await?;
            from = last + 1;
        }
        let has = Counts::read(&self.contract, at).await?;
        if counts != has {
            return Err(WatchError::Incomplete { read: counts, has });
        }
        let position = Position { block: (head.number, head.hash), counts };
        if self.book.position() != Some(position) {
            self.book.keep_position(position, &touched)?;
        }
        self.dirty.extend(touched);
        Ok(())
    }

    /// Coins that are guarded whoever owns them.
    async fn add_named(&mut self, at: At) -> Result<(), WatchError> {
        for coin in self.settings.coins.clone() {
            match self.deposit_of(coin, at).await? {
                Some(deposit) => self.add(coin, deposit)?,
                None => self.report.step(
                    "unknown coin",
                    format!("coin {coin}: no deposit made it"),
                    json!({"coin": coin}),
                ),
            }
        }
        Ok(())
    }

    /// The deposit of a coin; those that are known are not asked for.
    pub(super) async fn deposit_of(
        &mut self,
        coin: CoinId,
        at: At,
    ) -> Result<Option<Deposit>, WatchError> {
        let known = self.deposits.range(..=coin).next_back().map(|(_, deposit)| *deposit);
        if let Some(deposit) = known.filter(|deposit| deposit.contains(coin)) {
            return Ok(Some(deposit));
        }
        let found = self.contract.deposit_of(coin, at).await?;
        if let Some(deposit) = found {
            self.deposits.insert(deposit.first_coin, deposit);
        }
        Ok(found)
    }

    /// Watches a coin from its deposit on.
    pub(super) fn add(&mut self, coin: CoinId, deposit: Deposit) -> Result<(), WatchError> {
        if self.book.history(coin).is_none() {
            self.book.keep(vec![History::new(coin, deposit, self.domain)?])?;
        }
        Ok(())
    }

    async fn take_settled(
        &mut self,
        events: &[Event],
        head: u64,
        touched: &mut BTreeSet<CoinId>,
    ) -> Result<(), WatchError> {
        for event in events {
            match &event.what {
                What::Deposited { deposit, owner } if self.rules.owners.contains(owner) => {
                    self.add_deposit(*deposit, At::Number(head)).await?;
                }
                What::Evidence(shown) => {
                    if !self.watches(event.coin) && self.rules.owners.contains(&receiver(shown)) {
                        self.watch_shown(event.coin, head, touched).await?;
                    }
                    self.take_evidence(event.coin, shown, At::Number(head)).await?;
                }
                What::Started(_) | What::Changed(_) if self.watches(event.coin) => {
                    touched.insert(event.coin);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn watches(&self, coin: CoinId) -> bool {
        self.book.history(coin).is_some()
    }

    async fn add_deposit(&mut self, id: u64, at: At) -> Result<(), WatchError> {
        let Some(deposit) = self.contract.deposit(id, at).await? else { return Ok(()) };
        let (first, count) = (deposit.first_coin, u64::from(deposit.count));
        self.deposits.insert(first, deposit);
        let coins = (first..first + count).filter(|coin| !self.watches(*coin));
        let new: Result<Vec<History>, _> =
            coins.map(|coin| History::new(coin, deposit, self.domain)).collect();
        self.book.keep(new?)?;
        let last = first + (count - 1);
        let text = match count {
            1 => format!("coin {first}: deposited, watched from now on"),
            _ => format!("coins {first} to {last}: deposited, watched from now on"),
        };
        let data = json!({"first_coin": first, "last_coin": last, "owner": deposit.owner});
        self.report.step("watch", text, data);
        Ok(())
    }

    /// Who receives by a transfer that a call shows may learn of it nowhere else: one to an owner
    /// brings the coin under watch.
    async fn watch_shown(
        &mut self,
        coin: CoinId,
        head: u64,
        touched: &mut BTreeSet<CoinId>,
    ) -> Result<(), WatchError> {
        let Some(deposit) = self.deposit_of(coin, At::Number(head)).await? else { return Ok(()) };
        self.add(coin, deposit)?;
        // The coin is watched now, so that its own events do not come back here.
        Box::pin(self.look_back(&[coin], head, touched)).await
    }

    /// Keeps a transfer that a call showed.
    async fn take_evidence(
        &mut self,
        coin: CoinId,
        shown: &Inclusion,
        at: At,
    ) -> Result<(), WatchError> {
        if !self.watches(coin) {
            return Ok(());
        }
        let Some(root) = self.contract.root(shown.block, at).await? else { return Ok(()) };
        let Some(known) = self.book.history(coin) else { return Ok(()) };
        let mut history = known.clone();
        // What proves nothing, or stands before the deposit, is none of the coin's business.
        if history.learn(root, shown.clone()).is_err() || history == *known {
            return Ok(());
        }
        self.book.keep(vec![history])?;
        let (block, to) = (shown.block, receiver(shown));
        let proof =
            CoinProof { transfer: Some(shown.transfer), proof: shown.proof.clone() }.encode();
        let text =
            format!("coin {coin}: Ethereum shows a transfer to {to} in plasma block {block}");
        let proof = alloy::primitives::hex::encode(proof);
        let data = json!({"coin": coin, "plasma_block": block, "receiver": to, "proof": proof});
        self.report.step("inclusion", text, data);
        Ok(())
    }

    /// What happened to coins before they were watched, up to block `head`.
    pub(super) async fn look_back(
        &mut self,
        coins: &[CoinId],
        head: u64,
        touched: &mut BTreeSet<CoinId>,
    ) -> Result<(), WatchError> {
        for some in coins.chunks(COINS_PER_QUESTION) {
            let contract = self.contract.clone();
            let range = (self.settings.deployed_at, head);
            let events = self.scanner.about(&contract, some, range).await?;
            self.take_settled(&events, head, touched).await?;
        }
        Ok(())
    }

    /// Reads events above the finalized block: they may go away again.
    async fn follow_latest(&mut self, finalized: Head, latest: Head) -> Result<(), WatchError> {
        let mut recent: BTreeMap<CoinId, Vec<Event>> = BTreeMap::new();
        let mut from = finalized.number + 1;
        while from <= latest.number {
            let contract = self.contract.clone();
            let (events, last) = self.scanner.read(&contract, from, latest.number).await?;
            for event in events.into_iter().filter(|event| self.watches(event.coin)) {
                recent.entry(event.coin).or_default().push(event);
            }
            from = last + 1;
        }
        let before = std::mem::replace(&mut self.recent, recent);
        let coins: BTreeSet<CoinId> = before.keys().chain(self.recent.keys()).copied().collect();
        for coin in coins {
            if before.get(&coin) != self.recent.get(&coin) {
                self.dirty.insert(coin);
                self.learn_recent(coin, latest).await?;
            }
        }
        Ok(())
    }

    async fn learn_recent(&mut self, coin: CoinId, latest: Head) -> Result<(), WatchError> {
        self.latest.remove(&coin);
        let Some(mut history) = self.book.history(coin).cloned() else { return Ok(()) };
        for event in self.recent.get(&coin).into_iter().flatten() {
            let What::Evidence(shown) = &event.what else { continue };
            let root = self.contract.root(shown.block, At::Number(latest.number)).await?;
            if let Some(root) = root {
                // What proves nothing is not learned.
                let _ = history.learn(root, (**shown).clone());
            }
        }
        if self.book.history(coin) != Some(&history) {
            self.latest.insert(coin, history);
        }
        Ok(())
    }

    /// Reads the state in the contract of the coins that something happened to.
    async fn refresh(&mut self, finalized: Head, latest: Head) -> Result<(), WatchError> {
        for coin in self.dirty.clone() {
            if let Some(history) = self.book.history(coin) {
                let deposit_id = history.deposit().deposit_id;
                let seen = self.read_coin(coin, deposit_id, finalized, latest).await?;
                self.seen.insert(coin, seen);
            }
            self.dirty.remove(&coin);
        }
        Ok(())
    }

    async fn read_coin(
        &self,
        coin: CoinId,
        deposit_id: u64,
        finalized: Head,
        latest: Head,
    ) -> Result<SeenCoin, WatchError> {
        let at = At::Number(latest.number);
        let now = self.contract.coin(coin, deposit_id, at).await?;
        let before = self.contract.coin(coin, deposit_id, At::Number(finalized.number)).await?;
        let mut seen = SeenCoin {
            status: now.status,
            hold_until: now.hold_until,
            open: now.open,
            settled: before.open.iter().map(|exit| exit.id).collect(),
            ..SeenCoin::default()
        };
        if seen.status != 0 {
            let head = self.contract.read(RootChain::coinsCall { coin }, at).await?.head;
            let winner =
                self.contract.read(RootChain::exitsCall { coin, exitId: head }, at).await?;
            seen.winner = Some(winner.beneficiary);
        }
        Ok(seen)
    }
}
