//! The watcher's decisions: every case by itself, and a simulated game in which whoever owned the
//! coin before, and whoever makes the blocks, is against its owner.

use std::collections::BTreeSet;

use plasma_client::challenge::{Challenge, Inclusion, OpenExit, refute};
use plasma_client::history::History;
use plasma_client::queries::CoinProof;
use plasma_core::coin::{CoinState, Deposit, asset};
use plasma_core::domain::Domain;
use plasma_core::smt::{Leaf, prove, root_of};
use plasma_core::transfer::{SignedTransfer, Transfer};
use plasma_core::{Address, B256, BlockNumber, U256};
use plasma_rootchain::watcher::decide::{
    Action, Alert, Decision, KnownCoin, Reason, Rules, SeenCoin, URGENT_S, decide,
};

use crate::world::{address, key};

const COIN: u64 = 5;
const PERIOD_S: u64 = 100_000;
const HOLD_S: u64 = 50_000;
const GRACE_S: u64 = 10_000;
const NOW: u64 = 1_000_000;

fn domain() -> Domain {
    Domain::new(31_337, Address::repeat_byte(0xcc))
}

fn deposit() -> Deposit {
    Deposit {
        deposit_id: 1,
        first_coin: COIN,
        count: 1,
        owner: address("alice"),
        asset_kind: asset::ETH,
        token: Address::ZERO,
        token_id: U256::ZERO,
        value: U256::from(1),
        deposit_block: 0,
    }
}

fn state() -> CoinState {
    deposit().state(COIN, &domain())
}

fn pay(state: &CoinState, from: &str, to: &str) -> SignedTransfer {
    Transfer::spending(state, address(to), 1_000).sign(&key(from), &domain())
}

fn child(state: &CoinState, transfer: &SignedTransfer, block: BlockNumber) -> CoinState {
    let hash = transfer.transfer.digest(&domain());
    CoinState {
        coin: COIN,
        owner: transfer.transfer.new_owner,
        block: block.max(state.block),
        hash,
    }
}

/// Mallory's state out of nothing.
fn nothing() -> CoinState {
    CoinState { coin: COIN, owner: address("mallory"), block: 0, hash: B256::repeat_byte(9) }
}

/// Blocks from 1 on with the coin's leaf and another's.
#[derive(Default)]
struct Blocks(Vec<(B256, CoinProof)>);

impl Blocks {
    fn add(&mut self, transfer: Option<SignedTransfer>) -> BlockNumber {
        let mut leaves = vec![Leaf { coin: 8, hash: B256::repeat_byte(1) }];
        leaves.extend(transfer.map(|t| Leaf { coin: COIN, hash: t.transfer.digest(&domain()) }));
        leaves.sort_unstable_by_key(Leaf::path);
        self.0.push((root_of(&leaves), CoinProof { transfer, proof: prove(&leaves, COIN) }));
        self.0.len() as u64
    }

    fn inclusion(&self, block: BlockNumber) -> Option<Inclusion> {
        let (_, shown) = self.0.get(usize::try_from(block).ok()?.checked_sub(1)?)?;
        Some(Inclusion { block, transfer: shown.transfer?, proof: shown.proof.clone() })
    }

    /// What is known up to a block.
    fn history(&self, to: BlockNumber) -> History {
        let mut history = History::new(COIN, deposit(), domain()).unwrap();
        for (root, shown) in &self.0[..to as usize] {
            let _ = history.extend(Some(*root), shown).unwrap();
        }
        history
    }
}

fn rules(owner: &str) -> Rules {
    Rules {
        owners: BTreeSet::from([address(owner)]),
        exit_period_s: PERIOD_S,
        data_grace_s: GRACE_S,
        withdraw: false,
    }
}

/// The exit of the transfer in block `k`, which spends `parent`; none: of the deposit.
fn exit(id: u64, of: Option<(&CoinState, &Inclusion)>, opened_at: u64) -> OpenExit {
    let (parent, block, hash, owner) = match of {
        None => (state(), 0, state().hash, state().owner),
        Some((parent, shown)) => {
            let t = &shown.transfer.transfer;
            (*parent, shown.block, t.digest(&domain()), t.new_owner)
        }
    };
    OpenExit {
        id,
        parent_block: parent.block,
        parent_hash: parent.hash,
        parent_owner: parent.owner,
        block,
        state_hash: hash,
        beneficiary: owner,
        payer: address("mallory"),
        bond: 1,
        opened_at,
    }
}

