//! The exit game as a pure state machine, written from `exit-game.md` and not from the contract.
//!
//! A call is judged against the whole state and either changes it or is refused by name; what is
//! refused changes nothing. Inclusion needs no tree walk here: the model knows every block's
//! leaves, and a proof has exactly one encoding, so the right proof is the one it computes itself.
//! `Child` is plasma-core's.

use std::collections::{BTreeMap, BTreeSet};

use plasma_core::block::{chain_hash, chain_hash_genesis};
use plasma_core::certificate::attestation_digest;
use plasma_core::coin::{CoinState, DEPOSIT_COINS_MAX, Deposit, asset};
use plasma_core::domain::Domain;
use plasma_core::event::{RootEvent, event_hash};
use plasma_core::exit::authorization_digest;
use plasma_core::signature::Signature;
use plasma_core::smt::prove;
use plasma_core::transfer::{ChildError, SignedTransfer};
use plasma_core::validators::ValidatorSet;
use plasma_core::{Address, B256, BlockNumber, CoinId, U256};

use super::calls::{Call, Consent, ExitStart, PlasmaBlock, Refusal, Shown, Submission, Tx};

/// Most roots of one submission (protocol.md section 4).
const ROOTS_MAX: usize = 512;

/// What the contract's constructor fixes.
#[derive(Debug, Clone, Copy)]
pub struct Params {
    /// Wc: seconds that an exit stays open.
    pub exit_period_s: u64,
    /// Wx: seconds that a coin is held after its oldest exit was refuted.
    pub hold_period_s: u64,
    /// Wei that an exit puts up.
    pub bond: u128,
    /// Share of a lost bond that is burned, in 1/10,000.
    pub burn_bps: u16,
}

/// The rules that tests switch off one by one, to show that a game without them is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Refuting the oldest exit holds the coin.
    pub hold: bool,
    /// Each exit has its own period; else the coin's first open exit starts it for all.
    pub period_per_exit: bool,
    /// Age by the parent's block; else by the exiting transfer's own.
    pub age_by_parent: bool,
    /// A parent must be above the deposit block.
    pub parent_after_deposit: bool,
    /// `challengeSpent` exists.
    pub spent: bool,
    /// `challengeDoubleSpend` exists.
    pub double_spend: bool,
    /// `challengeSpent` takes a second inclusion of the exiting transfer.
    pub any_inclusion: bool,
    /// A transfer is no double spend of itself.
    pub other_by_hash: bool,
    /// A child carries the owner's signature.
    pub signature: bool,
    /// A child names the state that it spends.
    pub link: bool,
    /// A transfer is void above its maxBlock.
    pub expiry: bool,
    /// Only a coin's only exit can be cancelled.
    pub cancel_alone: bool,
}

impl Rules {
    /// The game as it is.
    pub const ALL: Self = Self {
        hold: true,
        period_per_exit: true,
        age_by_parent: true,
        parent_after_deposit: true,
        spent: true,
        double_spend: true,
        any_inclusion: true,
        other_by_hash: true,
        signature: true,
        link: true,
        expiry: true,
        cancel_alone: true,
    };

    /// The games that lack exactly one rule, with its name.
    pub fn each_dropped() -> [(&'static str, Self); 12] {
        let all = Self::ALL;
        [
            ("hold", Self { hold: false, ..all }),
            ("period_per_exit", Self { period_per_exit: false, ..all }),
            ("age_by_parent", Self { age_by_parent: false, ..all }),
            ("parent_after_deposit", Self { parent_after_deposit: false, ..all }),
            ("spent", Self { spent: false, ..all }),
            ("double_spend", Self { double_spend: false, ..all }),
            ("any_inclusion", Self { any_inclusion: false, ..all }),
            ("other_by_hash", Self { other_by_hash: false, ..all }),
            ("signature", Self { signature: false, ..all }),
            ("link", Self { link: false, ..all }),
            ("expiry", Self { expiry: false, ..all }),
            ("cancel_alone", Self { cancel_alone: false, ..all }),
        ]
    }
}

/// Where a coin stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// In the game.
    Active,
    /// Won by an exit, not paid yet.
    Exited,
    /// Paid.
    Withdrawn,
}

