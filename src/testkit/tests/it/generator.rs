//! Random calls of the exit game, mostly nearly valid: built from coins, leaves and exits that
//! exist, then with one thing wrong.

use std::collections::BTreeMap;

use plasma_core::coin::CoinState;
use plasma_core::domain::Domain;
use plasma_core::signature::SigningKey;
use plasma_core::smt::{Leaf, prove};
use plasma_core::transfer::Transfer;
use plasma_core::{Address, B256, BlockNumber, CoinId, U256};
use plasma_testkit::exit_game::{
    Call, Consent, Exit, ExitStart, ExitState, Params, PlasmaBlock, Referee, Shown, Status,
    Submission, Tx,
};
use plasma_testkit::key;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Coins that most calls are about: the newest.
const FOCUS: u64 = 6;
/// A leaf that a stored block holds.
#[derive(Debug, Clone)]
struct Known {
    shown: Shown,
    hash: B256,
}

/// One random game.
pub struct Generator {
    rng: StdRng,
    /// The two games.
    pub referee: Referee,
    params: Params,
    domain: Domain,
    foreign: Domain,
    keys: BTreeMap<Address, SigningKey>,
    people: Vec<Address>,
    refusing: Address,
    known: BTreeMap<CoinId, Vec<Known>>,
    /// A leaf that must be in the next block, because something already spends it there.
    due: Option<(CoinId, Transfer, Vec<u8>)>,
    /// Owner and value of the next deposit, so that leaves can spend it before it is made.
    planned: (Address, U256),
    planned_soon: bool,
    now: u64,
}

impl Generator {
    pub fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let exit_period_s = rng.random_range(50..2_000);
        let params = Params {
            exit_period_s,
            hold_period_s: *[1, exit_period_s / 2, exit_period_s].choose(&mut rng).unwrap(),
            bond: *[1, 99, 1_001, 10u128.pow(17)].choose(&mut rng).unwrap(),
            burn_bps: *[0, 3_333, 5_000, 10_000].choose(&mut rng).unwrap(),
        };
        let keys: BTreeMap<_, _> = (1..=6).map(|i| (key(i).address(), key(i))).collect();
        let people: Vec<_> = keys.keys().copied().collect();
        let mut referee = Referee::new(params, people.iter().copied());
        let refusing = Address::repeat_byte(0x66);
        referee.add_refusing(refusing);
        let domain = referee.model.domain;
        let foreign = Domain::new(domain.chain_id + 1, domain.root_chain);
        let planned = (people[0], U256::from(1_000));
        Self {
            rng,
            referee,
            params,
            domain,
            foreign,
            keys,
            people,
            refusing,
            known: BTreeMap::new(),
            due: None,
            planned,
            planned_soon: true,
            now: 1_800_000_000,
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_ratio(percent, 100)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        from.choose(&mut self.rng).cloned()
    }

    fn person(&mut self) -> Address {
        *self.people.choose(&mut self.rng).unwrap()
    }

    // --- what there is --------------------------------------------------------------------------

    fn coin(&mut self) -> CoinId {
        let last = self.referee.model.last_coin();
        match self.rng.random_range(0..100) {
            0 => 0,
            1..3 => last + self.rng.random_range(1..4),
            3..15 => self.rng.random_range(0..=last),
            _ => self.rng.random_range(last.saturating_sub(FOCUS).max(1)..=last.max(1)),
        }
    }

    /// A coin of the given status, if there is one in focus.
    fn coin_with(&mut self, status: Status) -> CoinId {
        for _ in 0..12 {
            let coin = self.coin();
            if self.referee.model.coin(coin).status() == status {
                return coin;
            }
        }
        self.coin()
    }

    fn deposit_id(&self, coin: CoinId) -> u64 {
        self.referee.model.deposit_of(coin).map_or(1, |deposit| deposit.deposit_id)
    }

    fn deposit_state(&self, coin: CoinId) -> Option<CoinState> {
        let deposit = self.referee.model.deposit_of(coin)?;
        Some(deposit.state(coin, &self.domain))
    }