fn seen(open: &[OpenExit]) -> SeenCoin {
    let settled = open.iter().map(|exit| exit.id).collect();
    SeenCoin { open: open.to_vec(), settled, ..SeenCoin::default() }
}

fn decided(history: &History, seen: &SeenCoin, owner: &str, now: u64) -> Decision {
    decide(&KnownCoin { settled: history, latest: None, missing: None }, seen, &rules(owner), now)
}

/// Alice paid bob in block 1; block 2 is mallory's out of nothing, block 3 its child.
fn story() -> (Blocks, CoinState) {
    let mut blocks = Blocks::default();
    let paid = pay(&state(), "alice", "bob");
    let block = blocks.add(Some(paid));
    let bobs = child(&state(), &paid, block);
    let forged = pay(&nothing(), "mallory", "mallory");
    let block = blocks.add(Some(forged));
    blocks.add(Some(pay(&child(&nothing(), &forged, block), "mallory", "mallory")));
    (blocks, bobs)
}

fn forged_exit(blocks: &Blocks, opened_at: u64) -> OpenExit {
    let parent = blocks.inclusion(2).unwrap();
    let parent = child(&nothing(), &parent.transfer, 2);
    exit(7, Some((&parent, &blocks.inclusion(3).unwrap())), opened_at)
}

#[test]
fn nothing_is_done_about_a_quiet_coin() {
    let (blocks, _) = story();
    assert_eq!(decided(&blocks.history(1), &SeenCoin::default(), "bob", NOW), Decision::default());
}

#[test]
fn a_spent_state_is_refuted_by_owner_and_sender_alike() {
    let (blocks, _) = story();
    let open = seen(&[exit(1, None, NOW)]);
    for owner in ["bob", "alice"] {
        let decision = decided(&blocks.history(1), &open, owner, NOW);
        let [Action::Challenge { exit: 1, challenge }] = &decision.actions[..] else {
            panic!("{decision:?}")
        };
        assert!(matches!(&**challenge, Challenge::Spent { spend, .. } if spend.block == 1));
        let alert = Alert::Exit {
            exit: 1,
            beneficiary: address("alice"),
            ends: NOW + PERIOD_S,
            refutable: true,
        };
        assert_eq!(decision.alerts, [alert]);
    }
}

#[test]
fn what_is_not_settled_waits_until_it_is_urgent() {
    let (blocks, _) = story();
    let open = SeenCoin { settled: BTreeSet::new(), ..seen(&[exit(1, None, NOW)]) };
    let history = blocks.history(1);
    let urgent = NOW + PERIOD_S - URGENT_S;
    let count = |seen: &SeenCoin, now| decided(&history, seen, "bob", now).actions.len();
    assert_eq!([count(&open, NOW), count(&open, urgent - 1), count(&open, urgent)], [0, 0, 1]);
    // A hold gives time.
    let held = SeenCoin { hold_until: NOW + PERIOD_S + HOLD_S, ..open };
    assert_eq!(count(&held, urgent), 0);
    // What is shown at the latest block counts when it is urgent.
    let known = KnownCoin { settled: &blocks.history(0), latest: Some(&history), missing: None };
    let at = |now| decide(&known, &seen(&[exit(1, None, NOW)]), &rules("bob"), now).actions;
    assert!(at(NOW).is_empty() && at(urgent).len() == 1);
}

#[test]
fn an_exit_that_cannot_be_refuted_is_answered_by_the_owners() {
    let (blocks, bobs) = story();
    let open = seen(&[forged_exit(&blocks, NOW)]);
    let history = blocks.history(1);
    let decision = decided(&history, &open, "bob", NOW);
    let [Action::Start { state, transfer, hint: 0, reason: Reason::Foreign(7) }] =
        &decision.actions[..]
    else {
        panic!("{decision:?}")
    };
    assert_eq!(*state, bobs);
    assert_eq!(**transfer, Some((None, blocks.inclusion(1).unwrap())));
    // Not by somebody else, not twice, not for one transfer at two inclusions.
    assert!(decided(&history, &open, "alice", NOW).actions.is_empty());
    let used = SeenCoin { used: BTreeSet::from([(0, 1)]), ..open.clone() };
    assert!(decided(&history, &used, "bob", NOW).actions.is_empty());
    let own = exit(8, Some((&self::state(), &blocks.inclusion(1).unwrap())), NOW);
    for own in [own, OpenExit { block: 9, ..own }] {
        let both = seen(&[own, forged_exit(&blocks, NOW)]);
        assert!(decided(&history, &both, "bob", NOW).actions.is_empty());
    }
}

