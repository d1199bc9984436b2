//! What the watcher tells: a notice for each step, alerts while they hold, a status and metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use plasma_core::{BlockNumber, CoinId};
use serde_json::{Value, json};

use super::decide::Alert;

/// One line of what happens.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// What kind of thing: the name of an alert, or of a step.
    pub kind: &'static str,
    /// Whether somebody should look.
    pub alert: bool,
    /// For people.
    pub text: String,
    /// For programs.
    pub data: Value,
}

/// Names of the alerts.
pub const ALERTS: [&str; 5] = [
    "exit of a watched coin",
    "hold ends in",
    "block data missing",
    "garbage leaf",
    "no authorization",
];

/// Numbers of the watcher; the counters start with the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Watched coins.
    pub coins: usize,
    /// Coins with an open exit.
    pub exiting: usize,
    /// Owners' coins whose exit could not be started: neither key nor consent.
    pub without_consent: usize,
    /// Ethereum's latest and finalized block, and the latest one's time.
    pub ethereum: (u64, u64, u64),
    /// Plasma blocks in the contract at the finalized block.
    pub stored: BlockNumber,
    /// Plasma blocks that are checked for every coin.
    pub checked: BlockNumber,
    /// Proofs that were checked.
    pub proofs: u64,
    /// Transactions sent, by action.
    pub sent: BTreeMap<&'static str, u64>,
    /// Steps that failed.
    pub errors: u64,
    /// Wei paid for transactions.
    pub fee_paid_wei: u128,
}

/// Collects notices and keeps what holds.
#[derive(Debug, Default)]
pub struct Report {
    notices: Vec<Notice>,
    /// Alerts that hold, by coin; 0 where it is about all.
    alerts: BTreeSet<(CoinId, String, &'static str)>,
    /// The numbers.
    pub progress: Progress,
}

impl Report {
    /// A step.
    pub fn step(&mut self, kind: &'static str, text: impl Into<String>, data: Value) {
        self.notices.push(Notice { kind, alert: false, text: text.into(), data });
    }

