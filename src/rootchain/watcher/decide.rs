//! What the watcher does about one coin: a pure function of what it knows, what the contract says
//! and Ethereum's time (exit-game.md "Off-chain rules").
//!
//! Two views of Ethereum come in. What is *settled* is there at the finalized block; the rest is
//! only at the latest block and may be reorganised away. A challenge or an exit is sent for what is
//! settled. Only where waiting for finality could cost the coin, because the exit can be finalized
//! within [`URGENT_S`], what is seen at the latest block is acted on: the worst that a
//! reorganisation does then is a transaction in vain.

use std::collections::BTreeSet;

use plasma_client::challenge::{Challenge, OpenExit, hint, refute};
use plasma_client::history::{ExitPair, History};
use plasma_core::coin::CoinState;
use plasma_core::exit::age;
use plasma_core::transfer::ChildError;
use plasma_core::{Address, BlockNumber};

/// An exit that can be finalized within this time (seconds) is acted on at the latest block: it is
/// several times Ethereum's way to finality.
pub const URGENT_S: u64 = 3_600;

/// What the watcher is told to do.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Whose coins are guarded.
    pub owners: BTreeSet<Address>,
    /// Seconds that an exit stays open, from the contract.
    pub exit_period_s: u64,
    /// Seconds that a block's data may be missing before the owner exits.
    pub data_grace_s: u64,
    /// Pay finalized coins out.
    pub withdraw: bool,
}

/// What is known of a coin, whoever showed it: everything is verified against the contract's roots.
#[derive(Debug, Clone, Copy)]
pub struct KnownCoin<'a> {
    /// What is included at the coin, against settled roots.
    pub settled: &'a History,
    /// The same with what is shown against roots that are not settled yet, if there is any.
    pub latest: Option<&'a History>,
    /// The first block whose data nobody shows, or only with a bad signature, and since when its
    /// root is in the contract (Unix seconds).
    pub missing: Option<(BlockNumber, u64)>,
}

/// A coin in the contract at the latest block. A coin that never had an exit needs none: the
/// default is an active coin without exits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenCoin {
    /// 0 active, 1 exited, 2 withdrawn.
    pub status: u8,
    /// No finalization before this time (Unix seconds).
    pub hold_until: u64,
    /// Open exits, oldest first.
    pub open: Vec<OpenExit>,
    /// Ids of those that are open at the finalized block too.
    pub settled: BTreeSet<u64>,
    /// Beneficiary of the exit that won.
    pub winner: Option<Address>,
    /// Exits that exist or existed, by the blocks of parent and transfer: there is never a second.
    pub used: BTreeSet<(BlockNumber, BlockNumber)>,
}

/// Why the owner's exit is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// This exit of somebody else cannot be refuted.
    Foreign(u64),
    /// This block's leaf is no valid child of the coin's state.
    Garbage(BlockNumber),
    /// Nobody shows what this block holds.
    Missing(BlockNumber),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign(exit) => write!(f, "exit {exit} cannot be refuted"),
            Self::Garbage(block) => write!(f, "plasma block {block} holds garbage"),
            Self::Missing(block) => write!(f, "the data of plasma block {block} is withheld"),
        }
    }
}

/// A step on Ethereum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Refute an exit.
    Challenge {
        /// The exit.
        exit: u64,
        /// With what.
        challenge: Box<Challenge>,
    },
    /// Start the owner's exit.
    Start {
        /// The exiting state.
        state: CoinState,
        /// Its transfer and the parent's (none: the deposit); none for the deposit itself.
        transfer: Box<ExitPair>,
        /// Where to look for its place.
        hint: u64,
        /// Why.
        reason: Reason,
    },
    /// Give the coin to its oldest exit, which is the owner's.
    Finalize {
        /// The exit.
        exit: u64,
    },
    /// Close an exit that lost against the owner's.
    Sweep {
        /// The exit.
        exit: u64,
    },
    /// Pay the coin out.
    Withdraw {
        /// To whom.
        owner: Address,
    },
}

/// What the owner should hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alert {
    /// `exit of a watched coin`, which is not the exit of its rightful state.
    Exit {
        /// The exit.
        exit: u64,
        /// Whom it would pay.
        beneficiary: Address,
        /// When its period is over (Unix seconds).
        ends: u64,
        /// Whether it can be refuted.
        refutable: bool,
    },
    /// `hold ends in`
    Hold {
        /// Unix seconds.
        until: u64,
    },
    /// `block data missing`
    Missing {
        /// The first such block.
        block: BlockNumber,
        /// Since when (Unix seconds).
        since: u64,
    },
    /// `garbage leaf`
    Garbage {
        /// The block.
        block: BlockNumber,
    },
}

