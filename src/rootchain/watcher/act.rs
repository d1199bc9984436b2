//! What the watcher sends: one transaction an account at a time, decided anew from the contract's
//! state each time. An account's journal holds each transaction before it is broadcast, and of all
//! transactions of one nonce at most one is mined, so that nothing is done twice.

use std::collections::BTreeSet;

use alloy::primitives::{U256, keccak256};
use alloy::rpc::types::TransactionRequest;
use alloy::sol_types::SolValue;
use plasma_client::history::History;
use plasma_core::exit::authorization_digest;
use plasma_core::signature::SigningKey;
use plasma_core::{Address, B256, CoinId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::decide::{Action, Alert, KnownCoin, SeenCoin, decide, exit_key};
use super::{WatchError, Watcher};
use crate::contract::{Authorization, ExitStart, RootChain};
use crate::courier::{Courier, CourierError};
use crate::ethereum::{At, EthError, Fees, Head, Sender};
use crate::journal::Entry;

/// Most exits of one transaction: 64 of moved coins fit into the gas limit.
const STARTS_MAX: usize = 50;
/// Most coins of one finalization or withdrawal.
const COINS_MAX: usize = 100;
/// Seconds until an action that the contract refused is tried again.
const PUT_OFF_S: u64 = 60;
/// Seconds for which an owner's consent is signed: to its transaction, and no longer.
const CONSENT_S: u64 = 86_400;

/// A transaction of the watcher, in its account's journal before it is broadcast.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The account's nonce.
    pub nonce: u64,
    /// The transaction.
    pub hash: B256,
    /// What it does, for people.
    pub what: String,
    /// Most wei a gas.
    pub max_fee_wei: u128,
    /// Wei a gas for the proposer.
    pub tip_wei: u128,
}

impl Entry for Intent {
    fn nonce(&self) -> u64 {
        self.nonce
    }

    fn hash(&self) -> B256 {
        self.hash
    }

    fn fees(&self) -> Fees {
        Fees { max: self.max_fee_wei, tip: self.tip_wei }
    }
}

/// What is to be done, by coin.
type Due = Vec<(CoinId, Action)>;

/// What one transaction does.
struct Job {
    kind: &'static str,
    text: String,
    /// Names of its actions, by coin.
    parts: Vec<(CoinId, String)>,
    tx: TransactionRequest,
}

fn kind(action: &Action) -> &'static str {
    match action {
        Action::Challenge { .. } => "challenge",
        Action::Start { .. } => "start",
        Action::Finalize { .. } => "finalize",
        Action::Sweep { .. } => "sweep",
        Action::Withdraw { .. } => "withdraw",
    }
}

/// Identifies an action of a coin.
fn part(action: &Action) -> String {
    match action {
        Action::Challenge { exit, .. } | Action::Finalize { exit } | Action::Sweep { exit } => {
            format!("{} {exit}", kind(action))
        }
        Action::Start { state, .. } => format!("start {}", state.hash),
        Action::Withdraw { .. } => "withdraw".into(),
    }
}

impl Watcher {
    /// Says how outstanding transactions ended.
    pub(super) async fn reconcile(&mut self) -> Result<(), WatchError> {
        // A restarted watcher waits for what it sent before.
        for key in self.senders() {
            self.courier(&key).await?;
        }
        for courier in self.couriers.values_mut() {
            let Some(ended) = courier.reconcile().await? else { continue };
            let Intent { hash, what, .. } = ended.entry;
            let outcome = if ended.success { "mined" } else { "reverted" };
            let text = format!("{outcome}: {what} ({} gas)", ended.gas);
            let data = json!({"tx": hash, "gas": ended.gas, "success": ended.success});
            self.report.step(outcome, text, data);
            self.credits_due = true;
        }
        let paid = self.couriers.values().map(|courier| courier.sent.fee_paid_wei).sum();
        self.report.progress.fee_paid_wei = paid;
        Ok(())
    }

