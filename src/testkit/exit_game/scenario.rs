//! Plays scenario files (`formats.md`, "Scenario files") on the real contract.
//!
//! A file is one JSON object; an unknown field anywhere is an error. Each scenario gets a contract
//! of its own: the blocks up to `deposit.pos`, a deposit of one coin, the other blocks, then the
//! actions in order, and the final state. One unit of a bond is one wei; the coin is worth so much
//! more that it and the bonds can be told apart in a balance.

use std::collections::{BTreeMap, BTreeSet};

use plasma_core::coin::{CoinState, Deposit, asset};
use plasma_core::domain::Domain;
use plasma_core::signature::{Signature, SigningKey};
use plasma_core::smt::{Leaf, prove};
use plasma_core::transfer::Transfer;
use plasma_core::{Address, B256, BlockNumber, CoinId, U256};
use revm::primitives::keccak256;
use serde::Deserialize;
use serde_json::Value;

use super::calls::{Call, Consent, ExitStart, PlasmaBlock, Shown, Tx};
use super::contract::{CHAIN_ID, Contract, PURSE, RootChain};
use super::model::Params;

/// Unix time of second 0 of a scenario.
const ORIGIN: i64 = 1_800_000_000;
/// Wei of the coin.
const COIN_WEI: i128 = 1_000_000_000_000_000_000;
/// The coin of every scenario: its contract's first.
const COIN: CoinId = 1;
/// Whose leaf stands in blocks without one of the coin.
const OTHER_COIN: CoinId = 1_000;

/// Why a file cannot be played at all.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not JSON, a field missing, unknown or of the wrong type.
    #[error("not a scenario file: {0}")]
    Json(#[from] serde_json::Error),
    /// Another format.
    #[error("version {0}, but only 1 is known")]
    Version(u64),
    /// Nothing in it.
    #[error("no scenario")]
    Empty,
    /// The burned share is no number of basis points of the bond.
    #[error("{burned} of a bond of {bond} is no whole number of 1/10,000")]
    Burned {
        /// Units of the bond.
        bond: u128,
        /// Units burned.
        burned: u128,
    },
    /// A call or its arguments are not of the format.
    #[error("scenario {id}, action {action}: {reason}")]
    Action {
        /// The scenario.
        id: String,
        /// Place of the action, from 0.
        action: usize,
        /// What is wrong.
        reason: String,
    },
    /// Leaves that spend each other.
    #[error("scenario {id}: the leaf of block {block} descends from itself")]
    Cycle {
        /// The scenario.
        id: String,
        /// The block.
        block: BlockNumber,
    },
}