/// What to do and what to say of a coin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// In the order in which it is to be done.
    pub actions: Vec<Action>,
    /// All that holds now.
    pub alerts: Vec<Alert>,
}

/// Blocks of parent and transfer of a state's exit: the contract takes each pair once.
pub fn exit_key(history: &History, pair: &ExitPair) -> (BlockNumber, BlockNumber) {
    let deposit_block = history.deposit().deposit_block;
    match pair {
        None => (deposit_block, 0),
        Some((parent, last)) => (parent.as_ref().map_or(deposit_block, |p| p.block), last.block),
    }
}

/// Decides about one coin; `now` is the time of Ethereum's latest block (Unix seconds).
pub fn decide(known: &KnownCoin<'_>, seen: &SeenCoin, rules: &Rules, now: u64) -> Decision {
    let mut decision = Decision::default();
    if seen.status == 0 {
        decide_active(known, seen, rules, now, &mut decision);
    } else if let Some(winner) = seen.winner.filter(|winner| rules.owners.contains(winner)) {
        // The winner's payer gets half of each loser's bond, or his own bond back.
        decision.actions.extend(seen.open.iter().map(|exit| Action::Sweep { exit: exit.id }));
        if seen.status == 1 && rules.withdraw {
            decision.actions.push(Action::Withdraw { owner: winner });
        }
    }
    decision
}

fn decide_active(
    known: &KnownCoin<'_>,
    seen: &SeenCoin,
    rules: &Rules,
    now: u64,
    decision: &mut Decision,
) {
    let ends = |exit: &OpenExit| exit.opened_at.saturating_add(rules.exit_period_s);
    let urgent = |exit: &OpenExit| now.saturating_add(URGENT_S) >= ends(exit).max(seen.hold_until);
    let history = match known.latest {
        Some(latest) if seen.open.iter().any(urgent) => latest,
        _ => known.settled,
    };
    let (state, pair) = history.claim();
    let key = exit_key(history, &pair);
    // Also at another inclusion: there are never two exits for one transfer.
    let is_of_state = |exit: &OpenExit| exit.state_hash == state.hash;
    let mut reason = None;
    for exit in &seen.open {
        let challenge = refute_by(exit, history);
        if !is_of_state(exit) {
            decision.alerts.push(Alert::Exit {
                exit: exit.id,
                beneficiary: exit.beneficiary,
                ends: ends(exit),
                refutable: challenge.is_some(),
            });
        }
        if !seen.settled.contains(&exit.id) && !urgent(exit) {
            continue;
        }
        if let Some(challenge) = challenge {
            // Also an exit of our own whose state turns out to be spent: whoever refutes it gets
            // the half of its bond that is not burned.
            let challenge = Box::new(challenge);
            decision.actions.push(Action::Challenge { exit: exit.id, challenge });
        } else if !is_of_state(exit) {
            reason = reason.or(Some(Reason::Foreign(exit.id)));
        }
    }
    if seen.hold_until > now && !seen.open.is_empty() {
        decision.alerts.push(Alert::Hold { until: seen.hold_until });
    }
    // A leaf holds no signature: who shows a bad one may hide the good one, so that such a block is
    // missing, not garbage.
    let garbage = history.garbage().filter(|(_, cause)| *cause != ChildError::BadSignature);
    if let Some((block, _)) = garbage {
        decision.alerts.push(Alert::Garbage { block });
        reason = reason.or(Some(Reason::Garbage(block)));
    }
    if let Some((block, since)) = known.missing {
        decision.alerts.push(Alert::Missing { block, since });
        if now >= since.saturating_add(rules.data_grace_s) {
            reason = reason.or(Some(Reason::Missing(block)));
        }
    }
    let is_open = seen.open.iter().any(is_of_state);
    let ours = rules.owners.contains(&state.owner);
    if let Some(reason) = reason.filter(|_| ours && !is_open && !seen.used.contains(&key)) {
        decision.actions.push(Action::Start {
            state,
            transfer: Box::new(pair),
            hint: hint(&seen.open, age(key.0, key.1)),
            reason,
        });
    }
    // The head's exit is the one that wins: nothing of ours is given to anybody else.
    if let Some(first) = seen.open.first()
        && rules.owners.contains(&first.beneficiary)
        && !decision.actions.iter().any(|action| refutes(action, first.id))
        && now > ends(first)
        && now > seen.hold_until
    {
        decision.actions.push(Action::Finalize { exit: first.id });
    }
}

fn refute_by(exit: &OpenExit, history: &History) -> Option<Challenge> {
    refute(exit, history.deposit(), history.coin(), history.included(), history.domain())
}

fn refutes(action: &Action, id: u64) -> bool {
    matches!(action, Action::Challenge { exit, .. } if *exit == id)
}