    /// Accounts that may have sent something.
    fn senders(&self) -> Vec<SigningKey> {
        if self.settings.dry_run {
            return Vec::new();
        }
        let owners = self.settings.keys.iter().filter(|_| self.rules.withdraw);
        self.settings.payer.iter().chain(owners).cloned().collect()
    }

    async fn courier(&mut self, key: &SigningKey) -> Result<&mut Courier<Intent>, WatchError> {
        let account = key.address();
        if !self.couriers.contains_key(&account) {
            let sender = Sender::new(self.contract.ethereum.clone(), key).await?;
            let journal = self.settings.dir.join(format!("{account}.journal"));
            let courier = Courier::new(sender, &journal, self.settings.policy);
            self.couriers.insert(account, courier);
        }
        // INVARIANT: it was inserted above.
        #[allow(clippy::expect_used)]
        Ok(self.couriers.get_mut(&account).expect("a courier"))
    }

    /// Decides about every coin, says what holds and sends what is next.
    pub(super) async fn act(&mut self) -> Result<(), WatchError> {
        let Some((_, latest)) = self.heads else { return Ok(()) };
        let now = latest.timestamp;
        self.put_off.retain(|_, until| *until > now);
        let (actions, alerts) = self.decide_all(now);
        let unauthorised = self.unauthorised(&actions, now);
        self.report.hold(now, &alerts, &unauthorised, &self.without_consent(now));
        self.forget_done()?;
        let waits = |coin: &CoinId, action: &Action| {
            let start = matches!(action, Action::Start { .. });
            start && unauthorised.contains(coin)
                || self.put_off.contains_key(&(*coin, part(action)))
        };
        let mut due = actions;
        due.retain(|(coin, action)| !waits(coin, action));
        due.sort_by_key(|(coin, _)| self.first_opened(*coin));
        // A withdrawal waits for everything else.
        let order = ["challenge", "start", "finalize", "sweep"];
        for wanted in order {
            let some: Vec<_> = due.iter().filter(|(_, action)| kind(action) == wanted).collect();
            if some.is_empty() {
                continue;
            }
            let Some(payer) = self.settings.payer.clone() else { break };
            if self.do_some(&payer, &some, latest).await? {
                return Ok(());
            }
        }
        for key in self.settings.keys.clone() {
            let some: Vec<_> = due
                .iter()
                .filter(|(_, action)| *action == Action::Withdraw { owner: key.address() })
                .collect();
            if !some.is_empty() && self.do_some(&key, &some, latest).await? {
                return Ok(());
            }
        }
        self.collect_credits().await
    }

    fn decide_all(&self, now: u64) -> (Due, Vec<(CoinId, Alert)>) {
        let quiet = SeenCoin::default();
        let (mut actions, mut alerts) = (Vec::new(), Vec::new());
        for (&coin, history) in self.book.coins() {
            let seen = self.seen.get(&coin);
            let missing = self.missing.get(&coin).copied();
            if seen.is_none() && missing.is_none() && history.garbage().is_none() {
                continue;
            }
            let known = KnownCoin { settled: history, latest: self.latest.get(&coin), missing };
            let decision = decide(&known, seen.unwrap_or(&quiet), &self.rules, now);
            actions.extend(decision.actions.into_iter().map(|action| (coin, action)));
            alerts.extend(decision.alerts.into_iter().map(|alert| (coin, alert)));
        }
        (actions, alerts)
    }

    /// When the first of a coin's open exits was opened: what runs out first comes first.
    fn first_opened(&self, coin: CoinId) -> u64 {
        let open = self.seen.get(&coin).into_iter().flat_map(|seen| &seen.open);
        open.map(|exit| exit.opened_at).min().unwrap_or(u64::MAX)
    }