/// What became of an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitState {
    /// Its bond is held.
    Open,
    /// Refuted, cancelled or swept.
    Closed,
    /// Got the coin.
    Won,
}

/// An exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The coin.
    pub coin: CoinId,
    /// The parent's block p; the deposit block for an exit of the deposit itself.
    pub parent_block: BlockNumber,
    /// The exiting transfer's block k; 0 for an exit of the deposit itself.
    pub block: BlockNumber,
    /// Hash of the exiting state.
    pub hash: B256,
    /// Hash and owner of the parent; zero for an exit of the deposit itself.
    pub parent: (B256, Address),
    /// Who is paid if it wins.
    pub beneficiary: Address,
    /// Who put up the bond.
    pub payer: Address,
    /// The bond.
    pub bond: U256,
    /// Unix seconds.
    pub opened_at: u64,
    /// What became of it.
    pub state: ExitState,
}

/// A coin's game; absent until its first exit, which is the same as `default`.
#[derive(Debug, Clone, Default)]
pub struct CoinGame {
    /// None while active.
    pub winner: Option<u64>,
    /// Whether the winner was paid.
    pub withdrawn: bool,
    /// Recorded by the first exit.
    pub deposit_id: u64,
    /// No finalization up to this time.
    pub hold_until: u64,
    /// Open exits, oldest first; after finalization those that wait to be swept.
    pub open: Vec<u64>,
}

impl CoinGame {
    /// Where the coin stands.
    pub fn status(&self) -> Status {
        match (self.winner, self.withdrawn) {
            (None, _) => Status::Active,
            (Some(_), false) => Status::Exited,
            (Some(_), true) => Status::Withdrawn,
        }
    }
}

/// The whole game.
#[derive(Debug, Clone)]
pub struct Model {
    /// Domain of every hash and signature.
    pub domain: Domain,
    /// The constructor's parameters.
    pub params: Params,
    /// Which rules are in force.
    pub rules: Rules,
    /// Who certifies roots.
    pub validators: ValidatorSet,
    /// Receivers that refuse ether.
    pub refusing: BTreeSet<Address>,
    /// Time of the call in progress, Unix seconds.
    pub now: u64,
    /// Records, ascending; ids count from 1.
    pub deposits: Vec<Deposit>,
    /// Stored blocks; numbers count from 1.
    pub blocks: Vec<PlasmaBlock>,
    /// Chain hash after the last block.
    pub chain_hash: B256,
    /// Coins that have been in an exit.
    pub coins: BTreeMap<CoinId, CoinGame>,
    /// Exits of all coins; ids count from 1.
    pub exits: Vec<Exit>,
    /// `(coin, p, k)` of every exit that was not cancelled.
    pub used: BTreeSet<(CoinId, BlockNumber, BlockNumber)>,
    /// Bonds and rewards to pull.
    pub credits: BTreeMap<Address, U256>,
    /// Wei burned.
    pub burned: U256,
    /// Wei that the contract holds.
    pub balance: U256,
    /// Wei received minus wei sent, of everybody who took part.
    pub purses: BTreeMap<Address, i128>,
    /// Length and hash of the event queue.
    pub queue: (u64, B256),
}

type Judged = Result<(), Refusal>;

impl Model {
    /// The game before its first call.
    pub fn new(domain: Domain, params: Params, validators: ValidatorSet) -> Self {
        Self {
            domain,
            params,
            rules: Rules::ALL,
            validators,
            refusing: BTreeSet::new(),
            now: 0,
            deposits: Vec::new(),
            blocks: Vec::new(),
            chain_hash: chain_hash_genesis(&domain),
            coins: BTreeMap::new(),
            exits: Vec::new(),
            used: BTreeSet::new(),
            credits: BTreeMap::new(),
            burned: U256::ZERO,
            balance: U256::ZERO,
            purses: BTreeMap::new(),
            queue: (0, B256::ZERO),
        }
    }

    /// Plays one transaction; a refused one changes nothing but the time.
    pub fn play(&mut self, tx: &Tx) -> Judged {
        self.now = tx.time;
        match &tx.call {
            // All or nothing.
            Call::StartExits(_) | Call::WithdrawMany { .. } => {
                let mut tried = self.clone();
                tried.judge(tx)?;
                *self = tried;
            }
            _ => self.judge(tx)?,
        }
        self.balance += tx.value;
        *self.purses.entry(tx.sender).or_default() -= wei(tx.value);
        Ok(())
    }