#[test]
fn the_owners_exit_of_a_deposit_and_its_place() {
    let mut blocks = Blocks::default();
    blocks.add(None);
    let forged = pay(&nothing(), "mallory", "mallory");
    let block = blocks.add(Some(forged));
    let second = pay(&child(&nothing(), &forged, block), "mallory", "mallory");
    blocks.add(Some(second));
    let open = seen(&[forged_exit(&blocks, NOW)]);
    let decision = decided(&blocks.history(1), &open, "alice", NOW);
    assert!(
        matches!(&decision.actions[..], [Action::Start { transfer, .. }] if transfer.is_none())
    );
}

#[test]
fn garbage_and_missing_data() {
    let (blocks, _) = story();
    let quiet = SeenCoin::default();
    let decision = decided(&blocks.history(2), &quiet, "bob", NOW);
    assert_eq!(decision.alerts, [Alert::Garbage { block: 2 }]);
    assert!(matches!(&decision.actions[..], [Action::Start { reason: Reason::Garbage(2), .. }]));
    let history = blocks.history(1);
    let known = KnownCoin { settled: &history, latest: None, missing: Some((2, NOW)) };
    let at = |now| decide(&known, &quiet, &rules("bob"), now);
    assert_eq!(at(NOW).alerts, [Alert::Missing { block: 2, since: NOW }]);
    assert!(at(NOW + GRACE_S - 1).actions.is_empty());
    assert!(matches!(
        &at(NOW + GRACE_S).actions[..],
        [Action::Start { reason: Reason::Missing(2), .. }]
    ));
    // A bad signature is the showing's fault, not the block's.
    let mut spoiled = Blocks::default();
    let mut paid = pay(&state(), "alice", "bob");
    paid.signature.0 = [0; 64];
    spoiled.add(Some(paid));
    assert_eq!(decided(&spoiled.history(1), &quiet, "alice", NOW), Decision::default());
}

#[test]
fn the_owners_exit_is_finalized_when_period_and_hold_are_over() {
    let (blocks, _) = story();
    let own = exit(8, Some((&state(), &blocks.inclusion(1).unwrap())), NOW);
    let open = seen(&[own, forged_exit(&blocks, NOW)]);
    let history = blocks.history(1);
    let at = |seen: &SeenCoin, owner, now| decided(&history, seen, owner, now).actions;
    assert!(at(&open, "bob", NOW + PERIOD_S).is_empty());
    let over = NOW + PERIOD_S + 1;
    assert_eq!(at(&open, "bob", over), [Action::Finalize { exit: 8 }]);
    assert!(at(&open, "alice", over).is_empty());
    let held = SeenCoin { hold_until: over, ..open };
    let decision = decided(&history, &held, "bob", over - 1);
    assert!(decision.actions.is_empty());
    assert!(decision.alerts.contains(&Alert::Hold { until: over }));
    assert!(at(&held, "bob", over).is_empty());
    assert_eq!(at(&held, "bob", over + 1), [Action::Finalize { exit: 8 }]);
    // Never while somebody else's is the oldest.
    let older = seen(&[OpenExit { id: 3, parent_block: 0, block: 0, ..forged_exit(&blocks, NOW) }]);
    assert!(!at(&older, "bob", over).contains(&Action::Finalize { exit: 3 }));
}

#[test]
fn losers_are_swept_and_the_coin_paid_out_if_wanted() {
    let (blocks, _) = story();
    let exited =
        SeenCoin { status: 1, winner: Some(address("bob")), ..seen(&[forged_exit(&blocks, NOW)]) };
    let history = blocks.history(1);
    assert_eq!(decided(&history, &exited, "bob", NOW).actions, [Action::Sweep { exit: 7 }]);
    assert!(decided(&history, &exited, "alice", NOW).actions.is_empty());
    let rules = Rules { withdraw: true, ..rules("bob") };
    let known = KnownCoin { settled: &history, latest: None, missing: None };
    let wanted = [Action::Sweep { exit: 7 }, Action::Withdraw { owner: address("bob") }];
    assert_eq!(decide(&known, &exited, &rules, NOW).actions, wanted);
    let gone = SeenCoin { status: 2, ..exited };
    assert_eq!(decide(&known, &gone, &rules, NOW).actions, wanted[..1]);
}