    fn leaves(&self, coin: CoinId) -> Vec<Known> {
        self.known.get(&coin).cloned().unwrap_or_default()
    }

    /// All states of a coin, valid or not.
    fn states(&self, coin: CoinId) -> Vec<CoinState> {
        let leaves = self.leaves(coin);
        let states = leaves.iter().map(|known| CoinState {
            coin,
            owner: known.shown.transfer.new_owner,
            block: known.shown.block,
            hash: known.hash,
        });
        self.deposit_state(coin).into_iter().chain(states).collect()
    }

    fn open_exits(&self, coin: CoinId) -> Vec<(u64, Exit)> {
        let model = &self.referee.model;
        model.coin(coin).open.iter().map(|id| (*id, *model.exit(*id))).collect()
    }

    // --- plasma blocks --------------------------------------------------------------------------

    fn sign(&mut self, transfer: &Transfer, owner: Address) -> Vec<u8> {
        let digest = transfer.digest(&self.domain);
        match self.keys.get(&owner) {
            Some(key) => key.sign(digest).0.to_vec(),
            None => vec![0; 64],
        }
    }

    /// A leaf of `coin` for block `n`, of any kind that an operator could make.
    fn leaf(&mut self, coin: CoinId, n: BlockNumber) -> Option<(Transfer, Vec<u8>)> {
        if self.referee.model.deposit_of(coin).is_none() {
            return self.early_leaf(coin, n);
        }
        let states = self.states(coin);
        let state = if self.chance(50) { states.last().copied() } else { self.pick(&states) }?;
        let to = self.person();
        let max_block = n + self.rng.random_range(0..3);
        let mut t = Transfer::spending(&state, to, max_block);
        match self.rng.random_range(0..100) {
            0..6 => t.max_block = n - 1,
            6..16 => {
                let leaves = self.leaves(coin);
                let again = self.pick(&leaves)?;
                return Some((again.shown.transfer, again.shown.signature));
            }
            16..21 => t.prev_hash = B256::from(self.rng.random::<[u8; 32]>()),
            21..24 => t.prev_block += 1,
            24..28 => t.coin += 1,
            28..30 => t.new_owner = Address::ZERO,
            30..32 => t.new_owner = self.domain.root_chain,
            32..40 => return self.premature_leaf(&t, state.owner, n),
            _ => {}
        }
        let signature = self.sign(&t, state.owner);
        Some((t, signature))
    }

    /// A transfer in block `n` that spends another one, which comes in block n + 1 only.
    fn premature_leaf(
        &mut self,
        parent: &Transfer,
        owner: Address,
        n: BlockNumber,
    ) -> Option<(Transfer, Vec<u8>)> {
        if self.due.is_some() {
            return None;
        }
        let parent = Transfer { max_block: n + 1, ..*parent };
        let signature = self.sign(&parent, owner);
        self.due = Some((parent.coin, parent, signature));
        let child = Transfer {
            prev_block: n + 1,
            prev_hash: parent.digest(&self.domain),
            new_owner: self.person(),
            ..parent
        };
        let signature = self.sign(&child, parent.new_owner);
        Some((child, signature))
    }

    /// A leaf of a coin that does not exist yet: it spends the planned deposit, or nothing.
    fn early_leaf(&mut self, coin: CoinId, n: BlockNumber) -> Option<(Transfer, Vec<u8>)> {
        let (owner, value) = self.planned;
        let next = self.referee.model.last_coin() + 1;
        let deposit = plasma_core::coin::Deposit {
            deposit_id: 0,
            first_coin: coin,
            count: 1,
            owner,
            asset_kind: 1,
            token: Address::ZERO,
            token_id: U256::ZERO,
            value,
            deposit_block: n,
        };
        if coin != next || self.rng.random_ratio(2, 3) {
            return None;
        }
        self.planned_soon = true;
        let state = deposit.state(coin, &self.domain);
        let mut t = Transfer::spending(&state, self.person(), n + 5);
        if self.chance(40) {
            t.prev_hash = B256::from(self.rng.random::<[u8; 32]>());
        }
        let signature = self.sign(&t, owner);
        Some((t, signature))
    }