    /// Coins whose owner's exit is due, but nobody here may start it.
    fn unauthorised(&self, actions: &[(CoinId, Action)], now: u64) -> BTreeSet<CoinId> {
        let due = actions.iter().filter_map(|(coin, action)| match action {
            Action::Start { state, .. } => Some((*coin, state.owner, state.hash)),
            _ => None,
        });
        due.filter(|(coin, owner, hash)| !self.may_start(*coin, *owner, *hash, now))
            .map(|(coin, ..)| coin)
            .collect()
    }

    /// Coins whose owner's exit nobody here may start, should it become due.
    fn without_consent(&self, now: u64) -> Vec<CoinId> {
        if self.settings.payer.is_none() {
            return Vec::new();
        }
        let lacks = |coin: CoinId, history: &History| {
            let state = history.state();
            let seen = self.seen.get(&coin);
            let done = seen.is_some_and(|seen| {
                seen.status != 0 || seen.open.iter().any(|exit| exit.state_hash == state.hash)
            });
            let guarded = !done && self.rules.owners.contains(&state.owner);
            guarded && !self.may_start(coin, state.owner, state.hash, now)
        };
        let coins = self.book.coins().iter();
        coins.filter(|(coin, history)| lacks(**coin, history)).map(|(coin, _)| *coin).collect()
    }

    fn may_start(&self, coin: CoinId, owner: Address, hash: B256, now: u64) -> bool {
        self.settings.keys.iter().any(|key| key.address() == owner)
            || self.authorized(coin, owner, hash, now).is_some()
    }

    fn authorized(
        &self,
        coin: CoinId,
        owner: Address,
        hash: B256,
        now: u64,
    ) -> Option<&Authorization> {
        let stored = self.authorizations.get(&(coin, hash, owner));
        stored.filter(|authorization| authorization.not_after > now)
    }

    /// Coins that have left the contract, with nothing left to sweep.
    fn forget_done(&mut self) -> Result<(), WatchError> {
        let done = |seen: &SeenCoin| seen.status == 2 && seen.open.is_empty();
        let done: Vec<CoinId> =
            self.seen.iter().filter(|(_, seen)| done(seen)).map(|(coin, _)| *coin).collect();
        for coin in done {
            // At the finalized block too: until then it may come back.
            if !self.recent.contains_key(&coin) {
                self.seen.remove(&coin);
                self.book.forget(coin)?;
                self.latest.remove(&coin);
                self.missing.remove(&coin);
                let text = format!("coin {coin}: has left the contract, no longer watched");
                self.report.step("done", text, json!({"coin": coin}));
            }
        }
        Ok(())
    }

    /// Does some actions of one kind; false if there was nothing to send.
    async fn do_some(
        &mut self,
        key: &SigningKey,
        some: &[&(CoinId, Action)],
        latest: Head,
    ) -> Result<bool, WatchError> {
        if !self.settings.dry_run && self.courier(key).await?.waits_for().is_some() {
            return Ok(true);
        }
        let Some(job) = self.job(key.address(), some, latest).await? else { return Ok(false) };
        let sole = job.parts.len() == 1;
        match self.send(key, &job).await {
            // One of many may be refused: the first is tried alone.
            Err(WatchError::Courier(CourierError::Ethereum(EthError::Reverted(_)))) if !sole => {
                let Some(job) = self.job(key.address(), &some[..1], latest).await? else {
                    return Ok(false);
                };
                self.send_alone(key, &job, latest).await
            }
            Err(WatchError::Courier(CourierError::Ethereum(EthError::Reverted(error)))) => {
                self.refused(&job, &error, latest);
                Ok(true)
            }
            sent => sent.map(|()| true),
        }
    }

    async fn send_alone(
        &mut self,
        key: &SigningKey,
        job: &Job,
        latest: Head,
    ) -> Result<bool, WatchError> {
        match self.send(key, job).await {
            Err(WatchError::Courier(CourierError::Ethereum(EthError::Reverted(error)))) => {
                self.refused(job, &error, latest);
                Ok(true)
            }
            sent => sent.map(|()| true),
        }
    }