    fn judge(&mut self, tx: &Tx) -> Judged {
        let (sender, bond) = (tx.sender, U256::from(self.params.bond));
        match &tx.call {
            Call::DepositEth { value, count } => self.deposit(sender, *value, *count, tx.value),
            Call::SubmitBlocks(submission) => self.submit(submission),
            Call::StartExit(start) => self.start(sender, start, tx.value == bond),
            Call::StartDepositExit(start) => self.start_deposit(sender, start, tx.value == bond),
            Call::StartExits(starts) => self.start_many(sender, starts, tx.value),
            Call::ChallengeSpent { coin, exit, spend, at, proof } => {
                self.challenge_spent(sender, *coin, *exit, spend, (*at, proof))
            }
            Call::ChallengeDoubleSpend { coin, exit, other } => {
                self.challenge_double_spend(sender, *coin, *exit, other)
            }
            Call::FinalizeExit { coin } => self.finalizable(*coin).map(|()| self.finalize(*coin)),
            Call::FinalizeExits { coins } => {
                for coin in coins {
                    if self.finalizable(*coin).is_ok() {
                        self.finalize(*coin);
                    }
                }
                Ok(())
            }
            Call::SweepExit { coin, exit } => self.sweep(*coin, *exit),
            Call::CancelExit { coin, exit } => self.cancel(sender, *coin, *exit),
            Call::Withdraw { coin, to } => self.withdraw(sender, *coin, *to),
            Call::WithdrawMany { coins, to } => {
                coins.iter().try_for_each(|coin| self.withdraw(sender, *coin, *to))
            }
            Call::WithdrawCredits { to } => self.withdraw_credits(sender, *to),
        }
    }

    // --- what is read ---------------------------------------------------------------------------

    /// A coin's game.
    pub fn coin(&self, coin: CoinId) -> CoinGame {
        self.coins.get(&coin).cloned().unwrap_or_default()
    }

    /// An exit by its id.
    ///
    /// # Panics
    /// If there is none.
    pub fn exit(&self, id: u64) -> &Exit {
        &self.exits[id as usize - 1]
    }

    /// The deposit that made a coin.
    pub fn deposit_of(&self, coin: CoinId) -> Option<&Deposit> {
        self.deposits.iter().find(|deposit| deposit.contains(coin))
    }

    /// State 0 of a coin of this deposit.
    pub fn deposit_state(&self, coin: CoinId, deposit: &Deposit) -> CoinState {
        deposit.state(coin, &self.domain)
    }

    /// Number of the last stored block.
    pub fn last_block(&self) -> BlockNumber {
        self.blocks.len() as BlockNumber
    }

    /// Number of the last coin.
    pub fn last_coin(&self) -> CoinId {
        self.deposits.last().map_or(0, |d| d.first_coin + u64::from(d.count) - 1)
    }

    /// Age of an exit; smaller is older.
    fn age(&self, exit: &Exit) -> (BlockNumber, BlockNumber) {
        if self.rules.age_by_parent {
            return (exit.parent_block, exit.block);
        }
        let own = if exit.block == 0 { exit.parent_block } else { exit.block };
        (own, exit.parent_block)
    }

    /// Whether the coin could be finalized now.
    pub fn finalizable(&self, coin: CoinId) -> Judged {
        let game = self.coin(coin);
        if game.winner.is_some() {
            return Err(Refusal::NotActive);
        }
        let oldest = *game.open.first().ok_or(Refusal::NoExit)?;
        let opened = if self.rules.period_per_exit {
            self.exit(oldest).opened_at
        } else {
            game.open.iter().map(|id| self.exit(*id).opened_at).min().unwrap_or(0)
        };
        if self.now <= opened + self.params.exit_period_s {
            return Err(Refusal::TooEarly);
        }
        if self.now <= game.hold_until { Err(Refusal::OnHold) } else { Ok(()) }
    }

    // --- deposits and roots ---------------------------------------------------------------------