    /// Block `n`, with its leaves remembered.
    fn block(&mut self, n: BlockNumber) -> PlasmaBlock {
        let last = self.referee.model.last_coin();
        let mut made = BTreeMap::new();
        if let Some((coin, transfer, signature)) = self.due.take() {
            made.insert(coin, (transfer, signature));
        }
        for coin in last.saturating_sub(FOCUS).max(1)..=last + 1 {
            if !made.contains_key(&coin)
                && self.chance(45)
                && let Some(leaf) = self.leaf(coin, n)
            {
                made.insert(coin, leaf);
            }
        }
        // Never empty, and sometimes far more coins.
        let others = if self.chance(10) { 200 } else { 1 };
        let hash = |t: &Transfer| t.digest(&self.domain);
        let mut leaves: Vec<Leaf> =
            made.iter().map(|(coin, (t, _))| Leaf { coin: *coin, hash: hash(t) }).collect();
        for _ in 0..others {
            let coin = 1 << 40 | self.rng.random_range(0..1u64 << 40);
            if leaves.iter().all(|leaf| leaf.coin != coin) {
                leaves.push(Leaf { coin, hash: B256::repeat_byte(7) });
            }
        }
        let block = PlasmaBlock::new(leaves);
        for (coin, (transfer, signature)) in made {
            let proof = prove(&block.leaves, coin).encode();
            let hash = transfer.digest(&self.domain);
            let shown = Shown { block: n, transfer, signature, proof };
            self.known.entry(coin).or_default().push(Known { shown, hash });
        }
        block
    }

    fn submit(&mut self) -> Call {
        let model = &self.referee.model;
        let at = (model.last_block(), model.chain_hash);
        let validators = self.referee.contract.validators.clone();
        if self.chance(75) {
            let count = self.rng.random_range(1..3);
            let blocks = (0..count).map(|i| self.block(at.0 + 1 + i)).collect();
            return Call::SubmitBlocks(validators.submission(&self.domain, at, blocks));
        }
        // A lie: the root of no leaf, so that nothing is included.
        let block = PlasmaBlock { root: B256::repeat_byte(3), leaves: Vec::new() };
        let mut s = validators.submission(&self.domain, at, vec![block]);
        self.spoil_submission(&mut s);
        Call::SubmitBlocks(s)
    }

    fn spoil_submission(&mut self, s: &mut Submission) {
        match self.rng.random_range(0..11) {
            0 => s.first += 1,
            1 => s.first = s.first.saturating_sub(1),
            2 => s.blocks.clear(),
            3 => s.blocks[0].root = B256::ZERO,
            4 => s.set[5] ^= 1,
            5 => s.bitmap.push(0),
            6 => s.bitmap[0] |= 0x80,
            7 => s.signatures.truncate(64),
            8 => s.signatures[self.rng.random_range(0..64)] ^= 1,
            9 => {
                s.bitmap[0] = 1;
                s.signatures.truncate(64);
            }
            _ => s.blocks = vec![s.blocks[0].clone(); 513],
        }
    }

    fn deposit(&mut self) -> (Address, U256, Call) {
        let (sender, value) = self.planned;
        self.planned = (self.person(), U256::from(self.rng.random_range(1..1_000_000u64)));
        self.planned_soon = false;
        let count = if self.chance(50) { 1 } else { self.rng.random_range(1..4) };
        let sum = value * U256::from(count);
        match self.rng.random_range(0..40) {
            0 => (sender, sum, Call::DepositEth { value, count: 0 }),
            1 => (sender, sum, Call::DepositEth { value, count: 1_001 }),
            2 => (sender, U256::ZERO, Call::DepositEth { value: U256::ZERO, count }),
            3 => (sender, sum + U256::ONE, Call::DepositEth { value, count }),
            _ => (sender, sum, Call::DepositEth { value, count }),
        }
    }

    // --- spoiling -------------------------------------------------------------------------------