    /// Notices since the last call.
    pub fn take(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// What holds now: says what is new. Of `unauthorised` coins the exit is due, of those
    /// `without_consent` it is not.
    pub fn hold(
        &mut self,
        now: u64,
        alerts: &[(CoinId, Alert)],
        unauthorised: &BTreeSet<CoinId>,
        without_consent: &[CoinId],
    ) {
        let mut holding = BTreeSet::new();
        let mut missing: BTreeMap<BlockNumber, (u64, u64)> = BTreeMap::new();
        for (coin, alert) in alerts {
            let coin = *coin;
            let (text, data) = match *alert {
                // One alert a block: a withheld block concerns every coin.
                Alert::Missing { block, since } => {
                    missing.entry(block).or_insert((since, 0)).1 += 1;
                    continue;
                }
                Alert::Exit { exit, beneficiary, ends, refutable } => {
                    let how = if refutable { "will be refuted" } else { "cannot be refuted" };
                    let text = format!("coin {coin}: exit {exit} for {beneficiary}, {how}");
                    let data = json!({"coin": coin, "exit_id": exit, "beneficiary": beneficiary,
                                      "ends": ends, "refutable": refutable});
                    (text, data)
                }
                Alert::Hold { until } => {
                    let text = format!("coin {coin}: on hold until {until}");
                    let seconds = until.saturating_sub(now);
                    (text, json!({"coin": coin, "until": until, "seconds": seconds}))
                }
                Alert::Garbage { block } => {
                    let text = format!("coin {coin}: plasma block {block} holds garbage");
                    (text, json!({"coin": coin, "plasma_block": block}))
                }
            };
            self.raise(&mut holding, coin, name(alert), text, data);
        }
        for (block, (since, coins)) in missing {
            let text = format!("plasma block {block}: no node shows {coins} watched coins");
            let data = json!({"plasma_block": block, "since": since, "coins": coins});
            let key = format!("plasma block {block}");
            self.raise_once(&mut holding, key, ALERTS[2], text, data);
        }
        for &coin in unauthorised {
            let text = format!("coin {coin}: its owner's exit needs his key or authorization");
            self.raise(&mut holding, coin, ALERTS[4], text, json!({"coin": coin}));
        }
        self.progress.without_consent = without_consent.len();
        if let Some(first) = without_consent.first() {
            let count = without_consent.len();
            let text = format!(
                "{count} watched coins, the first of them {first}, could not exit: their owners' \
                 authorization is missing or too old"
            );
            let data = json!({"coins": count, "first": first});
            let key = "coins without authorization".to_owned();
            self.raise_once(&mut holding, key, ALERTS[4], text, data);
        }
        for (coin, text, kind) in self.alerts.difference(&holding) {
            let data = json!({"coin": coin, "alert": kind});
            let text = format!("over: {text}");
            self.notices.push(Notice { kind: "over", alert: false, text, data });
        }
        self.alerts = holding;
    }

    /// An alert about many coins. Their number changes all the time: it is no new alert.
    fn raise_once(
        &mut self,
        holding: &mut BTreeSet<(CoinId, String, &'static str)>,
        key: String,
        kind: &'static str,
        text: String,
        data: Value,
    ) {
        let entry = (0, key, kind);
        if !self.alerts.contains(&entry) {
            self.notices.push(Notice { kind, alert: true, text, data });
        }
        holding.insert(entry);
    }

    fn raise(
        &mut self,
        holding: &mut BTreeSet<(CoinId, String, &'static str)>,
        coin: CoinId,
        kind: &'static str,
        text: String,
        data: Value,
    ) {
        let entry = (coin, text.clone(), kind);
        if !self.alerts.contains(&entry) {
            self.notices.push(Notice { kind, alert: true, text, data });
        }
        holding.insert(entry);
    }

    /// The status, for the status file.
    pub fn status(&self) -> Value {
        let p = &self.progress;
        let alerts: Vec<Value> = self
            .alerts
            .iter()
            .map(|(coin, text, kind)| json!({"alert": kind, "coin": coin, "text": text}))
            .collect();
        let (latest, finalized, time) = p.ethereum;
        json!({
            "schema": 1,
            "ethereum": {"latest": latest, "finalized": finalized, "time": time},
            "plasma_block": {"stored": p.stored, "checked": p.checked},
            "coins": p.coins, "exiting": p.exiting, "without_consent": p.without_consent,
            "proofs": p.proofs, "errors": p.errors,
            "sent": p.sent, "fee_paid_wei": p.fee_paid_wei.to_string(), "alerts": alerts,
        })
    }

    /// The metrics in Prometheus' text form.
    pub fn metrics(&self) -> String {
        let p = &self.progress;
        let mut out = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, u128)]| {
            // Writing to a string does not fail.
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(out, "{name}{labels} {value}");
            }
        };
        let one = |value: u128| [(String::new(), value)];
        let tags = |values: [(&str, u64); 2]| {
            values.map(|(tag, value)| (format!("{{at=\"{tag}\"}}"), u128::from(value)))
        };
        let (latest, finalized, time) = p.ethereum;
        family("plasma_watcher_coins", "gauge", "Watched coins.", &one(p.coins as u128));
        family(
            "plasma_watcher_exiting_coins",
            "gauge",
            "Watched coins with an open exit.",
            &one(p.exiting as u128),
        );
        family(
            "plasma_watcher_coins_without_consent",
            "gauge",
            "Watched coins whose exit could not be started.",
            &one(p.without_consent as u128),
        );
        family(
            "plasma_watcher_ethereum_block",
            "gauge",
            "Ethereum's block that was read last.",
            &tags([("latest", latest), ("finalized", finalized)]),
        );
        family(
            "plasma_watcher_ethereum_time_seconds",
            "gauge",
            "Unix time of Ethereum's latest block.",
            &one(time.into()),
        );
        family(
            "plasma_watcher_plasma_block",
            "gauge",
            "Plasma blocks in the contract, and checked for every coin.",
            &tags([("stored", p.stored), ("checked", p.checked)]),
        );
        family(
            "plasma_watcher_proofs_total",
            "counter",
            "Proofs of watched coins that were checked.",
            &one(p.proofs.into()),
        );
        family("plasma_watcher_errors_total", "counter", "Failed looks.", &one(p.errors.into()));
        family(
            "plasma_watcher_fee_paid_wei_total",
            "counter",
            "Paid for transactions.",
            &one(p.fee_paid_wei),
        );
        let sent: Vec<_> = p
            .sent
            .iter()
            .map(|(action, count)| (format!("{{action=\"{action}\"}}"), u128::from(*count)))
            .collect();
        family("plasma_watcher_transactions_total", "counter", "Transactions sent.", &sent);
        let alerts = ALERTS.map(|kind| (format!("{{alert=\"{kind}\"}}"), self.holding(kind)));
        family("plasma_watcher_alerts", "gauge", "Alerts that hold.", &alerts);
        out
    }

    /// How many alerts of a kind hold.
    fn holding(&self, kind: &str) -> u128 {
        self.alerts.iter().filter(|(_, _, known)| *known == kind).count() as u128
    }
}

fn name(alert: &Alert) -> &'static str {
    match alert {
        Alert::Exit { .. } => ALERTS[0],
        Alert::Hold { .. } => ALERTS[1],
        Alert::Missing { .. } => ALERTS[2],
        Alert::Garbage { .. } => ALERTS[3],
    }
}
