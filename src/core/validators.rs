//! The validators' root keys and their powers (protocol.md section 4).
//!
//! A set is ordered by power descending, then address ascending; a validator's index is its
//! position in that order, never CometBFT's.
//! `setHash = keccak(id:8 || (address:20 || power:8)...)`.

use alloy_primitives::{Address, B256, keccak256};

/// Most validators of a set: what CometBFT allows.
pub const VALIDATORS_MAX: usize = 10_000;

/// One validator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validator {
    /// Address of the secp256k1 root key.
    pub root_key: Address,
    /// Voting power, equal to CometBFT's.
    pub power: u64,
    /// The ed25519 key of CometBFT.
    pub consensus_key: [u8; 32],
}

/// Why validators make no set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// No validator, or more than the limit.
    #[error("{0} validators, must be 1 to {VALIDATORS_MAX}")]
    Count(usize),
    /// A validator without power or with a zero address.
    #[error("validator {0} has no power or no root key")]
    Zero(usize),
    /// Not in order, or two share an address.
    #[error("validator {0} is not in order: power descending, then distinct addresses ascending")]
    Order(usize),
    /// Two share a root key or a consensus key.
    #[error("validator {0} shares a key with another")]
    SharedKey(usize),
}

/// A checked set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidatorSet {
    id: u64,
    validators: Vec<Validator>,
    total_power: u128,
}

impl ValidatorSet {
    /// Checks order and keys.
    pub fn new(id: u64, validators: Vec<Validator>) -> Result<Self, SetError> {
        if validators.is_empty() || validators.len() > VALIDATORS_MAX {
            return Err(SetError::Count(validators.len()));
        }
        let mut root_keys = std::collections::BTreeSet::new();
        let mut consensus_keys = std::collections::BTreeSet::new();
        for (i, v) in validators.iter().enumerate() {
            if v.power == 0 || v.root_key == Address::ZERO {
                return Err(SetError::Zero(i));
            }
            if !root_keys.insert(v.root_key) || !consensus_keys.insert(v.consensus_key) {
                return Err(SetError::SharedKey(i));
            }
        }
        if let Some(i) = validators.windows(2).position(|w| sort_key(&w[0]) >= sort_key(&w[1])) {
            return Err(SetError::Order(i + 1));
        }
        let total_power = validators.iter().map(|v| u128::from(v.power)).sum();
        Ok(Self { id, validators, total_power })
    }

    /// Brings validators into the order of a set.
    pub fn sort(validators: &mut [Validator]) {
        validators.sort_unstable_by_key(sort_key);
    }

    /// Id of the set; 1 at genesis.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The validators in order.
    pub fn validators(&self) -> &[Validator] {
        &self.validators
    }

    /// How many; never 0.
    #[expect(clippy::len_without_is_empty, reason = "a set is never empty")]
    pub fn len(&self) -> usize {
        self.validators.len()
    }

    /// Whether `power` is strictly more than two thirds of all.
    pub fn is_quorum(&self, power: u128) -> bool {
        // Powers are u64 and validators at most 10,000: no overflow.
        3 * power > 2 * self.total_power
    }

    /// `address:20 || power:8` of each validator, as `submitBlocks` takes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.validators.len() * 28);
        for v in &self.validators {
            out.extend_from_slice(v.root_key.as_slice());
            out.extend_from_slice(&v.power.to_be_bytes());
        }
        out
    }

    /// The hash that the contract stores.
    pub fn hash(&self) -> B256 {
        keccak256([&self.id.to_be_bytes()[..], &self.encode()].concat())
    }
}

fn sort_key(v: &Validator) -> (std::cmp::Reverse<u64>, Address) {
    (std::cmp::Reverse(v.power), v.root_key)
}