    fn spoil_signature(&mut self, signature: &mut Vec<u8>, digest: B256) {
        match self.rng.random_range(0..6) {
            0 => signature.push(0),
            1 => drop(signature.pop()),
            2 => *signature = vec![0; 64],
            3 => *signature = key(99).sign(digest).0.to_vec(),
            // The highest s that fits beside the parity bit: above half of the group order.
            4 if signature.len() == 64 => signature[32..].fill(0xff),
            _ => {
                let at = self.rng.random_range(0..signature.len().max(1));
                if let Some(byte) = signature.get_mut(at) {
                    *byte ^= 1;
                }
            }
        }
    }

    fn spoil_proof(&mut self, proof: &mut Vec<u8>) {
        match self.rng.random_range(0..6) {
            0 => proof.push(0),
            1 => drop(proof.pop()),
            2 => proof.clear(),
            3 => {
                // One more sibling, announced or not.
                let at = proof.len().min(9);
                proof.splice(at..at, [7; 32]);
                if self.chance(50) && proof.len() > 9 {
                    proof[8] |= 1;
                }
            }
            4 if proof.len() > 8 => proof[self.rng.random_range(0..9)] ^= 1,
            _ => {
                let at = self.rng.random_range(0..proof.len().max(1));
                if let Some(byte) = proof.get_mut(at) {
                    *byte ^= 1;
                }
            }
        }
    }

    fn spoil_shown(&mut self, shown: &mut Shown) {
        let digest = shown.transfer.digest(&self.domain);
        match self.rng.random_range(0..12) {
            0..2 => self.spoil_proof(&mut shown.proof),
            2..6 => self.spoil_signature(&mut shown.signature, digest),
            6 => {
                let foreign = shown.transfer.digest(&self.foreign);
                let person = self.person();
                shown.signature = self.keys[&person].sign(foreign).0.to_vec();
            }
            7 => shown.block += 1,
            8 => shown.block = self.rng.random_range(0..shown.block + 2),
            9 => shown.transfer.max_block += 1,
            10 => shown.transfer.prev_block = shown.transfer.prev_block.wrapping_sub(1),
            _ => shown.transfer.new_owner = self.person(),
        }
    }

    /// Any leaf: mostly the coin's own.
    fn any_leaf(&mut self, coin: CoinId) -> Shown {
        let coin = if self.chance(5) { self.coin() } else { coin };
        let leaves = self.leaves(coin);
        self.pick(&leaves).map_or_else(Shown::none, |known| known.shown)
    }

    /// A leaf that fits, else any; sometimes spoiled.
    fn leaf_where(&mut self, coin: CoinId, fits: impl Fn(&Known) -> bool) -> Shown {
        let fitting: Vec<_> = self.leaves(coin).into_iter().filter(fits).collect();
        let mut shown = match self.pick(&fitting) {
            Some(known) if self.chance(85) => known.shown,
            _ => self.any_leaf(coin),
        };
        if self.chance(18) {
            self.spoil_shown(&mut shown);
        }
        shown
    }

    // --- exits ----------------------------------------------------------------------------------

    /// The leaf that `transfer` spends; none for the deposit, or if nothing fits.
    fn parent_of(&self, coin: CoinId, transfer: &Shown) -> Option<Shown> {
        let (block, hash) = (transfer.transfer.prev_block, transfer.transfer.prev_hash);
        let leaves = self.leaves(coin);
        let exact = leaves.iter().find(|k| k.hash == hash && k.shown.block == block);
        exact.or(leaves.iter().find(|k| k.hash == hash)).map(|known| known.shown.clone())
    }