/// What one scenario came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its id and title.
    pub name: String,
    /// Everything that was not as expected; empty: passed.
    pub deviations: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u64,
    params: FileParams,
    #[serde(default, rename = "notes")]
    _notes: Option<String>,
    scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileParams {
    exit_period_s: u64,
    hold_period_s: u64,
    bond: u128,
    burned: u128,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    id: String,
    #[serde(default)]
    title: String,
    deposit: ScenarioDeposit,
    blocks: Vec<ScenarioBlock>,
    /// Off-chain: read for its shape only.
    #[serde(default, rename = "known_to")]
    _known_to: BTreeMap<String, Vec<Block>>,
    actions: Vec<Action>,
    expected_final: Final,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioDeposit {
    owner: String,
    pos: BlockNumber,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioBlock {
    number: BlockNumber,
    leaf: Option<ScenarioLeaf>,
}

/// A block by its number, or all of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Block {
    Number(#[expect(dead_code, reason = "off-chain")] BlockNumber),
    Word(All),
}

#[derive(Deserialize)]
enum All {
    #[serde(rename = "ALL")]
    All,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioLeaf {
    from_state: Option<BlockNumber>,
    to: String,
    signed_by: Option<String>,
    #[serde(default)]
    garbage: bool,
    max_block: BlockNumber,
    tx: String,
    #[serde(default)]
    other_coin: bool,
    /// Absent, null or false: ours. Anything else names a foreign one.
    #[serde(default)]
    domain: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Action {
    time: i64,
    actor: String,
    call: String,
    args: Value,
    expect: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Final {
    status: String,
    paid_to: Option<String>,
    bond_delta: BTreeMap<String, i128>,
    burned: u128,
    hold_until: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartArgs {
    parent: Option<BlockNumber>,
    transfer: Option<BlockNumber>,
    auth_by: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpentArgs {
    exit: u64,
    spend: BlockNumber,
    included_at: Option<BlockNumber>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DoubleSpendArgs {
    exit: u64,
    other: BlockNumber,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExitArgs {
    exit: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArgs {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithdrawArgs {
    to: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevealArgs {
    #[serde(rename = "to")]
    _to: Vec<String>,
    #[serde(rename = "blocks")]
    _blocks: Vec<Block>,
}

/// Plays every scenario of a file.
///
/// # Errors
/// If the text is not of the format; a deviation is no error but part of the report.
pub fn play_file(text: &str) -> Result<Vec<Report>, FileError> {
    let file: File = serde_json::from_str(text)?;
    if file.version != 1 {
        return Err(FileError::Version(file.version));
    }
    if file.scenarios.is_empty() {
        return Err(FileError::Empty);
    }
    let FileParams { exit_period_s, hold_period_s, bond, burned } = file.params;
    let bps = burned.checked_mul(10_000).filter(|_| bond > 0);
    let bps = bps.filter(|sum| sum % bond == 0).and_then(|sum| u16::try_from(sum / bond).ok());
    let burn_bps = bps.filter(|bps| *bps <= 10_000).ok_or(FileError::Burned { bond, burned })?;
    let params = Params { exit_period_s, hold_period_s, bond, burn_bps };
    file.scenarios.iter().map(|scenario| play(scenario, params)).collect()
}

fn play(scenario: &Scenario, params: Params) -> Result<Report, FileError> {
    let mut stage = Stage::new(scenario, params)?;
    for (action, played) in scenario.actions.iter().enumerate() {
        stage.act(action, played).map_err(|reason| FileError::Action {
            id: scenario.id.clone(),
            action,
            reason,
        })?;
    }
    stage.compare(&scenario.expected_final);
    let name = format!("{} {}", scenario.id, scenario.title);
    Ok(Report { name, deviations: stage.deviations })
}

fn signer(name: &str) -> SigningKey {
    SigningKey::from_bytes(keccak256(name).0).unwrap()
}

fn address(name: &str) -> Address {
    signer(name).address()
}

/// A scenario being played.
struct Stage {
    contract: Contract,
    params: Params,
    deposit: CoinState,
    leaves: BTreeMap<BlockNumber, Shown>,
    /// Everybody whom the scenario names.
    names: BTreeSet<String>,
    time: i64,
    deviations: Vec<String>,
}

impl Stage {
    fn new(scenario: &Scenario, params: Params) -> Result<Self, FileError> {
        let mut contract = Contract::deploy(params);
        let names = names(scenario);
        for name in &names {
            contract.fund(address(name));
        }
        let ScenarioDeposit { owner, pos } = &scenario.deposit;
        let record = Deposit {
            deposit_id: 1,
            first_coin: COIN,
            count: 1,
            owner: address(owner),
            asset_kind: asset::ETH,
            token: Address::ZERO,
            token_id: U256::ZERO,
            value: U256::from(COIN_WEI),
            deposit_block: *pos,
        };
        let deposit = record.state(COIN, &contract.domain);
        let mut builder = Builder {
            scenario,
            domain: contract.domain,
            deposit,
            transfers: BTreeMap::new(),
            in_progress: BTreeSet::new(),
        };
        let listed = scenario.blocks.iter().map(|block| block.number).max().unwrap_or(0);
        let (blocks, leaves) = builder.blocks(listed.max(*pos))?;
        let start = ORIGIN.cast_unsigned() - 1;
        let (before, after) = blocks.split_at(usize::try_from(*pos).unwrap());
        store(&mut contract, start, before);
        let call = Call::DepositEth { value: record.value, count: 1 };
        let tx = Tx { time: start, sender: record.owner, value: record.value, call };
        contract.play(&tx).unwrap();
        store(&mut contract, start, after);
        let time = scenario.actions.first().map_or(0, |action| action.time);
        let deviations = Vec::new();
        Ok(Self { contract, params, deposit, leaves, names, time, deviations })
    }

    /// What is shown of a block: its leaf, or, where there is none, something well-formed that is
    /// not included.
    fn shown(&self, block: BlockNumber) -> Shown {
        if block == 0 {
            return Shown::none();
        }
        if let Some(shown) = self.leaves.get(&block) {
            return shown.clone();
        }
        let transfer = Transfer::spending(&self.deposit, address("nobody"), block);
        let mine = [Leaf { coin: COIN, hash: transfer.digest(&self.contract.domain) }];
        let proof = prove(&mine, COIN).encode();
        Shown { block, transfer, signature: Signature::ZERO.0.to_vec(), proof }
    }

    fn act(&mut self, action: usize, played: &Action) -> Result<(), String> {
        if played.time < self.time {
            return Err(format!("time {} after {}", played.time, self.time));
        }
        self.time = played.time;
        let answer = match self.call(played)? {
            // Off-chain.
            None => "ok".to_owned(),
            Some((value, call)) => {
                let time = u64::try_from(ORIGIN + played.time).map_err(|e| e.to_string())?;
                let tx = Tx { time, sender: address(&played.actor), value, call };
                self.contract.play(&tx).map_or_else(|name| name, |()| "ok".to_owned())
            }
        };
        if answer != played.expect {
            let Action { time, actor, call, expect, .. } = played;
            self.deviations.push(format!(
                "action {action}, {actor} calls {call} at {time}: {answer}, expected {expect}"
            ));
        }
        Ok(())
    }

    /// The contract's call and the wei with it; none for what happens off-chain.
    fn call(&self, played: &Action) -> Result<Option<(U256, Call)>, String> {
        fn args<'a, T: Deserialize<'a>>(played: &'a Action) -> Result<T, String> {
            T::deserialize(&played.args).map_err(|e| format!("{}: {e}", played.call))
        }
        // The contract counts exits from 1, the file from 0.
        let id = |exit: u64| exit.saturating_add(1);
        let coin = COIN;
        let call = match played.call.as_str() {
            "startExit" => {
                let call = self.start(&args(played)?)?;
                return Ok(Some((U256::from(self.params.bond), call)));
            }
            "challengeSpent" => {
                let SpentArgs { exit, spend, included_at } = args(played)?;
                let at = included_at.unwrap_or(0);
                let (spend, proof) = (self.shown(spend), self.shown(at).proof);
                Call::ChallengeSpent { coin, exit: id(exit), spend, at, proof }
            }
            "challengeDoubleSpend" => {
                let DoubleSpendArgs { exit, other } = args(played)?;
                let other = self.shown(other);
                Call::ChallengeDoubleSpend { coin, exit: id(exit), other }
            }
            "finalizeExit" => {
                let NoArgs {} = args(played)?;
                Call::FinalizeExit { coin }
            }
            "sweepExit" => {
                let ExitArgs { exit } = args(played)?;
                Call::SweepExit { coin, exit: id(exit) }
            }
            "cancelExit" => {
                let ExitArgs { exit } = args(played)?;
                Call::CancelExit { coin, exit: id(exit) }
            }
            "withdraw" => {
                let WithdrawArgs { to } = args(played)?;
                let to = address(to.as_ref().unwrap_or(&played.actor));
                Call::Withdraw { coin, to }
            }
            "reveal" => {
                let _: RevealArgs = args(played)?;
                return Ok(None);
            }
            other => return Err(format!("unknown call `{other}`")),
        };
        Ok(Some((U256::ZERO, call)))
    }

    fn start(&self, args: &StartArgs) -> Result<Call, String> {
        let mut start = ExitStart {
            coin: COIN,
            deposit_id: 1,
            parent: Shown::none(),
            transfer: Shown::none(),
            consent: Consent::default(),
            hint: 0,
        };
        let (hash, of_deposit) = match (args.parent, args.transfer) {
            (None, None) => (self.deposit.hash, true),
            (Some(parent), Some(transfer)) => {
                start.parent = self.shown(parent);
                start.transfer = self.shown(transfer);
                (start.transfer.transfer.digest(&self.contract.domain), false)
            }
            _ => return Err("parent and transfer are both numbers or both null".into()),
        };
        if let Some(name) = &args.auth_by {
            let domain = &self.contract.domain;
            start.consent = Consent::sign(COIN, hash, u64::MAX, &signer(name), domain);
        }
        Ok(if of_deposit { Call::StartDepositExit(start) } else { Call::StartExit(start) })
    }

    fn compare(&mut self, expected: &Final) {
        let slot = self.contract.coin(COIN);
        let status = ["Active", "Exited", "Withdrawn"][usize::from(slot.status)];
        self.check("status", status, expected.status.as_str());
        let hold = slot.holdUntil.cast_signed();
        self.check("hold_until", if hold == 0 { 0 } else { hold - ORIGIN }, expected.hold_until);
        let burned = self.contract.view(RootChain::burnedCall {});
        self.check("burned", burned, U256::from(expected.burned));
        let mut paid_to = Vec::new();
        for name in self.names.clone() {
            let (coins, bonds) = self.gained(&name);
            paid_to.extend((0..coins).map(|_| name.clone()));
            let wanted = expected.bond_delta.get(&name).copied().unwrap_or(0);
            self.check(&format!("bond_delta of {name}"), bonds, wanted);
        }
        let wanted: Vec<_> = expected.paid_to.iter().cloned().collect();
        self.check("paid_to", paid_to, wanted);
    }

    /// Coins paid to somebody, and what he gained in bonds, credits not yet pulled included.
    fn gained(&mut self, name: &str) -> (i128, i128) {
        let account = address(name);
        let credits = self.contract.view(RootChain::creditsCall { account });
        let owned = i128::try_from(self.contract.balance(account) + credits).unwrap();
        let mut gain = owned - PURSE.cast_signed();
        if account == self.deposit.owner {
            gain += COIN_WEI;
        }
        // Bonds are small beside the coin, on either side of it.
        let coins = (gain + COIN_WEI / 2).div_euclid(COIN_WEI);
        (coins, gain - coins * COIN_WEI)
    }

    fn check<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: T, expected: T) {
        if found != expected {
            self.deviations.push(format!("{what}: {found:?}, expected {expected:?}"));
        }
    }
}

fn store(contract: &mut Contract, time: u64, blocks: &[PlasmaBlock]) {
    // One transaction carries at most 512 roots.
    for some in blocks.chunks(512) {
        contract.submit(time, address("relayer"), some.to_vec());
    }
}

/// Everybody who acts, owns, is paid or signs.
fn names(scenario: &Scenario) -> BTreeSet<String> {
    let Final { paid_to, bond_delta, .. } = &scenario.expected_final;
    let leaves = scenario.blocks.iter().filter_map(|block| block.leaf.as_ref());
    let mut names: BTreeSet<String> = leaves
        .flat_map(|leaf| std::iter::once(&leaf.to).chain(&leaf.signed_by))
        .chain(scenario.actions.iter().map(|action| &action.actor))
        .chain(paid_to)
        .chain(bond_delta.keys())
        .cloned()
        .collect();
    names.insert(scenario.deposit.owner.clone());
    let to = scenario.actions.iter().filter_map(|action| action.args.get("to")?.as_str());
    names.extend(to.map(str::to_owned));
    names
}

/// Makes a scenario's blocks. A leaf may spend the leaf of a later block.
struct Builder<'a> {
    scenario: &'a Scenario,
    domain: Domain,
    deposit: CoinState,
    /// By `tx`: equal means the same signed transfer.
    transfers: BTreeMap<&'a str, (Transfer, Vec<u8>)>,
    in_progress: BTreeSet<&'a str>,
}

impl<'a> Builder<'a> {
    fn blocks(
        &mut self,
        last: BlockNumber,
    ) -> Result<(Vec<PlasmaBlock>, BTreeMap<BlockNumber, Shown>), FileError> {
        let (mut blocks, mut shown) = (Vec::new(), BTreeMap::new());
        for number in 1..=last {
            let Some(leaf) = self.leaf(number) else {
                let other = Leaf { coin: OTHER_COIN, hash: keccak256(number.to_be_bytes()) };
                blocks.push(PlasmaBlock::new(vec![other]));
                continue;
            };
            let (transfer, signature) = self.transfer(number, leaf)?;
            let own = Leaf { coin: COIN, hash: transfer.digest(&self.domain) };
            let block = PlasmaBlock::new(vec![own]);
            let proof = prove(&block.leaves, COIN).encode();
            shown.insert(number, Shown { block: number, transfer, signature, proof });
            blocks.push(block);
        }
        Ok((blocks, shown))
    }

    fn leaf(&self, number: BlockNumber) -> Option<&'a ScenarioLeaf> {
        let listed = self.scenario.blocks.iter().find(|block| block.number == number);
        listed.and_then(|block| block.leaf.as_ref())
    }

    fn transfer(
        &mut self,
        number: BlockNumber,
        leaf: &'a ScenarioLeaf,
    ) -> Result<(Transfer, Vec<u8>), FileError> {
        if let Some(same) = self.transfers.get(leaf.tx.as_str()) {
            return Ok(same.clone());
        }
        if !self.in_progress.insert(&leaf.tx) {
            let id = self.scenario.id.clone();
            return Err(FileError::Cycle { id, block: number });
        }
        let (prev_block, prev_hash) = self.spent(leaf)?;
        let transfer = Transfer {
            coin: if leaf.other_coin { COIN + 1 } else { COIN },
            prev_block,
            prev_hash,
            new_owner: address(&leaf.to),
            max_block: leaf.max_block,
        };
        let foreign = !matches!(leaf.domain, Value::Null | Value::Bool(false));
        let domain =
            if foreign { Domain::new(CHAIN_ID + 1, self.domain.root_chain) } else { self.domain };
        let signature = match &leaf.signed_by {
            Some(name) => signer(name).sign(transfer.digest(&domain)),
            None => Signature::ZERO,
        };
        let signed = (transfer, signature.0.to_vec());
        self.transfers.insert(&leaf.tx, signed.clone());
        Ok(signed)
    }

    /// `prevBlock` and `prevHash` of a leaf's transfer.
    fn spent(&mut self, leaf: &ScenarioLeaf) -> Result<(BlockNumber, B256), FileError> {
        let from = match leaf.from_state {
            Some(from) if !leaf.garbage => from,
            garbage => return Ok((garbage.unwrap_or(0), keccak256(&leaf.tx))),
        };
        if from == 0 {
            return Ok((self.deposit.block, self.deposit.hash));
        }
        match self.leaf(from) {
            None => Ok((from, keccak256("none"))),
            Some(spent) => {
                let (transfer, _) = self.transfer(from, spent)?;
                Ok((from, transfer.digest(&self.domain)))
            }
        }
    }
}
