//! Reading the state at one height, and judging a transfer against it.

use plasma_core::block::chain_hash_genesis;
use plasma_core::code::Code;
use plasma_core::coin::Deposit;
use plasma_core::domain::Domain;
use plasma_core::state::{
    BlockRecord, CoinRecord, block_key, coin_key, decode_deposit, deposit_key,
};
use plasma_core::transfer::{SignedTransfer, WireTransfer, owner_allowed};
use plasma_core::wire::WireError;
use plasma_core::{Address, B256, BlockNumber, CoinId};

use crate::Verifier;

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
    if let Some(record) = record(view, &coin_key(coin), CoinRecord::decode)? {
        return Ok(Some(Coin { record, deposit: None }));
    }
    Ok(deposit_of(view, coin)?.map(|deposit| Coin {
        record: CoinRecord::unmoved(&deposit.state(coin, domain)),
        deposit: Some(deposit),
    }))
}

/// The deposit that created a coin, in the state at the view's height.
pub fn deposit_of(view: &impl View, coin: CoinId) -> Result<Option<Deposit>, ReadError> {
    let Some(deposit_id) = view.deposit_below(coin) else { return Ok(None) };
    let decode = |value: &[u8]| decode_deposit(deposit_id, value);
    let deposit = record(view, &deposit_key(deposit_id), decode)?;
    Ok(deposit.filter(|deposit| deposit.contains(coin)))
}

/// A closed plasma block; none if it is not closed.
pub fn closed_block(
    view: &impl View,
    number: BlockNumber,
) -> Result<Option<BlockRecord>, ReadError> {
    record(view, &block_key(number), BlockRecord::decode)
}

/// The chain hash after a closed block (0 = before the first).
pub fn chain_hash_at(
    view: &impl View,
    domain: &Domain,
    number: BlockNumber,
) -> Result<B256, ReadError> {
    if number == 0 {
        return Ok(chain_hash_genesis(domain));
    }
    let block = closed_block(view, number)?;
    let missing = || ReadError::Missing { key: block_key(number).to_vec() };
    Ok(block.ok_or_else(missing)?.chain_hash)
}

/// A record under a key, if there is one.
pub(crate) fn record<T>(
    view: &impl View,
    key: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, WireError>,
) -> Result<Option<T>, ReadError> {
    let Some(value) = view.get(key)? else { return Ok(None) };
    decode(&value).map(Some).map_err(|source| ReadError::Record { key: key.to_vec(), source })
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

/// A transfer that its coin's owner signed and that executes in the block it was judged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authorised {
    /// The owner until now.
    pub from: Address,
    /// The transfer's digest.
    pub hash: B256,
    /// Plasma block of the state that it spends.
    pub prev_block: BlockNumber,
}

/// Judges transfers of different coins against the state before them, signers included. `coin`
/// finds a coin in that state.
pub fn judge_all(
    transfers: &[WireTransfer],
    coin: impl Fn(CoinId) -> Result<Option<Coin>, ReadError>,
    block: BlockNumber,
    domain: &Domain,
    verifier: &impl Verifier,
) -> Result<Vec<Result<Authorised, Code>>, ReadError> {
    let mut verdicts = Vec::with_capacity(transfers.len());
    let mut signed = Vec::with_capacity(transfers.len());
    for transfer in transfers {
        let coin = coin(transfer.coin)?;
        let verdict = judge(transfer, coin.as_ref(), block, domain);
        verdicts.push(verdict.map(|t| {
            let hash = t.transfer.digest(domain);
            signed.push((hash, t.signature));
            let from = coin.map_or(Address::ZERO, |coin| coin.record.owner);
            Authorised { from, hash, prev_block: t.transfer.prev_block }
        }));
    }
    let mut signers = verifier.recover_all(&signed).into_iter();
    for verdict in &mut verdicts {
        if let Ok(Authorised { from, .. }) = *verdict
            && signers.next().flatten() != Some(from)
        {
            *verdict = Err(Code::NotOwner);
        }
    }
    Ok(verdicts)
}