    fn start(&mut self, coin: CoinId) -> (Address, ExitStart) {
        let deposit = self.deposit_state(coin).map(|state| state.hash);
        let states = self.states(coin);
        let transfer = self.leaf_where(coin, |known| {
            let t = &known.shown.transfer;
            let spends =
                |state: &CoinState| state.hash == t.prev_hash && state.block == t.prev_block;
            known.shown.block > t.prev_block && states.iter().any(spends)
        });
        let parent = if Some(transfer.transfer.prev_hash) == deposit {
            None
        } else {
            self.parent_of(coin, &transfer)
        };
        let mut parent = match parent {
            _ if self.chance(6) => self.any_leaf(coin),
            None => Shown::none(),
            Some(parent) => parent,
        };
        if parent.block != 0 && self.chance(8) {
            self.spoil_shown(&mut parent);
        }
        let owner = transfer.transfer.new_owner;
        let hash = transfer.transfer.digest(&self.domain);
        self.finish_start(coin, owner, hash, parent, transfer)
    }

    fn start_deposit(&mut self, coin: CoinId) -> (Address, ExitStart) {
        let state = self.deposit_state(coin);
        let owner = state.map_or(self.people[0], |state| state.owner);
        let hash = state.map_or(B256::ZERO, |state| state.hash);
        self.finish_start(coin, owner, hash, Shown::none(), Shown::none())
    }

    /// Sender, consent, hint and deposit id around what exits.
    fn finish_start(
        &mut self,
        coin: CoinId,
        owner: Address,
        hash: B256,
        parent: Shown,
        transfer: Shown,
    ) -> (Address, ExitStart) {
        let (sender, consent) = if self.keys.contains_key(&owner) && self.chance(75) {
            (owner, Consent::default())
        } else {
            (self.person(), self.consent(coin, owner, hash))
        };
        let hint = match self.rng.random_range(0..3) {
            0 => 0,
            1 => self.rng.random_range(0..self.referee.model.exits.len() as u64 + 2),
            _ => {
                let open = self.open_exits(coin);
                self.pick(&open).map_or(0, |(id, _)| id)
            }
        };
        let deposit_id = match self.rng.random_range(0..40) {
            0 => self.deposit_id(coin) + 1,
            1 => self.deposit_id(coin) - 1,
            2 => u64::MAX,
            _ => self.deposit_id(coin),
        };
        (sender, ExitStart { coin, deposit_id, parent, transfer, consent, hint })
    }

    fn consent(&mut self, coin: CoinId, owner: Address, hash: B256) -> Consent {
        let Some(key) = self.keys.get(&owner).cloned() else { return Consent::default() };
        let (now, domain, foreign) = (self.now, self.domain, self.foreign);
        match self.rng.random_range(0..12) {
            0 => Consent::default(),
            1 => Consent::sign(coin, hash, now - 1, &key, &domain),
            2..5 => Consent::sign(coin, hash, now, &key, &domain),
            5 => Consent::sign(coin + 1, hash, now + 9, &key, &domain),
            6 => Consent::sign(coin, B256::ZERO, now + 9, &key, &domain),
            7 => Consent::sign(coin, hash, now + 9, &key, &foreign),
            8 => {
                let mut consent = Consent::sign(coin, hash, now + 9, &key, &domain);
                self.spoil_signature(&mut consent.signature, hash);
                consent
            }
            9 => {
                Consent { not_after: now + 10, ..Consent::sign(coin, hash, now + 9, &key, &domain) }
            }
            _ => Consent::sign(coin, hash, now + 9, &key, &domain),
        }
    }

    fn bond(&mut self, exits: usize) -> U256 {
        let bond = U256::from(self.params.bond) * U256::from(exits);
        match self.rng.random_range(0..30) {
            0 => bond + U256::ONE,
            1 => bond.saturating_sub(U256::ONE),
            _ => bond,
        }
    }

    /// An exit of the coin, mostly open; sometimes another's or none.
    fn exit(&mut self, coin: CoinId) -> (u64, Option<Exit>) {
        let model = &self.referee.model;
        let last = model.exits.len() as u64;
        match self.rng.random_range(0..100) {
            0..2 => (0, None),
            2..4 => (last + 1, None),
            4..8 if last > 0 => (self.rng.random_range(1..=last), None),
            8..13 => {
                let closed: Vec<_> = (1..=last)
                    .filter(|id| {
                        let exit = model.exit(*id);
                        exit.coin == coin && exit.state != ExitState::Open
                    })
                    .collect();
                (self.pick(&closed).unwrap_or(0), None)
            }
            _ => {
                let open = self.open_exits(coin);
                self.pick(&open).map_or((last, None), |(id, exit)| (id, Some(exit)))
            }
        }
    }