/// Numbers of a seed (xorshift64*).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % sides
    }
}

/// One coin's exit game (exit-game.md "Functions"), as far as it decides who is paid.
struct Game {
    blocks: Blocks,
    open: Vec<OpenExit>,
    used: BTreeSet<(BlockNumber, BlockNumber)>,
    hold_until: u64,
    winner: Option<Address>,
    exits: u64,
    now: u64,
}

impl Game {
    fn start(&mut self, exit: OpenExit) -> bool {
        let key = (exit.parent_block, exit.block);
        if self.winner.is_some() || !self.used.insert(key) {
            return false;
        }
        self.exits += 1;
        self.open.push(OpenExit { id: self.exits, opened_at: self.now, ..exit });
        self.open.sort_by_key(OpenExit::age);
        true
    }

    fn challenge(&mut self, id: u64) {
        let at = self.open.iter().position(|exit| exit.id == id).unwrap();
        if at == 0 {
            self.hold_until = self.hold_until.max(self.now + HOLD_S);
        }
        self.open.remove(at);
    }

    fn finalize(&mut self) {
        if let Some(first) = self.open.first()
            && self.winner.is_none()
            && self.now > first.opened_at + PERIOD_S
            && self.now > self.hold_until
        {
            self.winner = Some(first.beneficiary);
        }
    }

    fn shown(&self) -> Vec<Inclusion> {
        (1..=self.blocks.0.len() as u64).filter_map(|n| self.blocks.inclusion(n)).collect()
    }

    /// States of which some block's leaf at the coin is a valid child.
    fn exits_of_all(&self) -> Vec<OpenExit> {
        let shown = self.shown();
        let mut parents = vec![state()];
        parents.extend(shown.iter().map(|shown| CoinState {
            coin: COIN,
            owner: shown.transfer.transfer.new_owner,
            block: shown.block,
            hash: shown.transfer.transfer.digest(&domain()),
        }));
        let mut exits = vec![exit(0, None, 0)];
        for parent in &parents {
            let children = shown
                .iter()
                .filter(|shown| shown.transfer.child_of(parent, shown.block, &domain()).is_ok());
            exits.extend(children.map(|shown| exit(0, Some((parent, shown)), 0)));
        }
        exits
    }

    /// A leaf against the coin's owner: out of nothing, a child of it, a replay, a double spend.
    fn hostile_block(&mut self, dice: &mut Dice) {
        let shown = self.shown();
        let thieves = ["mallory", "alice", "carol"];
        let transfer = match dice.roll(5) {
            0 => None,
            1 => Some(pay(&nothing(), "mallory", "mallory")),
            2 => shown.get(dice.roll(shown.len().max(1) as u64) as usize).map(|s| s.transfer),
            _ => {
                // Whoever but bob owned a state, or claims to, signs it away once more.
                let mine = self.exits_of_all();
                let mut states: Vec<CoinState> = mine
                    .iter()
                    .map(|e| CoinState {
                        coin: COIN,
                        owner: e.beneficiary,
                        block: e.block,
                        hash: e.state_hash,
                    })
                    .collect();
                states.extend(shown.iter().map(|s| CoinState {
                    coin: COIN,
                    owner: s.transfer.transfer.new_owner,
                    block: s.block,
                    hash: s.transfer.transfer.digest(&domain()),
                }));
                let state = states[dice.roll(states.len() as u64) as usize];
                let owner = thieves.into_iter().find(|name| address(name) == state.owner);
                let to = thieves[dice.roll(3) as usize];
                owner.map(|owner| pay(&state, owner, to))
            }
        };
        self.blocks.add(transfer);
    }
}

/// A game with an honest past that ends with bob.
fn new_game(dice: &mut Dice) -> Game {
    let mut blocks = Blocks::default();
    let (mut at, mut owner) = (state(), "alice");
    let past = [&["bob"][..], &["carol", "bob"], &["carol", "alice", "bob"]];
    for to in past[dice.roll(3) as usize] {
        let paid = pay(&at, owner, to);
        let block = blocks.add(Some(paid));
        (at, owner) = (child(&at, &paid, block), to);
    }
    Game {
        blocks,
        open: Vec::new(),
        used: BTreeSet::new(),
        hold_until: 0,
        winner: None,
        exits: 0,
        now: NOW,
    }
}