    /// The contract would refuse it: most often somebody else was faster, and the next look sees.
    fn refused(&mut self, job: &Job, error: &str, latest: Head) {
        let text = format!("not sent: {}: the contract refuses: {error}", job.text);
        self.report.step("refused", text, json!({"action": job.kind, "error": error}));
        for part in &job.parts {
            self.put_off.insert(part.clone(), latest.timestamp + PUT_OFF_S);
            self.dirty.insert(part.0);
        }
    }

    async fn send(&mut self, key: &SigningKey, job: &Job) -> Result<(), WatchError> {
        let coins: Vec<CoinId> = job.parts.iter().map(|(coin, _)| *coin).collect();
        if self.settings.dry_run {
            let text = format!("would send: {}", job.text);
            self.report.step(job.kind, text, json!({"coins": coins, "dry_run": true}));
            for part in &job.parts {
                // Said once.
                self.put_off.insert(part.clone(), u64::MAX);
            }
            return Ok(());
        }
        let courier = self.courier(key).await?;
        let (mut sent, what) = (B256::ZERO, job.text.clone());
        let done = courier.send(job.tx.clone(), |nonce, hash, fees| {
            sent = hash;
            Intent { nonce, hash, what, max_fee_wei: fees.max, tip_wei: fees.tip }
        });
        done.await?;
        *self.report.progress.sent.entry(job.kind).or_default() += 1;
        let data = json!({"coins": coins, "tx": sent});
        self.report.step(job.kind, job.text.clone(), data);
        Ok(())
    }

    /// The transaction that does these actions, of one kind, or as many of them as it holds.
    async fn job(
        &mut self,
        account: Address,
        some: &[&(CoinId, Action)],
        latest: Head,
    ) -> Result<Option<Job>, WatchError> {
        let Some((first, action)) = some.first() else { return Ok(None) };
        let parts = |count: usize| -> Vec<(CoinId, String)> {
            some.iter().take(count).map(|(coin, action)| (*coin, part(action))).collect()
        };
        let coins: Vec<CoinId> = some.iter().take(COINS_MAX).map(|(coin, _)| *coin).collect();
        let contract = &self.contract;
        let (kind, coin) = (kind(action), *first);
        Ok(match action {
            Action::Challenge { exit, challenge } => {
                let tx = contract.challenge_transaction(coin, *exit, challenge);
                let text = format!("coin {coin}: challenge exit {exit} by {}", shown_by(challenge));
                Some(Job { kind, text, parts: parts(1), tx })
            }
            Action::Start { .. } => self.start_job(account, some, latest).await?,
            Action::Finalize { exit } if coins.len() == 1 => {
                let tx = contract.transaction(RootChain::finalizeExitCall { coin }, U256::ZERO);
                let text = format!("coin {coin}: finalize the owner's exit {exit}");
                Some(Job { kind, text, parts: parts(1), tx })
            }
            Action::Finalize { .. } => {
                let text = format!("finalize the owners' exits of {}", list(&coins));
                let call = RootChain::finalizeExitsCall { coins_: coins };
                let tx = contract.transaction(call, U256::ZERO);
                Some(Job { kind, text, parts: parts(COINS_MAX), tx })
            }
            Action::Sweep { exit } => {
                let call = RootChain::sweepExitCall { coin, exitId: *exit };
                let tx = contract.transaction(call, U256::ZERO);
                let text = format!("coin {coin}: sweep exit {exit}, which lost");
                Some(Job { kind, text, parts: parts(1), tx })
            }
            Action::Withdraw { owner } => {
                let text = format!("pay {} out to {owner}", list(&coins));
                let call = RootChain::withdrawManyCall { coins_: coins, to: *owner };
                let tx = contract.transaction(call, U256::ZERO);
                Some(Job { kind, text, parts: parts(COINS_MAX), tx })
            }
        })
    }