    /// An active coin with an open exit, if there is one in focus.
    fn contested(&mut self) -> CoinId {
        for _ in 0..12 {
            let coin = self.coin();
            let game = self.referee.model.coin(coin);
            if game.status() == Status::Active && !game.open.is_empty() {
                return coin;
            }
        }
        self.coin()
    }

    /// A coin past active with an exit to sweep, if there is one.
    fn finished(&mut self) -> CoinId {
        let coins = &self.referee.model.coins;
        let with = |status| {
            let waiting = coins.iter().filter(|(_, game)| {
                (game.status() != Status::Active) == status && !game.open.is_empty()
            });
            waiting.map(|(coin, _)| *coin).collect::<Vec<_>>()
        };
        let (waiting, active) = (with(true), with(false));
        let from = if self.chance(85) { waiting } else { active };
        self.pick(&from).unwrap_or_else(|| self.coin())
    }

    fn challenge_spent(&mut self) -> Call {
        let coin = if self.chance(95) { self.contested() } else { self.coin() };
        let (id, exit) = self.exit(coin);
        let hash = exit.map_or(B256::ZERO, |exit| exit.hash);
        let spend = self.leaf_where(coin, |known| known.shown.transfer.prev_hash == hash);
        let (mut at, mut proof) = (0, Vec::new());
        let spent_in = spend.transfer.prev_block;
        let again = self
            .leaves(coin)
            .into_iter()
            .find(|known| known.hash == hash && known.shown.block == spent_in);
        let needed = exit.is_some_and(|exit| exit.block != spent_in && exit.block != 0);
        if let Some(again) = again
            && (needed || self.chance(5))
            && self.chance(90)
        {
            (at, proof) = (again.shown.block, again.shown.proof);
        } else if self.chance(4) {
            let other = self.any_leaf(coin);
            (at, proof) = (other.block, other.proof);
        }
        if at != 0 && self.chance(10) {
            self.spoil_proof(&mut proof);
        }
        Call::ChallengeSpent { coin, exit: id, spend, at, proof }
    }

    fn challenge_double_spend(&mut self) -> Call {
        let coin = if self.chance(95) { self.contested() } else { self.coin() };
        let mut chosen = self.exit(coin);
        for _ in 0..4 {
            if chosen.1.is_none_or(|exit| exit.block != 0) {
                break;
            }
            chosen = self.exit(coin);
        }
        let (id, exit) = chosen;
        let parent = exit.map_or(B256::ZERO, |exit| exit.parent.0);
        let own = exit.map_or(B256::ZERO, |exit| exit.hash);
        let same = self.chance(10);
        let before = if self.chance(80) { exit.map_or(0, |exit| exit.block) } else { u64::MAX };
        let other = self.leaf_where(coin, |known| {
            let child = known.shown.transfer.prev_hash == parent;
            child && (known.hash == own) == same && (same || known.shown.block < before)
        });
        Call::ChallengeDoubleSpend { coin, exit: id, other }
    }

    // --- the next call --------------------------------------------------------------------------

    fn advance(&mut self) {
        let coin = self.contested();
        let game = self.referee.model.coin(coin);
        let head = game.open.first().map(|id| self.referee.model.exit(*id).opened_at);
        let step = match (self.rng.random_range(0..100), head) {
            (0..65, _) => 0,
            (65..89, _) => self.rng.random_range(0..4),
            (89..93, _) => self.rng.random_range(0..=self.params.exit_period_s / 4),
            (93..97, Some(opened)) => {
                let due = opened + self.params.exit_period_s + self.rng.random_range(0..2);
                due.saturating_sub(self.now)
            }
            _ => (game.hold_until + self.rng.random_range(0..2)).saturating_sub(self.now),
        };
        self.now += step;
    }

