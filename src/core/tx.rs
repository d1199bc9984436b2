//! CometBFT transactions: one kind byte and a body (protocol.md section 2).
//!
//! | kind | body |
//! |---|---|
//! | 0 `proposal` | see [`crate::proposal`]; made by a block's proposer only |
//! | 1 `transfer` | `T` |
//! | 2 `bundle` | varint count, count times `T` with strictly ascending coins |
//!
//! A bundle has at most 524,288 bytes with its kind byte and 1 to 5,000 transfers. Decoding checks
//! structure only; what executes is judged by the ledger.

use crate::code::Code;
use crate::transfer::WireTransfer;
use crate::wire::{Reader, WireError, put_varint};

/// Kind byte of the proposal transaction.
pub const KIND_PROPOSAL: u8 = 0;
/// Kind byte of a single transfer.
pub const KIND_TRANSFER: u8 = 1;
/// Kind byte of a bundle.
pub const KIND_BUNDLE: u8 = 2;

/// Most bytes of a bundle, kind byte included.
pub const BUNDLE_BYTES_MAX: usize = 524_288;
/// Most transfers of a bundle.
pub const BUNDLE_TRANSFERS_MAX: usize = 5_000;

/// A transaction that anyone may send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tx {
    /// One transfer; it executes or the transaction is invalid.
    Transfer(WireTransfer),
    /// Transfers of different coins, ascending; at least half must execute.
    Bundle(Vec<WireTransfer>),
}

/// Why bytes are no transaction that anyone may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TxError {
    /// No bytes.
    #[error("the transaction is empty")]
    Empty,
    /// ASCII hex instead of bytes.
    #[error("the bytes are hex text: drop the quotes around 0x...")]
    QuotedHex,
    /// Kind 0.
    #[error("a proposal transaction is made by the proposer alone")]
    ProposalNotAllowed,
    /// A bundle above its limits.
    #[error("a bundle of {bytes} bytes, {transfers} transfers exceeds the limits")]
    TooLarge {
        /// Bytes with the kind byte.
        bytes: usize,
        /// Transfers that it announces; 0 if the bytes alone are too many.
        transfers: u64,
    },
    /// Unknown kind byte.
    #[error("unknown transaction kind {0}")]
    Kind(u8),
    /// A body that does not decode.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Coins of a bundle do not ascend.
    #[error("coin {coin} of the bundle does not ascend")]
    NotAscending {
        /// The first coin that is not above its predecessor.
        coin: u64,
    },
}

impl TxError {
    /// The ABCI code of this refusal.
    pub const fn code(&self) -> Code {
        match self {
            Self::Empty => Code::Empty,
            Self::QuotedHex => Code::QuotedHex,
            Self::ProposalNotAllowed => Code::ProposalNotAllowed,
            Self::TooLarge { .. } => Code::TooLarge,
            Self::Kind(_) | Self::Wire(_) | Self::NotAscending { .. } => Code::Malformed,
        }
    }
}

impl Tx {
    /// The bytes to broadcast.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Transfer(transfer) => {
                out.push(KIND_TRANSFER);
                transfer.encode(&mut out);
            }
            Self::Bundle(transfers) => {
                out.push(KIND_BUNDLE);
                put_varint(&mut out, transfers.len() as u64);
                for transfer in transfers {
                    transfer.encode(&mut out);
                }
            }
        }
        out
    }

    /// Reads a transaction that came from outside.
    pub fn decode(bytes: &[u8]) -> Result<Self, TxError> {
        let mut reader = Reader::new(bytes);
        let tx = match bytes.first() {
            None => return Err(TxError::Empty),
            Some(&KIND_PROPOSAL) => return Err(TxError::ProposalNotAllowed),
            Some(&KIND_TRANSFER) => {
                reader.u8()?;
                Self::Transfer(WireTransfer::decode(&mut reader)?)
            }
            Some(&KIND_BUNDLE) => {
                reader.u8()?;
                Self::Bundle(decode_bundle(&mut reader, bytes.len())?)
            }
            Some(_) if is_hex_text(bytes) => return Err(TxError::QuotedHex),
            Some(&kind) => return Err(TxError::Kind(kind)),
        };
        reader.finish()?;
        Ok(tx)
    }

    /// The transfers, in order.
    pub fn transfers(&self) -> &[WireTransfer] {
        match self {
            Self::Transfer(transfer) => std::slice::from_ref(transfer),
            Self::Bundle(transfers) => transfers,
        }
    }
}

fn decode_bundle(reader: &mut Reader<'_>, bytes: usize) -> Result<Vec<WireTransfer>, TxError> {
    if bytes > BUNDLE_BYTES_MAX {
        return Err(TxError::TooLarge { bytes, transfers: 0 });
    }
    let count = reader.varint()?;
    if count > BUNDLE_TRANSFERS_MAX as u64 {
        return Err(TxError::TooLarge { bytes, transfers: count });
    }
    if count == 0 {
        return Err(WireError::Value { what: "bundle count", value: 0 }.into());
    }
    // The capacity is bounded by the bytes that are really there.
    let mut transfers: Vec<WireTransfer> = Vec::with_capacity(
        (count as usize).min(reader.remaining() / WireTransfer::ENCODED_LEN_MIN),
    );
    for _ in 0..count {
        let transfer = WireTransfer::decode(reader)?;
        if transfers.last().is_some_and(|last| last.coin >= transfer.coin) {
            return Err(TxError::NotAscending { coin: transfer.coin });
        }
        transfers.push(transfer);
    }
    Ok(transfers)
}

/// `?tx="0x01..."` reaches the application as the ASCII of the text in quotes.
fn is_hex_text(bytes: &[u8]) -> bool {
    let digits = bytes.strip_prefix(b"0x").or_else(|| bytes.strip_prefix(b"0X")).unwrap_or(bytes);
    digits.len() >= 2 && digits.iter().all(u8::is_ascii_hexdigit)
}

/// Bitmap of executed bundle members: bit i mod 8, least significant first, of byte i / 8; empty
/// if all executed (the result data of a bundle).
pub fn executed_bitmap(executed: &[bool]) -> Vec<u8> {
    if executed.iter().all(|done| *done) {
        return Vec::new();
    }
    let mut bitmap = vec![0u8; executed.len().div_ceil(8)];
    for (i, _) in executed.iter().enumerate().filter(|(_, done)| **done) {
        bitmap[i / 8] |= 1 << (i % 8);
    }
    bitmap
}