    fn deposit(&mut self, owner: Address, value: U256, count: u16, paid: U256) -> Judged {
        if count == 0 || count > DEPOSIT_COINS_MAX {
            return Err(Refusal::BadCount);
        }
        if value.is_zero() {
            return Err(Refusal::ZeroValue);
        }
        if value.checked_mul(U256::from(count)) != Some(paid) {
            return Err(Refusal::WrongAmount);
        }
        let deposit = Deposit {
            deposit_id: self.deposits.len() as u64 + 1,
            first_coin: self.last_coin() + 1,
            count,
            owner,
            asset_kind: asset::ETH,
            token: Address::ZERO,
            token_id: U256::ZERO,
            value,
            deposit_block: self.last_block(),
        };
        self.deposits.push(deposit);
        self.queue(RootEvent::Deposited(deposit));
        Ok(())
    }

    fn submit(&mut self, submission: &Submission) -> Judged {
        let Submission { first, blocks, set, bitmap, signatures } = submission;
        if *first != self.last_block() + 1 {
            return Err(Refusal::NotNext);
        }
        if blocks.is_empty() {
            return Err(Refusal::NoRoots);
        }
        if blocks.len() > ROOTS_MAX {
            return Err(Refusal::TooManyRoots);
        }
        if blocks.iter().any(|block| block.root.is_zero()) {
            return Err(Refusal::ZeroRoot);
        }
        if *set != self.validators.encode() {
            return Err(Refusal::WrongSet);
        }
        let chain = (*first..)
            .zip(blocks)
            .fold(self.chain_hash, |hash, (number, block)| chain_hash(hash, number, block.root));
        let last = self.last_block() + blocks.len() as u64;
        let digest = attestation_digest(&self.domain, last, chain, self.validators.id());
        self.certified(digest, bitmap, signatures)?;
        self.blocks.extend(blocks.iter().cloned());
        self.chain_hash = chain;
        Ok(())
    }

    fn certified(&self, digest: B256, bitmap: &[u8], signatures: &[u8]) -> Judged {
        let validators = self.validators.validators();
        let bit = |i: usize| bitmap[i / 8] >> (i % 8) & 1 == 1;
        if bitmap.len() != validators.len().div_ceil(8)
            || (validators.len()..bitmap.len() * 8).any(bit)
        {
            return Err(Refusal::BadBitmap);
        }
        let signed: Vec<_> = (0..validators.len()).filter(|i| bit(*i)).collect();
        if signatures.len() != 64 * signed.len() {
            return Err(Refusal::BadSignatures);
        }
        let mut power = 0;
        for (i, bytes) in signed.iter().zip(signatures.chunks(64)) {
            // It may stop once the quorum is reached, so what follows is not looked at.
            if self.validators.is_quorum(power) {
                break;
            }
            if signature(bytes).recover(digest).ok() != Some(validators[*i].root_key) {
                return Err(Refusal::BadSignatures);
            }
            power += u128::from(validators[*i].power);
        }
        if self.validators.is_quorum(power) { Ok(()) } else { Err(Refusal::NotEnoughPower) }
    }

    fn queue(&mut self, event: RootEvent) {
        let (count, hash) = self.queue;
        self.queue = (count + 1, event_hash(hash, &event.encode()));
    }

    // --- opening exits --------------------------------------------------------------------------

    fn start_many(&mut self, sender: Address, starts: &[ExitStart], value: U256) -> Judged {
        let paid = value == U256::from(starts.len()) * U256::from(self.params.bond);
        if starts.is_empty() && !paid {
            return Err(Refusal::WrongBond);
        }
        starts.iter().try_for_each(|start| match start.transfer.block {
            0 => self.start_deposit(sender, start, paid),
            _ => self.start(sender, start, paid),
        })
    }

    /// The deposit of an active coin, by the id that the caller names.
    fn active_deposit(&self, coin: CoinId, deposit_id: u64) -> Result<Deposit, Refusal> {
        if self.coin(coin).winner.is_some() {
            return Err(Refusal::NotActive);
        }
        let index = usize::try_from(deposit_id).ok().and_then(|id| id.checked_sub(1));
        let deposit = index.and_then(|index| self.deposits.get(index));
        deposit.filter(|d| d.contains(coin)).copied().ok_or(Refusal::WrongDeposit)
    }