    /// The next transaction.
    pub fn next_tx(&mut self) -> Tx {
        self.advance();
        let (sender, value, call) = self.next_call();
        Tx { time: self.now, sender, value, call }
    }

    fn next_call(&mut self) -> (Address, U256, Call) {
        let sender = self.person();
        let free = |call| (sender, U256::ZERO, call);
        match self.rng.random_range(0..100) {
            _ if self.planned_soon && self.chance(60) => self.deposit(),
            0..2 => self.deposit(),
            2..13 => free(self.submit()),
            13..36 => {
                let coin = self.coin_with(Status::Active);
                let (sender, start) = self.start(coin);
                (sender, self.bond(1), Call::StartExit(start))
            }
            36..43 => {
                let coin = self.coin_with(Status::Active);
                let (sender, start) = self.start_deposit(coin);
                (sender, self.bond(1), Call::StartDepositExit(start))
            }
            43..47 => self.start_many(),
            47..62 => free(self.challenge_spent()),
            62..72 => free(self.challenge_double_spend()),
            72..79 => free(Call::FinalizeExit { coin: self.contested() }),
            79..81 => {
                let coins = (0..self.rng.random_range(0..5)).map(|_| self.coin()).collect();
                free(Call::FinalizeExits { coins })
            }
            81..88 => {
                let coin = self.finished();
                let (exit, _) = self.exit(coin);
                free(Call::SweepExit { coin, exit })
            }
            88..92 => self.cancel(),
            92..96 => {
                let coin = self.coin_with(Status::Exited);
                let (sender, to) = (self.winner(coin), self.recipient());
                (sender, U256::ZERO, Call::Withdraw { coin, to })
            }
            96..98 => self.withdraw_many(),
            _ => free(Call::WithdrawCredits { to: self.recipient() }),
        }
    }

    fn start_many(&mut self) -> (Address, U256, Call) {
        let count = self.rng.random_range(0..4);
        let (mut sender, mut starts) = (self.person(), Vec::new());
        for _ in 0..count {
            let coin = self.coin_with(Status::Active);
            let (owner, start) =
                if self.chance(50) { self.start(coin) } else { self.start_deposit(coin) };
            if starts.is_empty() || self.chance(50) {
                sender = owner;
            }
            starts.push(start);
        }
        (sender, self.bond(count), Call::StartExits(starts))
    }

    fn cancel(&mut self) -> (Address, U256, Call) {
        let coin = self.contested();
        let (id, exit) = self.exit(coin);
        let sender = match exit {
            Some(exit) if self.chance(40) => exit.payer,
            Some(exit) if self.keys.contains_key(&exit.beneficiary) && self.chance(70) => {
                exit.beneficiary
            }
            _ => self.person(),
        };
        (sender, U256::ZERO, Call::CancelExit { coin, exit: id })
    }

    fn withdraw_many(&mut self) -> (Address, U256, Call) {
        let first = self.coin_with(Status::Exited);
        let sender = self.winner(first);
        let mut coins = vec![first];
        let last = self.referee.model.last_coin();
        for coin in last.saturating_sub(30)..=last {
            let exited = self.referee.model.coin(coin).status() == Status::Exited;
            if coin != first && exited && self.winner(coin) == sender && coins.len() < 4 {
                coins.push(coin);
            }
        }
        let to = self.recipient();
        (sender, U256::ZERO, Call::WithdrawMany { coins, to })
    }

    /// The one whom an exited coin belongs to, mostly.
    fn winner(&mut self, coin: CoinId) -> Address {
        let winner = self.referee.model.coin(coin).winner;
        match winner.map(|id| self.referee.model.exit(id).beneficiary) {
            Some(owner) if self.keys.contains_key(&owner) && self.chance(90) => owner,
            _ => self.person(),
        }
    }

    fn recipient(&mut self) -> Address {
        match self.rng.random_range(0..20) {
            0 => Address::ZERO,
            1 => self.domain.root_chain,
            2 => self.refusing,
            _ => self.person(),
        }
    }
}
