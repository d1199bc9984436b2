//! Which challenge refutes an exit (exit-game.md "Functions"): decided from what is included at
//! the coin, whoever showed it. Pure; the contract judges in the same words.

use plasma_core::coin::{CoinState, Deposit};
use plasma_core::domain::Domain;
use plasma_core::smt::Proof;
use plasma_core::transfer::SignedTransfer;
use plasma_core::{Address, B256, BlockNumber, CoinId, exit};

/// A transfer that a plasma block includes, with the proof: what the contract calls `Included`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inclusion {
    /// The block.
    pub block: BlockNumber,
    /// The transfer, valid or not.
    pub transfer: SignedTransfer,
    /// Its inclusion at the coin in question.
    pub proof: Proof,
}

/// An open exit as the contract stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenExit {
    /// Its id.
    pub id: u64,
    /// Block of the parent; of the deposit itself in a deposit exit.
    pub parent_block: BlockNumber,
    /// Hash and owner of the parent; unused in a deposit exit.
    pub parent_hash: B256,
    /// See `parent_hash`.
    pub parent_owner: Address,
    /// Block of the exiting transfer; 0 in a deposit exit.
    pub block: BlockNumber,
    /// Hash of the exiting state.
    pub state_hash: B256,
    /// Owner of the exiting state.
    pub beneficiary: Address,
    /// Who put up the bond.
    pub payer: Address,
    /// Wei of the bond.
    pub bond: u128,
    /// Unix seconds.
    pub opened_at: u64,
}

impl OpenExit {
    /// Its age; smaller is older.
    pub fn age(&self) -> u128 {
        exit::age(self.parent_block, self.block)
    }

    /// Whether it exits the deposit itself.
    pub fn of_deposit(&self) -> bool {
        self.block == 0
    }

    /// The exiting state as it is when its transfer is included in `block`.
    fn state(&self, coin: CoinId, block: BlockNumber) -> CoinState {
        CoinState { coin, owner: self.beneficiary, block, hash: self.state_hash }
    }

    fn parent(&self, coin: CoinId) -> CoinState {
        CoinState {
            coin,
            owner: self.parent_owner,
            block: self.parent_block,
            hash: self.parent_hash,
        }
    }
}

/// The call that refutes an exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// `challengeSpent`: the exiting state was spent.
    Spent {
        /// The transfer that spent it.
        spend: Inclusion,
        /// Another inclusion of the exiting transfer, if `spend` spends that one.
        included: Option<(BlockNumber, Proof)>,
    },
    /// `challengeDoubleSpend`: another transfer spent the parent before.
    DoubleSpend {
        /// That transfer.
        other: Inclusion,
    },
}

/// A challenge that the contract accepts, if `known` holds one. `known` is every inclusion at the
/// coin that anybody has shown, garbage and replays too, in any order.
pub fn refute(
    exit: &OpenExit,
    deposit: &Deposit,
    coin: CoinId,
    known: &[Inclusion],
    domain: &Domain,
) -> Option<Challenge> {
    let spends = |state: &CoinState, shown: &Inclusion| {
        shown.transfer.child_of(state, shown.block, domain).is_ok()
    };
    let spend_of = |state: &CoinState| known.iter().find(|shown| spends(state, shown)).cloned();
    // As a state being spent, the deposit's block is its own, never 0.
    let block = if exit.of_deposit() { deposit.deposit_block } else { exit.block };
    if let Some(spend) = spend_of(&exit.state(coin, block)) {
        return Some(Challenge::Spent { spend, included: None });
    }
    if exit.of_deposit() {
        return None;
    }
    let other = known.iter().find(|shown| {
        shown.block < exit.block
            && shown.transfer.transfer.digest(domain) != exit.state_hash
            && spends(&exit.parent(coin), shown)
    });
    if let Some(other) = other {
        return Some(Challenge::DoubleSpend { other: other.clone() });
    }
    let again = known.iter().filter(|shown| {
        shown.block > exit.parent_block
            && shown.block != exit.block
            && shown.transfer.transfer.digest(domain) == exit.state_hash
    });
    again.into_iter().find_map(|shown| {
        let spend = spend_of(&exit.state(coin, shown.block))?;
        Some(Challenge::Spent { spend, included: Some((shown.block, shown.proof.clone())) })
    })
}

/// The id to pass as `hint` when an exit of `age` is opened: the youngest open exit that is older,
/// or 0. `open` is ordered as the contract reports it, oldest first.
pub fn hint(open: &[OpenExit], age: u128) -> u64 {
    open.iter().rev().find(|exit| exit.age() < age).map_or(0, |exit| exit.id)
}
