//! A hostile operator against honest users who follow the off-chain rules of exit-game.md:
//! whoever is rightful is paid.
//!
//! One coin, one game. The operator, who is also Mallory, makes the plasma blocks, withholds and
//! reveals them, and plays every exit, challenge and cancellation open to her at moments of her
//! choice. Honest users look as seldom as they may, know what was published, shown on Ethereum or
//! told to them, and decide their challenges with the client's own code.
//!
//! Rightful is the owner of the last state reachable from the deposit by valid Child links, lowest
//! inclusion each, in all blocks, withheld or not. He must be paid if he had accepted the coin, or
//! looked while he knew his state's inclusion. Before that the coin may go back to an honest
//! sender; a receiver from Mallory who has not accepted has no claim yet. Honest bonds may be lost
//! in the two known cases only: the sender of an in-flight transfer that sits in a block he could
//! not see, refuted by that very transfer; and a receiver who claims on partial data from a sender
//! who signed twice.

use std::collections::{BTreeMap, BTreeSet};

use plasma_client::challenge::{Challenge, Inclusion, OpenExit, refute};
use plasma_core::coin::{CoinState, Deposit};
use plasma_core::domain::Domain;
use plasma_core::signature::{Signature, SigningKey};
use plasma_core::smt::{Leaf, Proof, prove};
use plasma_core::transfer::{SignedTransfer, Transfer};
use plasma_core::{Address, B256, BlockNumber, U256};
use plasma_testkit::exit_game::{
    CHAIN_ID, Call, Consent, Exit, ExitStart, ExitState, Model, Params, PlasmaBlock, Referee,
    Refusal, Rules, Shown, Status, Tx, Validators,
};
use plasma_testkit::key;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Wc and Wx, in seconds: small, so that boundaries meet often.
const EXIT_PERIOD_S: u64 = 20;
const HOLD_PERIOD_S: u64 = 8;
const BOND: u64 = 100;
const COIN: u64 = 1;
const BLOCKS_MAX: u64 = 8;
/// Most blocks in which the operator behaves before she shows what she is.
const GOOD_BLOCKS_MAX: u32 = 4;
const STEPS: u32 = 60;
/// What Mallory may still do after the honest owner has decided to leave.
const LAST_DEEDS: u32 = 12;
const HONEST: usize = 3;

/// The games: the model alone, or the contract beside it.
enum Arena {
    Model(Box<Model>),
    Both(Box<Referee>),
}

impl Arena {
    fn model(&self) -> &Model {
        match self {
            Self::Model(model) => model,
            Self::Both(referee) => &referee.model,
        }
    }

    fn play(&mut self, tx: &Tx) -> Result<(), Refusal> {
        match self {
            Self::Model(model) => model.play(tx),
            Self::Both(referee) => referee.play(tx),
        }
    }
}

/// A signed transfer that may or may not get into a block.
#[derive(Clone)]
struct Signed {
    transfer: Transfer,
    signature: Vec<u8>,
    hash: B256,
    /// Block of the state that it spends; 0: the deposit.
    parent: BlockNumber,
    /// The honest sender; none: Mallory.
    from: Option<usize>,
    /// The honest receiver; none: Mallory.
    to: Option<usize>,
}

/// An honest user.
struct User {
    key: SigningKey,
    /// Blocks in which he knows what happened to the coin.
    known: BTreeSet<BlockNumber>,
    /// Block of the state that he has accepted; 0: the deposit.
    accepted: Option<BlockNumber>,
    outgoing: Option<Signed>,
    incoming: Vec<Signed>,
    /// Blocks with a state of his whose inclusion he knew at a look.
    informed: BTreeSet<BlockNumber>,
    last_look: u64,
    saw_open: bool,
}

impl User {
    fn watches(&self) -> bool {
        self.accepted.is_some() || !self.incoming.is_empty()
    }

    /// The last moment of his next look: before T + Wc, before T + Wx while an exit is open.
    fn deadline(&self) -> u64 {
        self.last_look + if self.saw_open { HOLD_PERIOD_S } else { EXIT_PERIOD_S } - 1
    }
}

/// What happened, for the statistics that show that the games are worth something.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    paid_honest: u64,
    paid_mallory: u64,
    accepted: u64,
    refuted: u64,
    sender_bonds: u64,
    receiver_bonds: u64,
}

struct Game {
    rng: StdRng,
    arena: Arena,
    domain: Domain,
    validators: Validators,
    now: u64,
    users: Vec<User>,
    mallory: SigningKey,
    deposit: Option<Deposit>,
    /// The coin's leaf by block, from block 1.
    leaves: Vec<Option<Shown>>,
    hashes: Vec<Option<B256>>,
    public: BTreeSet<BlockNumber>,
    pending: Vec<Signed>,
    children: BTreeMap<(BlockNumber, BlockNumber), bool>,
    /// Blocks in which the operator still behaves.
    good_blocks: u32,
    /// The owners leave now.
    closing: bool,
    refutations: Vec<u64>,
    tally: Tally,
    violations: Vec<String>,
}

