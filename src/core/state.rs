//! Keys and values of the state under the app hash (formats.md "State (trie 1)").
//!
//! | key | value |
//! |---|---|
//! | `01`, depositId:8 | a [`Deposit`] after its id, in order: see [`encode_deposit`] |
//! | `02`, coin:8 | a [`CoinRecord`], in order; flags:1 (1 frozen, 2 gone) |
//! | `03` | see [`Tip`], eleven fields in order |
//! | `04`, n:8 | root:32, chainHash:32, height:8 |
//! | `05`, n:8 | certificate |
//! | `06` | see [`Params`], in order; the scheme's name after its length:1 |
//! | `07` | id:8, then root address:20, power:8, ed25519:32 of each validator |

use alloy_primitives::{Address, B256, U256};

use crate::coin::{CoinState, Deposit};
use crate::domain::Domain;
use crate::signature::Signature;
use crate::validators::{SetError, Validator, ValidatorSet};
use crate::wire::{Reader, WireError};
use crate::{BlockNumber, CoinId};

/// Key of the tip record.
pub const TIP_KEY: [u8; 1] = [3];
/// Key of the parameters.
pub const PARAMS_KEY: [u8; 1] = [6];
/// Key of the validator set.
pub const VALIDATORS_KEY: [u8; 1] = [7];
/// First byte of every deposit's key.
pub const DEPOSIT_PREFIX: u8 = 1;
/// First byte of every coin's key.
pub const COIN_PREFIX: u8 = 2;