/// The adversary opens and refutes exits; what he shows by it is known.
fn attack(game: &mut Game, known: &mut History, dice: &mut Dice) {
    for _ in 0..dice.roll(3) {
        let all = game.exits_of_all();
        let exit = all[dice.roll(all.len() as u64) as usize];
        if game.start(exit) {
            // Parent and transfer are shown; the parent without its signature.
            for block in [exit.parent_block, exit.block] {
                let Some(mut shown) = game.blocks.inclusion(block) else { continue };
                if block == exit.parent_block {
                    shown.transfer.signature.0 = [0; 64];
                }
                let _ = known.learn(game.blocks.0[block as usize - 1].0, shown).unwrap();
            }
        }
    }
    let shown = game.shown();
    for exit in game.open.clone() {
        if dice.roll(4) == 0
            && let Some(challenge) = refute(&exit, &deposit(), COIN, &shown, &domain())
        {
            game.challenge(exit.id);
            let (Challenge::Spent { spend: shown, .. } | Challenge::DoubleSpend { other: shown }) =
                challenge;
            let root = game.blocks.0[shown.block as usize - 1].0;
            let _ = known.learn(root, shown).unwrap();
        }
    }
}

/// The watcher looks; how many exits it starts.
fn guard(game: &mut Game, known: &KnownCoin<'_>) -> u32 {
    let mut open = seen(&game.open);
    open.hold_until = game.hold_until;
    open.used.clone_from(&game.used);
    open.status = u8::from(game.winner.is_some());
    open.winner = game.winner;
    let mut started = 0;
    for action in decide(known, &open, &rules("bob"), game.now).actions {
        match action {
            Action::Challenge { exit, .. } => game.challenge(exit),
            Action::Start { transfer, .. } => {
                let (parent, last) = (*transfer).clone().unwrap();
                let parent = parent.map_or(state(), |shown| CoinState {
                    coin: COIN,
                    owner: shown.transfer.transfer.new_owner,
                    block: shown.block,
                    hash: shown.transfer.transfer.digest(&domain()),
                });
                assert!(game.start(exit(0, Some((&parent, &last)), 0)), "started twice");
                started += 1;
            }
            Action::Finalize { .. } => game.finalize(),
            Action::Sweep { .. } | Action::Withdraw { .. } => {}
        }
    }
    started
}

/// Plays one game; who was paid, if anybody.
fn play(seed: u64) -> Option<Address> {
    let dice = &mut Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut game = new_game(dice);
    let mut known = game.blocks.history(game.blocks.0.len() as u64);
    let (mut withheld, mut missing, mut started) = (dice.roll(2) == 0, None, 0);
    for _ in 0..30 {
        if game.blocks.0.len() < 9 && dice.roll(2) == 0 {
            game.hostile_block(dice);
        }
        attack(&mut game, &mut known, dice);
        // The watcher looks at most half a hold later than the last time.
        game.now += 1 + dice.roll(HOLD_S / 2);
        game.finalize();
        // Withheld blocks may be shown later.
        withheld &= dice.roll(8) != 0;
        while !withheld && known.checked() < game.blocks.0.len() as u64 {
            let (root, shown) = &game.blocks.0[known.checked() as usize];
            let _ = known.extend(Some(*root), shown).unwrap();
            missing = None;
        }
        if withheld && known.checked() < game.blocks.0.len() as u64 {
            missing.get_or_insert((known.checked() + 1, game.now));
        }
        started += guard(&mut game, &KnownCoin { settled: &known, latest: None, missing });
    }
    assert!(started <= 1, "seed {seed}: {started} exits");
    game.winner
}

#[test]
fn the_honest_owner_is_paid_whatever_the_others_do() {
    let mut paid = 0;
    for seed in 1..=300 {
        let winner = play(seed);
        assert!(winner.is_none_or(|w| w == address("bob")), "seed {seed}: {winner:?}");
        paid += u32::from(winner.is_some());
    }
    // Otherwise there was nothing to win.
    assert!(paid > 200, "only {paid} games ended");
}