    fn start(&mut self, sender: Address, start: &ExitStart, paid: bool) -> Judged {
        let coin = start.coin;
        let deposit = self.active_deposit(coin, start.deposit_id)?;
        let mut parent = self.deposit_state(coin, &deposit);
        if start.parent.block != 0 {
            self.included(coin, &start.parent)?;
            if start.parent.transfer.coin != coin {
                return Err(Refusal::WrongCoin);
            }
            if start.parent.block <= deposit.deposit_block && self.rules.parent_after_deposit {
                return Err(Refusal::BeforeDeposit);
            }
            parent = start.parent.state(&self.domain);
        }
        if start.transfer.block <= parent.block {
            return Err(Refusal::NotAfterParent);
        }
        self.included(coin, &start.transfer)?;
        let exiting = self.child(&start.transfer, &parent)?;
        let exit = Exit {
            parent: (parent.hash, parent.owner),
            ..self.opening(sender, (parent.block, exiting.block), &exiting)
        };
        self.open(start, exit, paid)
    }

    fn start_deposit(&mut self, sender: Address, start: &ExitStart, paid: bool) -> Judged {
        let deposit = self.active_deposit(start.coin, start.deposit_id)?;
        let exiting = self.deposit_state(start.coin, &deposit);
        let exit = self.opening(sender, (deposit.deposit_block, 0), &exiting);
        self.open(start, exit, paid)
    }

    /// The exit of `exiting`, before its parent is filled in.
    fn opening(
        &self,
        payer: Address,
        (parent_block, block): (BlockNumber, BlockNumber),
        exiting: &CoinState,
    ) -> Exit {
        Exit {
            coin: exiting.coin,
            parent_block,
            block,
            hash: exiting.hash,
            parent: (B256::ZERO, Address::ZERO),
            beneficiary: exiting.owner,
            payer,
            bond: U256::from(self.params.bond),
            opened_at: self.now,
            state: ExitState::Open,
        }
    }

    fn open(&mut self, start: &ExitStart, exit: Exit, paid: bool) -> Judged {
        if exit.payer != exit.beneficiary {
            self.authorized(&exit, &start.consent)?;
        }
        let key = (exit.coin, exit.parent_block, exit.block);
        if self.used.contains(&key) {
            return Err(Refusal::ExitExists);
        }
        if !paid {
            return Err(Refusal::WrongBond);
        }
        self.used.insert(key);
        self.exits.push(exit);
        let id = self.exits.len() as u64;
        let game = self.coin(exit.coin);
        // The hint only shortens the walk: ages differ, so there is one place.
        let place =
            game.open.partition_point(|other| self.age(self.exit(*other)) < self.age(&exit));
        let game = self.coins.entry(exit.coin).or_default();
        game.open.insert(place, id);
        game.deposit_id = start.deposit_id;
        self.queue(RootEvent::ExitStarted(exit.coin));
        Ok(())
    }

    fn authorized(&self, exit: &Exit, consent: &Consent) -> Judged {
        if consent.signature.is_empty() || self.now > consent.not_after {
            return Err(Refusal::NotAuthorised);
        }
        let digest = authorization_digest(&self.domain, exit.coin, exit.hash, consent.not_after);
        match signature(&consent.signature).recover(digest) {
            Err(_) => Err(Refusal::BadSignature),
            Ok(signer) if signer == exit.beneficiary => Ok(()),
            Ok(_) => Err(Refusal::NotAuthorised),
        }
    }

    // --- challenges -----------------------------------------------------------------------------

    /// An open exit of an active coin.
    fn open_exit(&self, coin: CoinId, id: u64) -> Result<Exit, Refusal> {
        if self.coin(coin).winner.is_some() {
            return Err(Refusal::NotActive);
        }
        self.still_open(coin, id)
    }

    fn still_open(&self, coin: CoinId, id: u64) -> Result<Exit, Refusal> {
        let index = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        let exit = index.and_then(|index| self.exits.get(index)).filter(|e| e.coin == coin);
        match exit {
            None => Err(Refusal::NoExit),
            Some(exit) if exit.state != ExitState::Open => Err(Refusal::ExitClosed),
            Some(exit) => Ok(*exit),
        }
    }