fn numbered(prefix: u8, number: u64) -> [u8; 9] {
    let mut key = [prefix; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Key of a deposit.
pub fn deposit_key(deposit_id: u64) -> [u8; 9] {
    numbered(DEPOSIT_PREFIX, deposit_id)
}

/// Key of a coin that has moved or was frozen.
pub fn coin_key(coin: CoinId) -> [u8; 9] {
    numbered(COIN_PREFIX, coin)
}

/// Key of a closed plasma block.
pub fn block_key(number: BlockNumber) -> [u8; 9] {
    numbered(4, number)
}

/// Key of a kept certificate.
pub fn certificate_key(number: BlockNumber) -> [u8; 9] {
    numbered(5, number)
}

/// The number in a key of [`deposit_key`]'s kind with the same prefix.
pub fn key_number(key: &[u8], prefix: u8) -> Option<u64> {
    let (first, number) = key.split_first()?;
    (*first == prefix).then(|| number.try_into().ok().map(u64::from_be_bytes))?
}

/// Value of a deposit, whose id is in the key: firstCoin:8, count:2, owner:20, kind:1, token:20,
/// tokenId:32, value:32, depositBlock:8.
pub fn encode_deposit(d: &Deposit) -> Vec<u8> {
    let mut out = Vec::with_capacity(123);
    out.extend_from_slice(&d.first_coin.to_be_bytes());
    out.extend_from_slice(&d.count.to_be_bytes());
    out.extend_from_slice(d.owner.as_slice());
    out.push(d.asset_kind);
    out.extend_from_slice(d.token.as_slice());
    out.extend_from_slice(&d.token_id.to_be_bytes::<32>());
    out.extend_from_slice(&d.value.to_be_bytes::<32>());
    out.extend_from_slice(&d.deposit_block.to_be_bytes());
    out
}

/// Reads a deposit's value.
pub fn decode_deposit(deposit_id: u64, value: &[u8]) -> Result<Deposit, WireError> {
    let mut r = Reader::new(value);
    let deposit = Deposit {
        deposit_id,
        first_coin: r.u64()?,
        count: r.u16()?,
        owner: r.address()?,
        asset_kind: r.u8()?,
        token: r.address()?,
        token_id: U256::from_be_bytes(r.array::<32>()?),
        value: U256::from_be_bytes(r.array::<32>()?),
        deposit_block: r.u64()?,
    };
    r.finish()?;
    Ok(deposit)
}

const FLAG_FROZEN: u8 = 1;
const FLAG_GONE: u8 = 2;

/// A coin that has moved or was frozen at least once: owner:20, block:8, hash:32, maxBlock:8,
/// signature:64, flags:1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoinRecord {
    /// The owner.
    pub owner: Address,
    /// Plasma block of the last transfer; the deposit block if it never moved.
    pub block: BlockNumber,
    /// Digest of the last transfer; the deposit's hash if it never moved.
    pub hash: B256,
    /// The last transfer's maxBlock; 0 if it never moved.
    pub max_block: BlockNumber,
    /// The last transfer's signature; zero if it never moved.
    pub signature: Signature,
    /// An exit is open on Ethereum.
    pub frozen: bool,
    /// An exit won; the coin is no more.
    pub gone: bool,
}

impl CoinRecord {
    /// Bytes of the value.
    pub const ENCODED_LEN: usize = 20 + 8 + 32 + 8 + 64 + 1;

    /// A coin that has not moved since its deposit.
    pub fn unmoved(state: &CoinState) -> Self {
        Self {
            owner: state.owner,
            block: state.block,
            hash: state.hash,
            max_block: 0,
            signature: Signature::ZERO,
            frozen: false,
            gone: false,
        }
    }

    /// The value.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::ENCODED_LEN);
        out.extend_from_slice(self.owner.as_slice());
        out.extend_from_slice(&self.block.to_be_bytes());
        out.extend_from_slice(self.hash.as_slice());
        out.extend_from_slice(&self.max_block.to_be_bytes());
        out.extend_from_slice(&self.signature.0);
        out.push(if self.frozen { FLAG_FROZEN } else { 0 } | if self.gone { FLAG_GONE } else { 0 });
        out
    }

    /// Reads the value.
    pub fn decode(value: &[u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(value);
        let (owner, block, hash, max_block) = (r.address()?, r.u64()?, r.hash()?, r.u64()?);
        let signature = Signature(r.array()?);
        let flags = r.u8()?;
        if flags > (FLAG_FROZEN | FLAG_GONE) {
            return Err(WireError::Value { what: "coin flags", value: flags.into() });
        }
        r.finish()?;
        let (frozen, gone) = (flags & FLAG_FROZEN != 0, flags & FLAG_GONE != 0);
        Ok(Self { owner, block, hash, max_block, signature, frozen, gone })
    }

    /// Whether the coin has moved since its deposit.
    pub fn moved(&self) -> bool {
        self.signature != Signature::ZERO
    }

    /// The state that the next transfer spends.
    pub fn state(&self, coin: CoinId) -> CoinState {
        CoinState { coin, owner: self.owner, block: self.block, hash: self.hash }
    }
}

/// The chain's position, one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tip {
    /// CometBFT height.
    pub height: u64,
    /// Id of the last deposit applied.
    pub last_deposit: u64,
    /// Id of the last coin created.
    pub last_coin: CoinId,
    /// Number of the open plasma block, 0 = none.
    pub open: BlockNumber,
    /// Height at which it was opened, 0 = none is open.
    pub opened_at: u64,
    /// Transfers in it.
    pub open_count: u64,
    /// Number of the newest closed plasma block.
    pub last_closed: BlockNumber,
    /// Number of the newest certified plasma block.
    pub last_certified: BlockNumber,
    /// Events of the contract's queue that were applied: the cursor.
    pub event_count: u64,
    /// Hash of the queue at the cursor.
    pub event_hash: B256,
    /// Events that made no sense and were ignored.
    pub ignored: u64,
}

impl Tip {
    /// The plasma block into which the next transfer goes.
    pub fn next_block(&self) -> BlockNumber {
        if self.open != 0 { self.open } else { self.last_closed + 1 }
    }

    /// The value.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(112);
        for number in [
            self.height,
            self.last_deposit,
            self.last_coin,
            self.open,
            self.opened_at,
            self.open_count,
            self.last_closed,
            self.last_certified,
            self.event_count,
        ] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(self.event_hash.as_slice());
        out.extend_from_slice(&self.ignored.to_be_bytes());
        out
    }

    /// Reads the value.
    pub fn decode(value: &[u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(value);
        let tip = Self {
            height: r.u64()?,
            last_deposit: r.u64()?,
            last_coin: r.u64()?,
            open: r.u64()?,
            opened_at: r.u64()?,
            open_count: r.u64()?,
            last_closed: r.u64()?,
            last_certified: r.u64()?,
            event_count: r.u64()?,
            event_hash: r.hash()?,
            ignored: r.u64()?,
        };
        r.finish()?;
        Ok(tip)
    }
}

