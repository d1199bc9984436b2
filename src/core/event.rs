//! The contract's event queue and the validators' observations of it (protocol.md section 5).
//!
//! `e = abi.encode(uint8 kind, ...)`: a deposit has 10 words (320 bytes), the others two (64).
//! `eventHash_0 = 0`, `eventHash_n = keccak(eventHash_{n-1} || keccak(e_n))`. Observation: EIP-712
//! `Observation(uint64 eventCount,bytes32 eventHash)`, signed by the root key.

use std::sync::LazyLock;

use alloy_primitives::{B256, U256, keccak256};

use crate::CoinId;
use crate::coin::{DEPOSIT_COINS_MAX, Deposit};
use crate::domain::{Domain, Words};

/// How far above the cursor an observation may reach, and most events of a proposal.
pub const OBSERVATION_REACH: u64 = 1_000;
/// Most bytes of one event in a proposal.
pub const EVENT_BYTES_MAX: usize = 1_024;

static OBSERVATION_TYPE: LazyLock<B256> =
    LazyLock::new(|| keccak256("Observation(uint64 eventCount,bytes32 eventHash)"));

/// One event of the contract's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootEvent {
    /// Kind 1: coins were created.
    Deposited(Deposit),
    /// Kind 2: an exit of the coin was opened.
    ExitStarted(CoinId),
    /// Kind 3: the coin's last open exit is gone and nobody was paid.
    Thawed(CoinId),
    /// Kind 4: the coin's exit won; the coin is gone.
    ExitFinalized(CoinId),
}

impl RootEvent {
    /// `abi.encode(uint8 kind, ...)`.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, coin) = match self {
            Self::Deposited(deposit) => return encode_deposit(deposit),
            Self::ExitStarted(coin) => (2, *coin),
            Self::Thawed(coin) => (3, *coin),
            Self::ExitFinalized(coin) => (4, *coin),
        };
        let mut out = Vec::with_capacity(64);
        push_u64(&mut out, kind);
        push_u64(&mut out, coin);
        out
    }

    /// Reads an event; none for a wrong length, unknown kind or non-zero padding, or a deposit of
    /// no or too many coins: such an event makes no sense and is ignored.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<32>() else { return None };
        match (unpad::<1>(words.first()?)?[0], words.len()) {
            (1, 10) => decode_deposit(words).map(Self::Deposited),
            (2, 2) => Some(Self::ExitStarted(unpad_u64(&words[1])?)),
            (3, 2) => Some(Self::Thawed(unpad_u64(&words[1])?)),
            (4, 2) => Some(Self::ExitFinalized(unpad_u64(&words[1])?)),
            _ => None,
        }
    }
}

fn push_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&[0; 24]);
    out.extend_from_slice(&value.to_be_bytes());
}

fn encode_deposit(d: &Deposit) -> Vec<u8> {
    let mut out = Vec::with_capacity(320);
    push_u64(&mut out, 1);
    push_u64(&mut out, d.deposit_id);
    push_u64(&mut out, d.first_coin);
    push_u64(&mut out, d.count.into());
    out.extend_from_slice(d.owner.into_word().as_slice());
    push_u64(&mut out, d.asset_kind.into());
    out.extend_from_slice(d.token.into_word().as_slice());
    out.extend_from_slice(&d.token_id.to_be_bytes::<32>());
    out.extend_from_slice(&d.value.to_be_bytes::<32>());
    push_u64(&mut out, d.deposit_block);
    out
}

fn decode_deposit(words: &[[u8; 32]]) -> Option<Deposit> {
    let deposit = Deposit {
        deposit_id: unpad_u64(&words[1])?,
        first_coin: unpad_u64(&words[2])?,
        count: u16::from_be_bytes(unpad(&words[3])?),
        owner: unpad::<20>(&words[4])?.into(),
        asset_kind: unpad::<1>(&words[5])?[0],
        token: unpad::<20>(&words[6])?.into(),
        token_id: U256::from_be_bytes(words[7]),
        value: U256::from_be_bytes(words[8]),
        deposit_block: unpad_u64(&words[9])?,
    };
    (1..=DEPOSIT_COINS_MAX).contains(&deposit.count).then_some(deposit)
}

/// The low `N` bytes of a word whose other bytes are zero.
fn unpad<const N: usize>(word: &[u8; 32]) -> Option<[u8; N]> {
    let (padding, value) = word.split_last_chunk::<N>()?;
    padding.iter().all(|byte| *byte == 0).then_some(*value)
}

fn unpad_u64(word: &[u8; 32]) -> Option<u64> {
    unpad(word).map(u64::from_be_bytes)
}

/// The queue's hash after event `e`.
pub fn event_hash(previous: B256, e: &[u8]) -> B256 {
    keccak256([previous, keccak256(e)].concat())
}

/// What a validator signs about the queue.
pub fn observation_digest(domain: &Domain, event_count: u64, event_hash: B256) -> B256 {
    let mut words = Words::new(*OBSERVATION_TYPE);
    words.u64(event_count);
    words.hash(event_hash);
    domain.digest(words.keccak())
}