    fn challenge_spent(
        &mut self,
        sender: Address,
        coin: CoinId,
        id: u64,
        spend: &Shown,
        (at, proof): (BlockNumber, &[u8]),
    ) -> Judged {
        let exit = self.open_exit(coin, id)?;
        let of_deposit = exit.block == 0;
        let block = if of_deposit { exit.parent_block } else { exit.block };
        let mut spent = CoinState { coin, owner: exit.beneficiary, block, hash: exit.hash };
        if at != 0 {
            let again = !of_deposit
                && at > exit.parent_block
                && self.in_block(at, coin, exit.hash, proof)
                && self.rules.any_inclusion;
            if !again {
                return Err(Refusal::NotSameTransfer);
            }
            spent.block = at;
        }
        self.included(coin, spend)?;
        self.child(spend, &spent)?;
        if !self.rules.spent {
            return Err(Refusal::NotChild);
        }
        self.refute(sender, coin, id);
        Ok(())
    }

    fn challenge_double_spend(
        &mut self,
        sender: Address,
        coin: CoinId,
        id: u64,
        other: &Shown,
    ) -> Judged {
        let exit = self.open_exit(coin, id)?;
        if exit.block == 0 {
            return Err(Refusal::DepositExit);
        }
        let hash = self.included(coin, other)?;
        if hash == exit.hash && self.rules.other_by_hash {
            return Err(Refusal::SameTransfer);
        }
        let (hash, owner) = exit.parent;
        self.child(other, &CoinState { coin, owner, block: exit.parent_block, hash })?;
        if other.block >= exit.block || !self.rules.double_spend {
            return Err(Refusal::NotBefore);
        }
        self.refute(sender, coin, id);
        Ok(())
    }

    fn refute(&mut self, challenger: Address, coin: CoinId, id: u64) {
        if self.coin(coin).open.first() == Some(&id) && self.rules.hold {
            let hold = self.now + self.params.hold_period_s;
            let game = self.coins.entry(coin).or_default();
            game.hold_until = game.hold_until.max(hold);
        }
        self.lose_bond(id, challenger);
        self.remove(coin, id);
    }

    /// Takes an open exit off an active coin, which thaws with its last one.
    fn remove(&mut self, coin: CoinId, id: u64) {
        self.exits[id as usize - 1].state = ExitState::Closed;
        let game = self.coins.entry(coin).or_default();
        game.open.retain(|other| *other != id);
        if game.open.is_empty() {
            self.queue(RootEvent::Thawed(coin));
        }
    }

    fn credit(&mut self, to: Address, amount: U256) {
        *self.credits.entry(to).or_default() += amount;
    }

    fn lose_bond(&mut self, id: u64, to: Address) {
        let bond = self.exit(id).bond;
        let burn = bond * U256::from(self.params.burn_bps) / U256::from(10_000);
        self.burned += burn;
        self.credit(to, bond - burn);
    }

    // --- ending exits ---------------------------------------------------------------------------

    fn finalize(&mut self, coin: CoinId) {
        let game = self.coins.entry(coin).or_default();
        let id = game.open.remove(0);
        game.winner = Some(id);
        self.exits[id as usize - 1].state = ExitState::Won;
        let Exit { payer, bond, .. } = *self.exit(id);
        self.credit(payer, bond);
        self.queue(RootEvent::ExitFinalized(coin));
    }

    fn sweep(&mut self, coin: CoinId, id: u64) -> Judged {
        let winner = *self.exit(self.coin(coin).winner.ok_or(Refusal::NotExited)?);
        let exit = self.still_open(coin, id)?;
        if exit.beneficiary == winner.beneficiary {
            self.credit(exit.payer, exit.bond);
        } else {
            self.lose_bond(id, winner.payer);
        }
        self.exits[id as usize - 1].state = ExitState::Closed;
        self.coins.entry(coin).or_default().open.retain(|other| *other != id);
        Ok(())
    }

    fn cancel(&mut self, sender: Address, coin: CoinId, id: u64) -> Judged {
        let exit = self.open_exit(coin, id)?;
        if sender != exit.beneficiary && sender != exit.payer {
            return Err(Refusal::NotAuthorised);
        }
        if self.coin(coin).open.len() > 1 && self.rules.cancel_alone {
            return Err(Refusal::OtherExitsOpen);
        }
        self.used.remove(&(coin, exit.parent_block, exit.block));
        self.lose_bond(id, exit.payer);
        self.remove(coin, id);
        Ok(())
    }