/// A closed plasma block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRecord {
    /// Its root, as submitted to Ethereum.
    pub root: B256,
    /// The chain hash after it.
    pub chain_hash: B256,
    /// CometBFT height at whose end it closed.
    pub height: u64,
}

impl BlockRecord {
    /// The value.
    pub fn encode(&self) -> Vec<u8> {
        [self.root.as_slice(), self.chain_hash.as_slice(), &self.height.to_be_bytes()].concat()
    }

    /// Reads the value.
    pub fn decode(value: &[u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(value);
        let block = Self { root: r.hash()?, chain_hash: r.hash()?, height: r.u64()? };
        r.finish()?;
        Ok(block)
    }
}

/// Parameters, fixed at genesis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// Ethereum's chain id.
    pub chain_id: u64,
    /// The RootChain contract.
    pub root_chain: Address,
    /// Transfers at which a plasma block closes.
    pub max_transfers: u64,
    /// Most transfers that one height may list.
    pub max_height_transfers: u64,
    /// Most heights of a plasma block.
    pub max_heights: u64,
    /// Length to which a non-empty vote extension is padded; 0 except in QA sweeps.
    pub extension_pad_bytes: u64,
    /// Name of the store scheme that makes the app hash.
    pub scheme: String,
}

impl Params {
    /// The EIP-712 domain of this chain.
    pub fn domain(&self) -> Domain {
        Domain::new(self.chain_id, self.root_chain)
    }

    /// The value.
    ///
    /// # Panics
    /// If the scheme's name has more than 255 bytes (a programmer's error: names are constants).
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.scheme.len() <= 255, "a scheme's name has at most 255 bytes");
        let mut out = Vec::new();
        out.extend_from_slice(&self.chain_id.to_be_bytes());
        out.extend_from_slice(self.root_chain.as_slice());
        for number in [
            self.max_transfers,
            self.max_height_transfers,
            self.max_heights,
            self.extension_pad_bytes,
        ] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.push(self.scheme.len() as u8);
        out.extend_from_slice(self.scheme.as_bytes());
        out
    }

    /// Reads the value.
    pub fn decode(value: &[u8]) -> Result<Self, WireError> {
        let mut r = Reader::new(value);
        let (chain_id, root_chain) = (r.u64()?, r.address()?);
        let (max_transfers, max_height_transfers) = (r.u64()?, r.u64()?);
        let (max_heights, extension_pad_bytes) = (r.u64()?, r.u64()?);
        let length = r.u8()?;
        let scheme = std::str::from_utf8(r.take(length.into())?)
            .map_err(|_| WireError::Value { what: "scheme name", value: length.into() })?
            .to_owned();
        r.finish()?;
        Ok(Self {
            chain_id,
            root_chain,
            max_transfers,
            max_height_transfers,
            max_heights,
            extension_pad_bytes,
            scheme,
        })
    }
}

/// Value of the validator set.
pub fn encode_validators(set: &ValidatorSet) -> Vec<u8> {
    let mut out = set.id().to_be_bytes().to_vec();
    for v in set.validators() {
        out.extend_from_slice(v.root_key.as_slice());
        out.extend_from_slice(&v.power.to_be_bytes());
        out.extend_from_slice(&v.consensus_key);
    }
    out
}

/// Why a validator set's value is unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValidatorsError {
    /// The bytes do not decode.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The validators make no set.
    #[error(transparent)]
    Set(#[from] SetError),
}

/// Reads the validator set's value.
pub fn decode_validators(value: &[u8]) -> Result<ValidatorSet, ValidatorsError> {
    let mut r = Reader::new(value);
    let id = r.u64()?;
    let mut validators = Vec::new();
    while r.remaining() > 0 {
        validators.push(Validator {
            root_key: r.address()?,
            power: r.u64()?,
            consensus_key: r.array()?,
        });
    }
    Ok(ValidatorSet::new(id, validators)?)
}
