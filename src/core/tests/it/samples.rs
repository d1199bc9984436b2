//! Deterministic sample values: every vector and many tests are made of these.

use plasma_core::coin::{Deposit, asset};
use plasma_core::domain::Domain;
use plasma_core::keccak::keccak256;
use plasma_core::signature::SigningKey;
use plasma_core::smt::Leaf;
use plasma_core::validators::{Validator, ValidatorSet};
use plasma_core::{Address, B256, CoinId, U256};

/// Hash of a label and a number.
pub fn hash(label: &str, i: u64) -> B256 {
    keccak256([label.as_bytes(), &i.to_be_bytes()].concat())
}

pub fn address(label: &str, i: u64) -> Address {
    Address::from_slice(&hash(label, i)[12..])
}

pub fn key(i: u64) -> SigningKey {
    SigningKey::from_bytes(hash("key", i).0).expect("a hash below the group order")
}

pub fn domain() -> Domain {
    Domain::new(31_337, address("root chain", 0))
}

/// A leaf of `coin` with an invented transfer.
pub fn leaf(coin: CoinId) -> Leaf {
    Leaf { coin, hash: hash("transfer", coin) }
}

/// Random 64-bit ids.
pub fn random_ids(count: u64) -> Vec<CoinId> {
    (0..count).map(|i| u64::from_be_bytes(hash("coin", i)[..8].try_into().unwrap())).collect()
}

pub fn leaves(coins: impl IntoIterator<Item = CoinId>) -> Vec<Leaf> {
    coins.into_iter().map(leaf).collect()
}

/// One deposit of each asset kind, then one with the largest values.
pub fn deposits() -> Vec<Deposit> {
    let token = |i| address("token", i);
    let deposit = |deposit_id, first_coin, count, asset_kind, token, token_id, value| Deposit {
        deposit_id,
        first_coin,
        count,
        owner: key(deposit_id).address(),
        asset_kind,
        token,
        token_id,
        value,
        deposit_block: deposit_id - 1,
    };
    let ether = U256::from(1_000_000_000_000_000_000u64);
    vec![
        deposit(1, 1, 1, asset::ETH, Address::ZERO, U256::ZERO, ether),
        deposit(2, 2, 1_000, asset::ERC20, token(2), U256::ZERO, U256::from(25)),
        deposit(3, 1_002, 1, asset::ERC721, token(3), U256::MAX, U256::ONE),
        deposit(4, 1_003, 7, asset::ERC1155, token(4), U256::from(77), U256::from(5)),
        Deposit {
            deposit_block: u64::MAX,
            ..deposit(u64::MAX, u64::MAX, 1, asset::ERC20, token(5), U256::ZERO, U256::MAX)
        },
    ]
}

/// Four validators of unequal power; their keys are `key(100 + i)` for some i.
pub fn validator_set() -> ValidatorSet {
    let mut validators: Vec<Validator> = [40u64, 10, 25, 25]
        .iter()
        .zip(100..)
        .map(|(power, i)| Validator {
            root_key: key(i).address(),
            power: *power,
            consensus_key: hash("consensus", i).0,
        })
        .collect();
    ValidatorSet::sort(&mut validators);
    ValidatorSet::new(1, validators).expect("a sorted set")
}

/// The root key of the validator at `index` of [`validator_set`].
pub fn root_key(index: usize) -> SigningKey {
    let address = validator_set().validators()[index].root_key;
    (100..104).map(key).find(|key| key.address() == address).expect("one of the four")
}
