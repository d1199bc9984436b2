//! Reading the state at one height, and judging a transfer against it.

use plasma_core::code::Code;
use plasma_core::coin::Deposit;
use plasma_core::domain::Domain;
use plasma_core::state::{CoinRecord, coin_key, decode_deposit, deposit_key};
use plasma_core::transfer::{SignedTransfer, WireTransfer, owner_allowed};
use plasma_core::wire::WireError;
use plasma_core::{BlockNumber, CoinId};

/// The state could not be read: the store failed or holds a record that does not decode. Never a
/// verdict on a transaction.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store's own error.
    #[error("reading the state: {0}")]
    Store(String),
    /// A record is not what its format says.
    #[error("the record {key:02x?} does not decode: {source}")]
    Record {
        /// Its key.
        key: Vec<u8>,
        /// Why.
        source: WireError,
    },
    /// A record that every initialised chain has is absent.
    #[error("the record {key:02x?} is missing")]
    Missing {
        /// Its key.
        key: Vec<u8>,
    },
}

/// An immutable view of the state at one height.
pub trait View {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError>;

    /// The id of the last deposit whose first coin is at most `coin`, if this view knows one.
    fn deposit_below(&self, coin: CoinId) -> Option<u64>;
}

/// A coin as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coin {
    /// Its record; of a coin without a key of its own the one that its deposit implies.
    pub record: CoinRecord,
    /// The deposit, where the coin has no key of its own.
    pub deposit: Option<Deposit>,
}

/// Finds a coin in the state at the view's height.
pub fn find_coin(
    view: &impl View,
    domain: &Domain,
    coin: CoinId,
) -> Result<Option<Coin>, ReadError> {
    let key = coin_key(coin);
    if let Some(value) = view.get(&key)? {
        let record = CoinRecord::decode(&value)
            .map_err(|source| ReadError::Record { key: key.to_vec(), source })?;
        return Ok(Some(Coin { record, deposit: None }));
    }
    let Some(deposit_id) = view.deposit_below(coin) else { return Ok(None) };
    let Some(deposit) = find_deposit(view, deposit_id)? else { return Ok(None) };
    Ok(deposit.contains(coin).then(|| Coin {
        record: CoinRecord::unmoved(&deposit.state(coin, domain)),
        deposit: Some(deposit),
    }))
}

fn find_deposit(view: &impl View, deposit_id: u64) -> Result<Option<Deposit>, ReadError> {
    let key = deposit_key(deposit_id);
    let Some(value) = view.get(&key)? else { return Ok(None) };
    decode_deposit(deposit_id, &value)
        .map(Some)
        .map_err(|source| ReadError::Record { key: key.to_vec(), source })
}

/// Judges a transfer in plasma block `block` against its coin, in the order of the codes, up to
/// but without the recovery of the signer: on success the caller compares the signer of the
/// returned message with `coin.record.owner`.
pub fn judge(
    transfer: &WireTransfer,
    coin: Option<&Coin>,
    block: BlockNumber,
    domain: &Domain,
) -> Result<SignedTransfer, Code> {
    let Some(Coin { record, .. }) = coin else { return Err(Code::UnknownCoin) };
    if record.gone {
        return Err(Code::Gone);
    }
    if record.frozen {
        return Err(Code::Frozen);
    }
    if record.block >= block {
        return Err(Code::MovedInOpenBlock);
    }
    if transfer.max_block < block {
        return Err(Code::Expired);
    }
    if !owner_allowed(transfer.new_owner, domain) {
        return Err(Code::BadNewOwner);
    }
    Ok(transfer.spending(record.block, record.hash))
}
