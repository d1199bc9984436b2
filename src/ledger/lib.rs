//! Decides what one block does to the state: a pure transition over a read view.
//!
//! [`Execution`] applies the parts of a height in their order (certificate, events, transfers,
//! closing) and yields an [`Outcome`]: the writes and everything that follows from them. The
//! proposer builds a block with it piece by piece; [`execute`] judges a whole block with the same
//! code. Nothing here sees a file, socket, clock, thread or random number: the view reads, the
//! [`Verifier`] recovers signers (and may remember them or use several cores), the [`Hasher`]
//! hashes a closing block's tree.

mod deposits;
mod execution;
mod genesis;
mod outcome;
mod view;

pub use deposits::DepositIndex;
pub use execution::{Execution, TxVerdict, execute};
pub use genesis::{Genesis, GenesisError, GenesisParams, GenesisValidator};
pub use outcome::{Executed, Outcome, Refusal, TxResult};
pub use view::{
    Authorised, Coin, ReadError, View, chain_hash_at, closed_block, deposit_of, find_coin, judge,
    judge_all,
};

use plasma_core::archive::BlockTree;
use plasma_core::domain::Domain;
use plasma_core::signature::Signature;
use plasma_core::smt::Leaf;
use plasma_core::state::Params;
use plasma_core::validators::ValidatorSet;
use plasma_core::{Address, B256};

/// What is fixed at genesis and never changes.
#[derive(Debug, Clone)]
pub struct Chain {
    /// Parameters.
    pub params: Params,
    /// The EIP-712 domain of the parameters.
    pub domain: Domain,
    /// The validators.
    pub validators: ValidatorSet,
}

impl Chain {
    /// Derives the domain.
    pub fn new(params: Params, validators: ValidatorSet) -> Self {
        let domain = params.domain();
        Self { params, domain, validators }
    }
}

/// Recovers signers. A verdict depends on the returned addresses only, never on what a cache held.
pub trait Verifier {
    /// The address that signed each digest, none where the signature is malformed.
    fn recover_all(&self, signed: &[(B256, Signature)]) -> Vec<Option<Address>>;
}

/// Recovers on this thread, remembering nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct SerialVerifier;

impl Verifier for SerialVerifier {
    fn recover_all(&self, signed: &[(B256, Signature)]) -> Vec<Option<Address>> {
        signed.iter().map(|(digest, signature)| signature.recover(*digest).ok()).collect()
    }
}

/// Hashes a closing block's tree.
pub trait Hasher {
    /// The tree of `leaves`, which come in any order.
    fn tree(&self, leaves: Vec<Leaf>) -> BlockTree;
}

/// Hashes on this thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct SerialHasher;

impl Hasher for SerialHasher {
    fn tree(&self, leaves: Vec<Leaf>) -> BlockTree {
        BlockTree::build_serial(leaves)
    }
}
