//! The exit game's off-chain bytes: age and authorisation (exit-game.md).

use std::sync::LazyLock;

use alloy_primitives::{B256, keccak256};

use crate::domain::{Domain, Words};
use crate::{BlockNumber, CoinId};

static AUTHORIZATION_TYPE: LazyLock<B256> =
    LazyLock::new(|| keccak256("ExitAuthorization(uint64 coin,bytes32 stateHash,uint64 notAfter)"));

/// What an owner signs so that somebody else may start the exit of his state until `not_after`
/// (Unix seconds). It can only pay the owner.
pub fn authorization_digest(
    domain: &Domain,
    coin: CoinId,
    state_hash: B256,
    not_after: u64,
) -> B256 {
    let mut words = Words::new(*AUTHORIZATION_TYPE);
    words.u64(coin);
    words.hash(state_hash);
    words.u64(not_after);
    domain.digest(words.keccak())
}

/// Age of an exit: the parent's block first, then the exiting transfer's; smaller is older. The
/// exit of a deposit itself has its deposit block and 0.
pub fn age(parent: BlockNumber, block: BlockNumber) -> u128 {
    u128::from(parent) << 64 | u128::from(block)
}