    fn withdraw(&mut self, sender: Address, coin: CoinId, to: Address) -> Judged {
        let game = self.coin(coin);
        if game.withdrawn {
            return Err(Refusal::AlreadyWithdrawn);
        }
        let winner = game.winner.ok_or(Refusal::NotExited)?;
        if sender != self.exit(winner).beneficiary {
            return Err(Refusal::NotBeneficiary);
        }
        // INVARIANT: only a coin of a deposit can have been exited.
        let value = self.deposits[game.deposit_id as usize - 1].value;
        self.pay(to, value)?;
        self.coins.entry(coin).or_default().withdrawn = true;
        Ok(())
    }

    fn withdraw_credits(&mut self, sender: Address, to: Address) -> Judged {
        self.recipient(to)?;
        let amount = self.credits.get(&sender).copied().unwrap_or_default();
        if amount.is_zero() {
            return Err(Refusal::NoCredits);
        }
        self.pay(to, amount)?;
        self.credits.remove(&sender);
        Ok(())
    }

    fn recipient(&self, to: Address) -> Judged {
        if to == Address::ZERO || to == self.domain.root_chain {
            return Err(Refusal::BadRecipient);
        }
        Ok(())
    }

    fn pay(&mut self, to: Address, amount: U256) -> Judged {
        self.recipient(to)?;
        if self.refusing.contains(&to) {
            return Err(Refusal::EthTransferFailed);
        }
        self.balance -= amount;
        *self.purses.entry(to).or_default() += wei(amount);
        Ok(())
    }

    // --- inclusion and Child --------------------------------------------------------------------

    /// Whether the stored block's leaf at `coin` is `hash` and this is its proof.
    fn in_block(&self, block: BlockNumber, coin: CoinId, hash: B256, proof: &[u8]) -> bool {
        let index = usize::try_from(block).ok().and_then(|block| block.checked_sub(1));
        let Some(block) = index.and_then(|index| self.blocks.get(index)) else { return false };
        let leaf = block.leaves.iter().find(|leaf| leaf.coin == coin);
        leaf.is_some_and(|leaf| leaf.hash == hash) && prove(&block.leaves, coin).encode() == proof
    }

    /// The hash of a transfer that is included at `coin`.
    fn included(&self, coin: CoinId, shown: &Shown) -> Result<B256, Refusal> {
        let hash = shown.transfer.digest(&self.domain);
        let found = self.in_block(shown.block, coin, hash, &shown.proof);
        found.then_some(hash).ok_or(Refusal::NotIncluded)
    }

    /// The state that `shown` makes out of `spent`.
    pub fn child(&self, shown: &Shown, spent: &CoinState) -> Result<CoinState, Refusal> {
        let t = shown.transfer;
        let mut spent = *spent;
        if !self.rules.link {
            (spent.block, spent.hash) = (t.prev_block, t.prev_hash);
        }
        let signed = SignedTransfer { transfer: t, signature: signature(&shown.signature) };
        match signed.child_of(&spent, shown.block, &self.domain) {
            Ok(state) => Ok(state),
            Err(ChildError::Expired { .. }) if !self.rules.expiry => Ok(shown.state(&self.domain)),
            Err(ChildError::BadSignature)
                if !self.rules.signature
                    && spent.block < shown.block
                    && shown.block <= t.max_block =>
            {
                Ok(shown.state(&self.domain))
            }
            Err(error) => Err(match error {
                ChildError::WrongCoin { .. } => Refusal::WrongCoin,
                ChildError::NotChild => Refusal::NotChild,
                ChildError::BadSignature => Refusal::BadSignature,
                ChildError::NotAfterParent { .. } => Refusal::NotAfterParent,
                ChildError::Expired { .. } => Refusal::Expired,
            }),
        }
    }
}

/// A signature of any length: a wrong one is as malformed as zeros.
fn signature(bytes: &[u8]) -> Signature {
    bytes.try_into().map_or(Signature::ZERO, Signature)
}

/// Sums of tests are far below 2^127.
fn wei(amount: U256) -> i128 {
    i128::try_from(amount).unwrap()
}