    /// Starts the exits that were never started before.
    async fn start_job(
        &mut self,
        account: Address,
        some: &[&(CoinId, Action)],
        latest: Head,
    ) -> Result<Option<Job>, WatchError> {
        let (mut exits, mut parts, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for (coin, action) in some.iter().map(|some| (some.0, &some.1)) {
            let Action::Start { state, transfer, hint, reason } = action else { continue };
            let Some(history) = self.book.history(coin) else { continue };
            let deposit_id = history.deposit().deposit_id;
            let key = exit_key(history, transfer);
            // Opened before and refuted since: the contract takes it once.
            let bytes = (coin, key.0, key.1).abi_encode_packed();
            let call = RootChain::usedCall { key: keccak256(bytes) };
            if self.contract.read(call, At::Latest).await? {
                self.seen.entry(coin).or_default().used.insert(key);
                continue;
            }
            let authorization = self.consent(account, coin, state.owner, state.hash, latest);
            exits.push(ExitStart {
                coin,
                deposit_id,
                transfer: (**transfer).clone(),
                authorization,
                hint: *hint,
            });
            parts.push((coin, part(action)));
            texts.push(format!("coin {coin}: start the exit of {}, because {reason}", state.owner));
            if exits.len() == STARTS_MAX {
                break;
            }
        }
        let tx = match &exits[..] {
            [] => return Ok(None),
            [exit] => self.contract.exit_transaction(exit, self.bond),
            exits => self.contract.exits_transaction(exits, self.bond),
        };
        let text = match &texts[..] {
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
            [] => String::new(),
        };
        Ok(Some(Job { kind: "start", text, parts, tx }))
    }

    /// The owner's consent, unless he sends the transaction himself.
    fn consent(
        &self,
        account: Address,
        coin: CoinId,
        owner: Address,
        hash: B256,
        latest: Head,
    ) -> Option<Authorization> {
        if owner == account {
            return None;
        }
        let key = self.settings.keys.iter().find(|key| key.address() == owner);
        let signed = key.map(|key| {
            let not_after = latest.timestamp + CONSENT_S;
            let digest = authorization_digest(&self.domain, coin, hash, not_after);
            Authorization { not_after, signature: key.sign(digest) }
        });
        signed.or_else(|| self.authorized(coin, owner, hash, latest.timestamp).cloned())
    }

    /// Pays bonds and rewards out, when nothing else is to be done.
    async fn collect_credits(&mut self) -> Result<(), WatchError> {
        let Some(payer) = self.settings.payer.clone().filter(|_| self.rules.withdraw) else {
            return Ok(());
        };
        if !self.credits_due || self.settings.dry_run {
            return Ok(());
        }
        let account = payer.address();
        if self.courier(&payer).await?.waits_for().is_some() {
            return Ok(());
        }
        let credits = self.contract.read(RootChain::creditsCall { account }, At::Latest).await?;
        self.credits_due = false;
        if credits.is_zero() {
            return Ok(());
        }
        let call = RootChain::withdrawCreditsCall { to: account };
        let tx = self.contract.transaction(call, U256::ZERO);
        let text = format!("pay {credits} wei of bonds and rewards out to {account}");
        let job = Job { kind: "credits", text, parts: Vec::new(), tx };
        self.send(&payer, &job).await
    }
}

fn list(coins: &[CoinId]) -> String {
    match coins {
        [coin] => format!("coin {coin}"),
        [first, .., last] => format!("{} coins from {first} to {last}", coins.len()),
        [] => String::new(),
    }
}

fn shown_by(challenge: &plasma_client::challenge::Challenge) -> String {
    use plasma_client::challenge::Challenge;
    match challenge {
        Challenge::Spent { spend, .. } => {
            format!("the transfer that spent its state in plasma block {}", spend.block)
        }
        Challenge::DoubleSpend { other } => {
            format!("the transfer that spent its parent before, in plasma block {}", other.block)
        }
    }
}
