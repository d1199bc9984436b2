//! A small child chain: one coin's deposit and blocks with trees of leaves.

use std::collections::BTreeMap;

use plasma_client::queries::CoinProof;
use plasma_client::transfer::sign;
use plasma_client::wallet::devnet_key;
use plasma_core::coin::{CoinState, Deposit, asset};
use plasma_core::domain::Domain;
use plasma_core::signature::SigningKey;
use plasma_core::smt::{Leaf, prove, root_of};
use plasma_core::transfer::SignedTransfer;
use plasma_core::{Address, B256, BlockNumber, U256};

pub const COIN: u64 = 7;
pub const DEPOSIT_BLOCK: BlockNumber = 2;

pub fn domain() -> Domain {
    Domain::new(31_337, Address::repeat_byte(0xcc))
}

pub fn key(name: &str) -> SigningKey {
    devnet_key(name).unwrap()
}

pub fn address(name: &str) -> Address {
    key(name).address()
}

/// Coins 5 to 14 of alice.
pub fn deposit() -> Deposit {
    Deposit {
        deposit_id: 3,
        first_coin: 5,
        count: 10,
        owner: address("alice"),
        asset_kind: asset::ETH,
        token: Address::ZERO,
        token_id: U256::ZERO,
        value: U256::from(1_000),
        deposit_block: DEPOSIT_BLOCK,
    }
}

pub fn start() -> CoinState {
    deposit().state(COIN, &domain())
}

/// `from` signs `state` over to `to`.
pub fn pay(state: &CoinState, from: &str, to: &str, max_block: BlockNumber) -> SignedTransfer {
    sign(state, address(to), max_block, &key(from), &domain())
}

/// Blocks after the deposit's, with proofs of the coin.
#[derive(Default)]
pub struct Chain {
    pub roots: BTreeMap<BlockNumber, B256>,
    pub proofs: BTreeMap<BlockNumber, CoinProof>,
}

impl Chain {
    /// Adds a block that holds other coins, and the coin's transfer if there is one.
    pub fn block(&mut self, transfer: Option<SignedTransfer>) -> BlockNumber {
        let number = DEPOSIT_BLOCK + 1 + self.roots.len() as u64;
        let mut leaves: Vec<Leaf> = [1, 3, 6, 15, 39]
            .map(|coin| Leaf { coin, hash: B256::repeat_byte(number as u8) })
            .to_vec();
        if let Some(transfer) = &transfer {
            leaves.push(Leaf { coin: COIN, hash: transfer.transfer.digest(&domain()) });
        }
        leaves.sort_unstable_by_key(Leaf::path);
        self.roots.insert(number, root_of(&leaves));
        let proof = prove(&leaves, COIN);
        self.proofs.insert(number, CoinProof { transfer, proof });
        number
    }

    pub fn newest(&self) -> BlockNumber {
        DEPOSIT_BLOCK + self.roots.len() as u64
    }

    pub fn root(&self, number: BlockNumber) -> Option<B256> {
        self.roots.get(&number).copied()
    }
}

/// Blocks 3 to 6: nothing, alice to bob, nothing, bob to carol. And the last state.
pub fn good() -> (Chain, CoinState) {
    let mut chain = Chain::default();
    chain.block(None);
    let first = pay(&start(), "alice", "bob", 10);
    let block = chain.block(Some(first));
    let state = first.child_of(&start(), block, &domain()).unwrap();
    chain.block(None);
    let second = pay(&state, "bob", "carol", 10);
    let block = chain.block(Some(second));
    let state = second.child_of(&state, block, &domain()).unwrap();
    (chain, state)
}