impl Game {
    fn new(seed: u64, rules: Rules, on_contract: bool) -> Self {
        let params = Params {
            exit_period_s: EXIT_PERIOD_S,
            hold_period_s: HOLD_PERIOD_S,
            bond: BOND.into(),
            burn_bps: 5_000,
        };
        let keys: Vec<SigningKey> = (1..=HONEST as u64).map(key).collect();
        let mallory = key(99);
        let validators = Validators::default();
        let everybody: Vec<_> = keys.iter().chain([&mallory]).map(SigningKey::address).collect();
        let mut arena = if on_contract {
            Arena::Both(Box::new(Referee::new(params, everybody)))
        } else {
            let domain = Domain::new(CHAIN_ID, Address::repeat_byte(0xcc));
            Arena::Model(Box::new(Model::new(domain, params, validators.set.clone())))
        };
        if let Arena::Model(model) = &mut arena {
            model.rules = rules;
        }
        let now = 1_800_000_000;
        let user = |key| User {
            key,
            known: BTreeSet::new(),
            accepted: None,
            outgoing: None,
            incoming: Vec::new(),
            informed: BTreeSet::new(),
            last_look: now,
            saw_open: false,
        };
        Self {
            rng: StdRng::seed_from_u64(seed),
            domain: arena.model().domain,
            arena,
            validators,
            now,
            users: keys.into_iter().map(user).collect(),
            mallory,
            deposit: None,
            leaves: Vec::new(),
            hashes: Vec::new(),
            public: BTreeSet::new(),
            pending: Vec::new(),
            children: BTreeMap::new(),
            good_blocks: 0,
            closing: false,
            refutations: Vec::new(),
            tally: Tally::default(),
            violations: Vec::new(),
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_ratio(percent, 100)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.choose(&mut self.rng).cloned()
    }

    fn user_of(&self, owner: Address) -> Option<usize> {
        self.users.iter().position(|user| user.key.address() == owner)
    }

    // --- states ---------------------------------------------------------------------------------

    fn last(&self) -> BlockNumber {
        self.leaves.len() as BlockNumber
    }

    fn leaf(&self, block: BlockNumber) -> Option<&Shown> {
        self.leaves.get(block as usize - 1).and_then(Option::as_ref)
    }

    fn hash(&self, block: BlockNumber) -> B256 {
        self.hashes.get(block as usize - 1).copied().flatten().unwrap_or_default()
    }

    /// The state that block's leaf makes; 0: the deposit.
    fn state(&self, block: BlockNumber) -> CoinState {
        let deposit = self.deposit.unwrap();
        if block == 0 {
            return deposit.state(COIN, &self.domain);
        }
        let owner = self.leaf(block).map_or(Address::ZERO, |shown| shown.transfer.new_owner);
        CoinState { coin: COIN, owner, block, hash: self.hash(block) }
    }

    /// `Child(leaf of block, state at parent)`, by the true rules.
    fn is_child(&mut self, parent: BlockNumber, block: BlockNumber) -> bool {
        if let Some(known) = self.children.get(&(parent, block)) {
            return *known;
        }
        let state = self.state(parent);
        let valid = self
            .leaf(block)
            .is_some_and(|shown| signed(shown).child_of(&state, block, &self.domain).is_ok());
        self.children.insert((parent, block), valid);
        valid
    }

    /// The blocks of the rightful states, from the deposit on, in all blocks there are.
    fn rightful(&mut self) -> Vec<BlockNumber> {
        let mut chain = vec![0];
        for block in 1..=self.last() {
            if self.is_child(chain[chain.len() - 1], block) {
                chain.push(block);
            }
        }
        chain
    }

    /// The same as far as a user knows it, and whether a block is missing or holds anything else
    /// than the valid next child.
    fn walk(&mut self, user: usize) -> (Vec<BlockNumber>, bool) {
        let mut chain = vec![0];
        for block in self.deposit.unwrap().deposit_block + 1..=self.last() {
            if !self.users[user].known.contains(&block) {
                return (chain, true);
            }
            if self.leaf(block).is_none() {
                continue;
            }
            if !self.is_child(chain[chain.len() - 1], block) {
                return (chain, true);
            }
            chain.push(block);
        }
        (chain, false)
    }

    /// The lowest known block that validly includes a transfer.
    fn included(&mut self, user: usize, transfer: &Signed) -> Option<BlockNumber> {
        let blocks: Vec<_> = self.users[user].known.iter().copied().collect();
        blocks.into_iter().find(|block| {
            self.leaf(*block).is_some()
                && self.hash(*block) == transfer.hash
                && self.is_child(transfer.parent, *block)
        })
    }

    // --- calls ----------------------------------------------------------------------------------

    fn play(&mut self, sender: Address, value: u64, call: Call) -> Result<(), Refusal> {
        let before = self.arena.model().coin(COIN);
        let tx = Tx { time: self.now, sender, value: U256::from(value), call };
        self.arena.play(&tx)?;
        let shown = match &tx.call {
            Call::StartExit(start) => vec![start.parent.block, start.transfer.block],
            Call::ChallengeSpent { spend, .. } => vec![spend.block],
            Call::ChallengeDoubleSpend { other, .. } => vec![other.block],
            _ => vec![],
        };
        // Evidence: whoever watches learns it.
        for block in shown.into_iter().filter(|block| *block != 0) {
            self.publish(block);
        }
        if let Call::ChallengeSpent { exit, .. } | Call::ChallengeDoubleSpend { exit, .. } = tx.call
        {
            self.tally.refuted += 1;
            self.refutations.push(self.now);
            let exit = *self.arena.model().exit(exit);
            self.judge_bond(&exit);
        }
        let after = self.arena.model().coin(COIN);
        if let (None, Some(winner)) = (before.winner, after.winner) {
            let winner = *self.arena.model().exit(winner);
            self.judge_winner(&winner);
            for id in after.open {
                let exit = *self.arena.model().exit(id);
                if exit.beneficiary != winner.beneficiary {
                    self.judge_bond(&exit);
                }
            }
        }
        Ok(())
    }

    fn publish(&mut self, block: BlockNumber) {
        self.public.insert(block);
        for user in &mut self.users {
            user.known.insert(block);
        }
    }

    fn open_exits(&self) -> Vec<(u64, Exit)> {
        let model = self.arena.model();
        model.coin(COIN).open.iter().map(|id| (*id, *model.exit(*id))).collect()
    }

    fn active(&self) -> bool {
        self.arena.model().coin(COIN).status() == Status::Active
    }

    fn start_call(&self, block: BlockNumber, parent: BlockNumber) -> Call {
        let shown = |block| match block {
            0 => Shown::none(),
            _ => self.leaf(block).unwrap().clone(),
        };
        let start = ExitStart {
            coin: COIN,
            deposit_id: 1,
            parent: shown(parent),
            transfer: shown(block),
            consent: Consent::default(),
            hint: 0,
        };
        if block == 0 { Call::StartDepositExit(start) } else { Call::StartExit(start) }
    }

    fn finalize_for(&mut self, account: Address) {
        let model = self.arena.model();
        let head = model.coin(COIN).open.first().map(|id| model.exit(*id).beneficiary);
        if head == Some(account) {
            // Too early, or on hold: the next look tries again.
            let _ = self.play(account, 0, Call::FinalizeExit { coin: COIN });
        }
    }

    // --- judgement ------------------------------------------------------------------------------

    fn violation(&mut self, what: String) {
        let rightful = self.rightful();
        let exits = &self.arena.model().exits;
        self.violations.push(format!("{what}; rightful states {rightful:?}, exits {exits:#?}"));
    }

    /// What an honest user sends is accepted; in a game without a rule that alone is no loss.
    fn refused(&mut self, user: usize, refusal: Refusal) {
        if self.arena.model().rules == Rules::ALL {
            self.violation(format!("user {user}'s call is refused: {refusal:?}"));
        }
    }

    fn judge_winner(&mut self, winner: &Exit) {
        let chain = self.rightful();
        let last = chain[chain.len() - 1];
        let owner = self.state(last).owner;
        let paid = winner.beneficiary;
        match self.user_of(paid) {
            Some(_) => self.tally.paid_honest += 1,
            None => self.tally.paid_mallory += 1,
        }
        let Some(user) = self.user_of(owner) else { return };
        let claims =
            self.users[user].accepted == Some(last) || self.users[user].informed.contains(&last);
        if claims && paid != owner {
            self.violation(format!("{paid} is paid, but user {user} is rightful"));
        } else if !claims {
            let sender = chain.len().checked_sub(2).map(|i| self.state(chain[i]).owner);
            let sender = sender.filter(|sender| self.user_of(*sender).is_some());
            if sender.is_some_and(|sender| sender != paid) && paid != owner {
                self.violation(format!("{paid} is paid, neither sender nor receiver {user}"));
            }
        }
        if claims && paid == owner && self.users[user].accepted == Some(last) {
            let since = |time: &&u64| **time >= winner.opened_at;
            let refuted = self.refutations.iter().filter(since).count() as u64;
            let looks = HOLD_PERIOD_S;
            let due = winner.opened_at + EXIT_PERIOD_S + looks + refuted * (looks + HOLD_PERIOD_S);
            if self.now > due {
                self.violation(format!("user {user} is paid at {}, due {due}", self.now));
            }
        }
    }

    /// An honest bond is lost in the two known cases only.
    fn judge_bond(&mut self, exit: &Exit) {
        let Some(user) = self.user_of(exit.payer) else { return };
        let chain = self.rightful();
        let on_chain = chain.iter().position(|block| self.state(*block).hash == exit.hash);
        match on_chain {
            // Spent by the transfer that he himself has signed.
            Some(at) if at + 1 < chain.len() => self.tally.sender_bonds += 1,
            // Somebody signed another transfer of the parent, and it was included before.
            None if self.user_of(exit.parent.1).is_none() => self.tally.receiver_bonds += 1,
            _ => self.violation(format!("user {user} loses his bond")),
        }
    }

    // --- honest users ---------------------------------------------------------------------------

    /// Refutes what can be refuted; returns whether a foreign exit stays open.
    fn challenge_foreign(&mut self, user: usize) -> bool {
        let own = self.users[user].key.address();
        let known = self.inclusions(&self.users[user].known);
        let deposit = self.deposit.unwrap();
        let mut stays = false;
        for (id, exit) in self.open_exits() {
            if exit.beneficiary == own {
                continue;
            }
            let Some(challenge) =
                refute(&client_exit(id, &exit), &deposit, COIN, &known, &self.domain)
            else {
                stays = true;
                continue;
            };
            let call = challenge_call(id, challenge);
            if let Err(refusal) = self.play(own, 0, call) {
                self.refused(user, refusal);
                stays = true;
            }
        }
        stays
    }

    fn inclusions(&self, known: &BTreeSet<BlockNumber>) -> Vec<Inclusion> {
        let leaves = known.iter().filter_map(|block| self.leaf(*block));
        leaves
            .map(|shown| Inclusion {
                block: shown.block,
                transfer: signed(shown),
                proof: Proof::decode(&shown.proof).unwrap(),
            })
            .collect()
    }

    /// Opens the user's exit of the state at `block`, unless one of the same transfer is open or
    /// what he knows refutes it.
    fn exit_state(&mut self, user: usize, block: BlockNumber, parent: BlockNumber) {
        let own = self.users[user].key.address();
        let hash = self.state(block).hash;
        let started = self.arena.model().exits.iter().any(|exit| {
            exit.hash == hash && (exit.state == ExitState::Open || exit.block == block)
        });
        if started || !self.active() {
            return;
        }
        let state = self.state(block);
        let of_deposit = block == 0;
        let deposit = self.deposit.unwrap();
        let spent = self.state(parent);
        let own_exit = OpenExit {
            id: 0,
            parent_block: if of_deposit { deposit.deposit_block } else { spent.block },
            parent_hash: if of_deposit { B256::ZERO } else { spent.hash },
            parent_owner: if of_deposit { Address::ZERO } else { spent.owner },
            block,
            state_hash: hash,
            beneficiary: state.owner,
            payer: own,
            bond: BOND.into(),
            opened_at: self.now,
        };
        let known = self.inclusions(&self.users[user].known);
        if refute(&own_exit, &deposit, COIN, &known, &self.domain).is_some() {
            return;
        }
        let call = self.start_call(block, parent);
        if let Err(refusal) = self.play(own, BOND, call) {
            self.refused(user, refusal);
        }
    }

    fn look(&mut self, user: usize) {
        self.users[user].last_look = self.now;
        if self.active() {
            let stays = self.challenge_foreign(user);
            self.look_as_receiver(user, stays);
            self.look_as_owner(user, stays);
            self.finalize_for(self.users[user].key.address());
        }
        self.users[user].saw_open = !self.open_exits().is_empty();
    }

    fn look_as_receiver(&mut self, user: usize, stays: bool) {
        for transfer in self.users[user].incoming.clone() {
            let (chain, trouble) = self.walk(user);
            let tip = chain[chain.len() - 1];
            let Some(block) = self.included(user, &transfer) else { continue };
            self.users[user].informed.insert(block);
            let gone = self.open_exits().is_empty();
            if !trouble && tip == block && gone {
                self.accept(user, block, &transfer);
            } else if trouble || stays {
                self.exit_state(user, block, transfer.parent);
            }
        }
    }

    fn accept(&mut self, user: usize, block: BlockNumber, transfer: &Signed) {
        self.tally.accepted += 1;
        self.users[user].accepted = Some(block);
        self.users[user].outgoing = None;
        self.users[user].incoming.clear();
        if let Some(sender) = transfer.from.filter(|sender| *sender != user) {
            self.users[sender].accepted = None;
            self.users[sender].outgoing = None;
        }
    }

    fn look_as_owner(&mut self, user: usize, stays: bool) {
        let Some(block) = self.users[user].accepted else { return };
        let (chain, trouble) = self.walk(user);
        if let Some(outgoing) = self.users[user].outgoing.clone() {
            if self.included(user, &outgoing).is_some() {
                self.forward(user, &outgoing);
                return;
            }
            let max = outgoing.transfer.max_block;
            let seen = (1..=max).all(|block| self.users[user].known.contains(&block));
            if self.last() >= max && seen {
                self.users[user].outgoing = None;
            }
        }
        // Trouble alone is no hurry: the next look is in time too.
        if stays || self.closing || (trouble && self.chance(60)) {
            let place = chain.iter().position(|other| *other == block);
            let parent = place.and_then(|place| place.checked_sub(1)).map_or(0, |i| chain[i]);
            self.exit_state(user, block, parent);
        } else if !trouble && self.users[user].outgoing.is_none() && self.chance(70) {
            self.send(user, block);
        }
    }

    /// Tells the receiver all that the sender knows, who looks at once.
    fn forward(&mut self, user: usize, outgoing: &Signed) {
        if let Some(receiver) = outgoing.to {
            let known = self.users[user].known.clone();
            let news = !known.is_subset(&self.users[receiver].known);
            self.users[receiver].known.extend(known);
            if news && receiver != user {
                self.look(receiver);
            }
        }
    }

    fn send(&mut self, user: usize, block: BlockNumber) {
        if self.closing || !self.open_exits().is_empty() {
            return;
        }
        let others: Vec<_> = (0..HONEST).filter(|other| *other != user).collect();
        let to = if self.chance(65) { self.pick(&others) } else { None };
        let key = self.users[user].key.clone();
        let transfer = self.sign(&key, block, to);
        let transfer = Signed { from: Some(user), ..transfer };
        self.users[user].outgoing = Some(transfer.clone());
        self.pending.push(transfer.clone());
        if let Some(receiver) = to {
            let known = self.users[user].known.clone();
            self.users[receiver].known.extend(known);
            self.users[receiver].incoming.push(transfer);
            self.look(receiver);
        }
    }

    /// A transfer of the state at `block` to a user, or to Mallory.
    fn sign(&mut self, key: &SigningKey, block: BlockNumber, to: Option<usize>) -> Signed {
        let owner = to.map_or(self.mallory.address(), |to| self.users[to].key.address());
        let max_block = self.last() + self.rng.random_range(1..4);
        let transfer = Transfer::spending(&self.state(block), owner, max_block);
        let hash = transfer.digest(&self.domain);
        let signature = key.sign(hash).0.to_vec();
        Signed { transfer, signature, hash, parent: block, from: None, to }
    }

    // --- the operator ---------------------------------------------------------------------------

    fn submit(&mut self, made: Option<(Transfer, Vec<u8>)>, visible: bool) {
        let block = self.last() + 1;
        let leaf = match &made {
            Some((transfer, _)) => Leaf { coin: COIN, hash: transfer.digest(&self.domain) },
            None => Leaf { coin: COIN + 1, hash: B256::repeat_byte(1) },
        };
        let plasma = PlasmaBlock::new(vec![leaf]);
        let proof = prove(&plasma.leaves, COIN).encode();
        let shown = made.map(|(transfer, signature)| Shown { block, transfer, signature, proof });
        self.hashes.push(shown.is_some().then_some(leaf.hash));
        self.leaves.push(shown);
        match &mut self.arena {
            // Certificates are not what these games are about, and cost half of their time.
            Arena::Model(model) => model.blocks.push(plasma),
            Arena::Both(referee) => {
                let at = (referee.model.last_block(), referee.model.chain_hash);
                let submission = self.validators.submission(&self.domain, at, vec![plasma]);
                let call = Call::SubmitBlocks(submission);
                self.play(self.mallory.address(), 0, call).unwrap();
            }
        }
        if visible {
            self.publish(block);
        }
    }

    fn garbage(&mut self) -> (Transfer, Vec<u8>) {
        let transfer = Transfer {
            coin: COIN,
            prev_block: 0,
            prev_hash: B256::from(self.rng.random::<[u8; 32]>()),
            new_owner: self.mallory.address(),
            max_block: 99,
        };
        (transfer, vec![0; 64])
    }

    /// The state at `block` to Mallory, signed by herself.
    fn to_mallory(&self, block: BlockNumber) -> (Transfer, Vec<u8>) {
        let transfer = Transfer::spending(&self.state(block), self.mallory.address(), 99);
        let digest = transfer.digest(&self.domain);
        (transfer, self.mallory.sign(digest).0.to_vec())
    }

    /// Blocks whose leaf, valid or not, makes Mallory the owner; 0 if the deposit does.
    fn mallorys(&self) -> Vec<BlockNumber> {
        let own = self.mallory.address();
        (u64::from(self.deposit.is_none())..=self.last())
            .filter(|block| match block {
                0 => self.deposit.is_some_and(|deposit| deposit.owner == own),
                _ => self.leaf(*block).is_some_and(|shown| shown.transfer.new_owner == own),
            })
            .collect()
    }

    fn make_block(&mut self) {
        if self.last() >= BLOCKS_MAX || self.closing {
            return;
        }
        let made = match self.rng.random_range(0..100) {
            0..30 => None,
            30..58 => {
                let newest = self.pending.last().cloned();
                let any = self.pick(&self.pending.clone());
                let chosen = if self.chance(70) { newest } else { any };
                chosen.map(|signed| (signed.transfer, signed.signature))
            }
            58..70 => Some(self.garbage()),
            70..88 => {
                let states = self.mallorys();
                self.pick(&states).map(|block| self.to_mallory(block))
            }
            88..94 => {
                let shown: Vec<_> = self.leaves.iter().flatten().cloned().collect();
                self.pick(&shown).map(|shown| (shown.transfer, shown.signature))
            }
            _ => {
                // Mostly not hers to sign.
                let states: Vec<_> = (0..=self.last()).collect();
                self.pick(&states).map(|block| self.to_mallory(block))
            }
        };
        let visible = self.chance(60);
        self.submit(made, visible);
    }

    /// A forged exit and, once it stands, the transfer that refutes the honest one, withheld.
    fn rearrange(&mut self) {
        if self.last() + 3 > BLOCKS_MAX || self.closing {
            return;
        }
        let forged = self.garbage();
        let visible = self.chance(50);
        self.submit(Some(forged), visible);
        let made = self.to_mallory(self.last());
        self.submit(Some(made), visible);
        let newest = self.pending.last().map(|signed| (signed.transfer, signed.signature.clone()));
        self.submit(newest, false);
        let call = self.start_call(self.last() - 1, self.last() - 2);
        let _ = self.play(self.mallory.address(), BOND, call);
    }

    fn reveal(&mut self) {
        let hidden: Vec<_> = (1..=self.last()).filter(|b| !self.public.contains(b)).collect();
        let Some(block) = self.pick(&hidden) else { return };
        if self.chance(50) {
            self.publish(block);
        } else {
            let user = self.rng.random_range(0..HONEST);
            self.users[user].known.insert(block);
        }
    }

    fn mallory_exits(&mut self) {
        let mut calls = Vec::new();
        let rules = self.arena.model().rules;
        for block in self.mallorys() {
            if block == 0 {
                calls.push(self.start_call(0, 0));
                continue;
            }
            let spent = self.leaf(block).unwrap().transfer.prev_hash;
            for parent in 0..block {
                let there = parent == 0 || self.leaf(parent).is_some();
                if there && (!rules.link || self.state(parent).hash == spent) {
                    calls.push(self.start_call(block, parent));
                }
            }
        }
        if let Some(call) = self.pick(&calls) {
            let _ = self.play(self.mallory.address(), BOND, call);
        }
    }

    fn mallory_challenges(&mut self) {
        let mut calls = Vec::new();
        let rules = self.arena.model().rules;
        for (id, exit) in self.open_exits() {
            let from = if exit.block == 0 { exit.parent_block } else { exit.block };
            for block in 1..=self.last() {
                let Some(shown) = self.leaf(block).cloned() else { continue };
                let t = shown.transfer;
                if !rules.link || t.prev_hash == exit.hash {
                    let again = t.prev_block != from && rules.link && exit.block != 0;
                    let at = if again { t.prev_block } else { 0 };
                    let proof = if at == 0 { None } else { self.leaf(at) };
                    let proof = proof.map_or(Vec::new(), |shown| shown.proof.clone());
                    let spend = shown.clone();
                    calls.push(Call::ChallengeSpent { coin: COIN, exit: id, spend, at, proof });
                }
                if !rules.link || t.prev_hash == exit.parent.0 {
                    calls.push(Call::ChallengeDoubleSpend { coin: COIN, exit: id, other: shown });
                }
            }
        }
        if let Some(call) = self.pick(&calls) {
            let _ = self.play(self.mallory.address(), 0, call);
        }
    }

    fn mallory_cancels(&mut self) {
        let own = self.mallory.address();
        let open = self.open_exits();
        let mine: Vec<_> = open.iter().filter(|(_, exit)| exit.payer == own).collect();
        if let Some((id, _)) = self.pick(&mine) {
            let _ = self.play(own, 0, Call::CancelExit { coin: COIN, exit: *id });
        }
    }

    /// Mallory pays an honest user, whom she tells what she likes.
    fn mallory_pays(&mut self) {
        let states = self.mallorys();
        let Some(block) = states.last().copied().filter(|_| !self.closing) else { return };
        let user = self.rng.random_range(0..HONEST);
        let key = self.mallory.clone();
        let transfer = self.sign(&key, block, Some(user));
        self.pending.push(transfer.clone());
        if self.chance(60) {
            let all = 1..=self.last();
            self.users[user].known.extend(all);
        }
        // He listens only to a sender whose own state he can verify.
        let (chain, trouble) = self.walk(user);
        let free = !self.users[user].watches() && self.open_exits().is_empty();
        if free && !trouble && chain[chain.len() - 1] == block {
            self.users[user].incoming = vec![transfer];
            self.look(user);
        }
    }

    /// What an honest operator would include: the newest transfer, if it is a valid child.
    fn make_good_block(&mut self) {
        self.good_blocks -= 1;
        let chain = self.rightful();
        let tip = self.state(chain[chain.len() - 1]);
        let newest = self.pending.last().filter(|signed| {
            let t = signed.transfer;
            t.prev_hash == tip.hash && self.last() < t.max_block
        });
        let made = newest.map(|signed| (signed.transfer, signed.signature.clone()));
        self.submit(made, true);
        for user in 0..HONEST {
            if self.users[user].watches() && self.chance(60) {
                self.look(user);
            }
        }
    }

    /// If one of Mallory's exits is over its period and she can refute all that are older, she
    /// does both at once. Where the coin's first exit starts the period of all, she opens hers now.
    fn strike(&mut self) {
        let own = self.mallory.address();
        let per_exit = self.arena.model().rules.period_per_exit;
        let over = |exit: &Exit, now: u64| now > exit.opened_at + EXIT_PERIOD_S;
        if !per_exit && self.active() && self.open_exits().iter().any(|(_, e)| over(e, self.now)) {
            self.mallory_exits();
        }
        let open = self.open_exits();
        let Some(place) = open.iter().position(|(_, exit)| exit.beneficiary == own) else {
            return;
        };
        if !self.active() || (per_exit && !over(&open[place].1, self.now)) {
            return;
        }
        let all: BTreeSet<_> = (1..=self.last()).collect();
        let known = self.inclusions(&all);
        let deposit = self.deposit.unwrap();
        let challenges: Vec<_> = open[..place]
            .iter()
            .filter_map(|(id, exit)| {
                let exit = client_exit(*id, exit);
                let challenge = refute(&exit, &deposit, COIN, &known, &self.domain)?;
                Some(challenge_call(*id, challenge))
            })
            .collect();
        if challenges.len() == place {
            for call in challenges {
                let _ = self.play(own, 0, call);
            }
            self.finalize_for(own);
        }
    }

    fn deed(&mut self) {
        if self.good_blocks > 0 {
            return if self.chance(85) { self.make_good_block() } else { self.mallory_pays() };
        }
        match self.rng.random_range(0..100) {
            0..35 => self.make_block(),
            35..38 => self.rearrange(),
            38..48 => self.reveal(),
            48..64 => self.mallory_exits(),
            64..82 => self.mallory_challenges(),
            82..86 => self.mallory_cancels(),
            _ => self.mallory_pays(),
        }
        if self.active() && self.chance(80) {
            self.strike();
        }
    }

    // --- the game -------------------------------------------------------------------------------

    /// Lets time pass; nobody is late for his look.
    fn pass(&mut self, seconds: u64) {
        let until = self.now + seconds;
        loop {
            let next = (0..HONEST)
                .filter(|user| self.users[*user].watches())
                .min_by_key(|user| self.users[*user].deadline());
            let Some(user) = next.filter(|user| self.users[*user].deadline() <= until) else {
                break;
            };
            self.now = self.now.max(self.users[user].deadline());
            // Mallory may come first in the same second.
            if self.active() && self.chance(50) {
                if self.chance(50) { self.strike() } else { self.deed() }
            }
            self.look(user);
        }
        self.now = until;
        if self.active() && self.chance(80) {
            self.strike();
        }
    }

    fn play_out(&mut self) {
        let early = *[0, 0, 1, 2].choose(&mut self.rng).unwrap();
        for block in 0..early {
            let made = match block {
                0 => Some(self.garbage()),
                _ => None,
            };
            self.submit(made, true);
        }
        self.open_deposit();
        for user in 0..HONEST {
            if self.users[user].watches() {
                self.look(user);
            }
        }
        self.good_blocks = self.rng.random_range(0..=GOOD_BLOCKS_MAX);
        for _ in 0..STEPS {
            if !self.active() {
                break;
            }
            match self.rng.random_range(0..100) {
                0..50 => self.deed(),
                50..75 => {
                    let user = self.rng.random_range(0..HONEST);
                    if self.users[user].watches() {
                        self.look(user);
                    }
                }
                _ => {
                    let seconds = self.interval();
                    self.pass(seconds);
                }
            }
        }
        self.close();
    }

    fn open_deposit(&mut self) {
        let owner = self.rng.random_range(0..HONEST + 1);
        let honest = self.users.get(owner).map(|user| user.key.address());
        let sender = honest.unwrap_or(self.mallory.address());
        let call = Call::DepositEth { value: U256::from(1_000), count: 1 };
        self.play(sender, 1_000, call).unwrap();
        self.deposit = self.arena.model().deposits.first().copied();
        self.children.clear();
        if honest.is_some() {
            self.users[owner].accepted = Some(0);
            self.users[owner].last_look = self.now;
        }
    }

    /// A moment or a long while; often just until something ends.
    fn interval(&mut self) -> u64 {
        let coin = self.arena.model().coin(COIN);
        let ends =
            coin.open.iter().map(|id| self.arena.model().exit(*id).opened_at + EXIT_PERIOD_S + 1);
        let ends: Vec<_> = ends.chain([coin.hold_until + 1]).filter(|t| *t > self.now).collect();
        match self.pick(&ends) {
            Some(end) if self.chance(40) => end - self.now,
            _ => self.rng.random_range(1..=HOLD_PERIOD_S),
        }
    }

    /// The honest owner leaves; Mallory does her worst, but not for ever.
    fn close(&mut self) {
        self.closing = true;
        let mut deeds = LAST_DEEDS;
        for _ in 0..12 * (EXIT_PERIOD_S + HOLD_PERIOD_S) {
            if !self.active() {
                return;
            }
            if deeds > 0 && self.chance(20) {
                deeds -= 1;
                self.deed();
            }
            self.pass(1);
        }
        let chain = self.rightful();
        let last = chain[chain.len() - 1];
        let owner = self.user_of(self.state(last).owner);
        if owner.is_some_and(|user| self.users[user].accepted == Some(last)) && self.active() {
            self.violation("the rightful owner is not paid at all".into());
        }
    }
}

fn signed(shown: &Shown) -> SignedTransfer {
    let signature = shown.signature[..].try_into().map_or(Signature::ZERO, Signature);
    SignedTransfer { transfer: shown.transfer, signature }
}

fn client_exit(id: u64, exit: &Exit) -> OpenExit {
    OpenExit {
        id,
        parent_block: exit.parent_block,
        parent_hash: exit.parent.0,
        parent_owner: exit.parent.1,
        block: exit.block,
        state_hash: exit.hash,
        beneficiary: exit.beneficiary,
        payer: exit.payer,
        bond: BOND.into(),
        opened_at: exit.opened_at,
    }
}

fn challenge_call(exit: u64, challenge: Challenge) -> Call {
    let shown = |inclusion: Inclusion| Shown {
        block: inclusion.block,
        transfer: inclusion.transfer.transfer,
        signature: inclusion.transfer.signature.0.to_vec(),
        proof: inclusion.proof.encode(),
    };
    match challenge {
        Challenge::Spent { spend, included } => {
            let (at, proof) = included.map_or((0, Vec::new()), |(at, proof)| (at, proof.encode()));
            Call::ChallengeSpent { coin: COIN, exit, spend: shown(spend), at, proof }
        }
        Challenge::DoubleSpend { other } => {
            Call::ChallengeDoubleSpend { coin: COIN, exit, other: shown(other) }
        }
    }
}

fn play(seed: u64, rules: Rules, on_contract: bool) -> (Tally, Vec<String>) {
    let mut game = Game::new(seed, rules, on_contract);
    game.play_out();
    (game.tally, game.violations)
}

fn expect_none(games: u64, on_contract: bool) {
    let mut sum = Tally::default();
    for seed in 0..games {
        let (tally, violations) = play(seed, Rules::ALL, on_contract);
        assert!(violations.is_empty(), "game {seed}: {}", violations.join("\n"));
        sum.paid_honest += tally.paid_honest;
        sum.paid_mallory += tally.paid_mallory;
        sum.accepted += tally.accepted;
        sum.refuted += tally.refuted;
        sum.sender_bonds += tally.sender_bonds;
        sum.receiver_bonds += tally.receiver_bonds;
    }
    println!("{games} games: {sum:?}");
    // Games in which nothing happens would prove nothing.
    assert!(sum.paid_honest > games / 4 && sum.paid_mallory > games / 10, "{sum:?}");
    assert!(sum.accepted > games / 10 && sum.refuted > games / 10, "{sum:?}");
    assert!(sum.sender_bonds > 0, "{sum:?}");
}

#[test]
fn the_rightful_owner_is_paid() {
    expect_none(crate::from_env("PLASMA_HOSTILE_GAMES", 3_000), false);
}

#[test]
fn the_rightful_owner_is_paid_by_the_contract() {
    expect_none(200, true);
}

/// A rule that decides what delays cost, not who is paid: `cancelExit` beside other exits clears
/// `used`, so that the same state could be exited again and again.
const DEARER: &str = "cancel_alone";

/// Without a rule somebody rightful loses, and these games notice.
#[test]
fn without_a_rule_somebody_loses() {
    const GAMES_MAX: u64 = 20_000;
    for (name, rules) in Rules::each_dropped().into_iter().filter(|(name, _)| *name != DEARER) {
        let lost = (0..GAMES_MAX).find(|seed| !play(*seed, rules, false).1.is_empty());
        assert!(lost.is_some(), "nobody loses without {name}");
    }
}
