//! Coins and the deposit records that create them (protocol.md section 1).
//!
//! One deposit makes `count` coins of equal value with consecutive ids. State 0 of a coin is its
//! deposit state; its hash is the EIP-712 digest of
//! `Deposit(uint64 coin,address owner,uint8 assetKind,address token,uint256 tokenId,uint256 value,
//! uint64 depositBlock)`.

use std::sync::LazyLock;

use alloy_primitives::{Address, B256, U256, keccak256};

use crate::domain::{Domain, Words};
use crate::{BlockNumber, CoinId};

/// Most coins that one deposit creates.
pub const DEPOSIT_COINS_MAX: u16 = 1_000;

static DEPOSIT_TYPE: LazyLock<B256> = LazyLock::new(|| {
    keccak256(concat!(
        "Deposit(uint64 coin,address owner,uint8 assetKind,address token,uint256 tokenId,",
        "uint256 value,uint64 depositBlock)"
    ))
});

/// Asset kinds as the contract numbers them.
pub mod asset {
    /// Ether; value in wei.
    pub const ETH: u8 = 1;
    /// An ERC-20 token; value in its smallest unit.
    pub const ERC20: u8 = 2;
    /// An ERC-721 token; value 1.
    pub const ERC721: u8 = 3;
    /// An amount of one ERC-1155 id.
    pub const ERC1155: u8 = 4;
}

/// The record of one deposit, as the contract stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deposit {
    /// 1, 2, 3 ... in order.
    pub deposit_id: u64,
    /// Id of the first of `count` consecutive coins.
    pub first_coin: CoinId,
    /// How many coins, 1 to 1,000.
    pub count: u16,
    /// First owner of every coin.
    pub owner: Address,
    /// See [`asset`].
    pub asset_kind: u8,
    /// Token contract; zero for ETH.
    pub token: Address,
    /// Token id; zero for ETH and ERC-20.
    pub token_id: U256,
    /// Value of each coin.
    pub value: U256,
    /// Last plasma block that was stored on the root chain when the deposit was made.
    pub deposit_block: BlockNumber,
}

impl Deposit {
    /// Whether `coin` is one of this deposit's.
    pub fn contains(&self, coin: CoinId) -> bool {
        coin >= self.first_coin && coin - self.first_coin < u64::from(self.count)
    }

    /// The state in which one of this deposit's coins starts.
    pub fn state(&self, coin: CoinId, domain: &Domain) -> CoinState {
        let mut words = Words::new(*DEPOSIT_TYPE);
        words.u64(coin);
        words.address(self.owner);
        words.u64(u64::from(self.asset_kind));
        words.address(self.token);
        words.hash(self.token_id.into());
        words.hash(self.value.into());
        words.u64(self.deposit_block);
        CoinState {
            coin,
            owner: self.owner,
            block: self.deposit_block,
            hash: domain.digest(words.keccak()),
        }
    }
}

/// A state of a coin: where it was created, who owns it and what spends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoinState {
    /// The coin.
    pub coin: CoinId,
    /// Who may spend this state.
    pub owner: Address,
    /// Plasma block of the transfer; the deposit block for state 0.
    pub block: BlockNumber,
    /// The transfer's digest; the deposit's hash for state 0.
    pub hash: B256,
}
