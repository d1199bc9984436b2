//! Signing transfers: one live signature a coin (exit-game.md "Off-chain rules").

use plasma_core::coin::CoinState;
use plasma_core::domain::Domain;
use plasma_core::signature::SigningKey;
use plasma_core::transfer::{SignedTransfer, Transfer};
use plasma_core::{Address, BlockNumber, CoinId};
use sha2::{Digest, Sha256};

/// Signs the transfer that spends `state`. The caller has verified that state, asked
/// [`may_sign`], and keeps `max_block` short.
pub fn sign(
    state: &CoinState,
    new_owner: Address,
    max_block: BlockNumber,
    key: &SigningKey,
    domain: &Domain,
) -> SignedTransfer {
    Transfer::spending(state, new_owner, max_block).sign(key, domain)
}

/// What a sender may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// Sign: no other signature can be included.
    Sign,
    /// Send again what was signed: it is the same transfer, and lives.
    Again(SignedTransfer),
}

/// Why nothing may be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// Another transfer of this state may still be included.
    #[error(
        "coin {coin} has a live signature to {to}: it can be included until plasma block \
         {max_block} is final on Ethereum without it (numbers stand still on an idle chain)"
    )]
    Live {
        /// The coin.
        coin: CoinId,
        /// To whom it was signed.
        to: Address,
        /// Last block in which that transfer counts.
        max_block: BlockNumber,
    },
    /// A later state than the verified one was signed here before.
    #[error(
        "coin {coin} was signed over in its state of block {signed}, but only that of block \
         {verified} is verified"
    )]
    Behind {
        /// The coin.
        coin: CoinId,
        /// Block of the state that was signed over.
        signed: BlockNumber,
        /// Block of the verified state.
        verified: BlockNumber,
    },
}

/// Whether the owner of `state` may sign it over to `to`. `state` is verified up to now, `last`
/// the last transfer of the coin that was signed, and `final_block` the last block that was
/// checked at Ethereum's finalized block. Without a `max_block` any will do.
pub fn may_sign(
    last: Option<&SignedTransfer>,
    state: &CoinState,
    final_block: BlockNumber,
    to: Address,
    max_block: Option<BlockNumber>,
) -> Result<Permit, SignError> {
    let Some(signed) = last else { return Ok(Permit::Sign) };
    let t = &signed.transfer;
    let coin = state.coin;
    if t.prev_hash != state.hash {
        // A verified later state has spent the one that was signed over.
        return if t.prev_block < state.block {
            Ok(Permit::Sign)
        } else {
            Err(SignError::Behind { coin, signed: t.prev_block, verified: state.block })
        };
    }
    if t.max_block <= final_block {
        return Ok(Permit::Sign);
    }
    if t.new_owner == to && max_block.is_none_or(|block| block == t.max_block) {
        return Ok(Permit::Again(*signed));
    }
    Err(SignError::Live { coin, to: t.new_owner, max_block: t.max_block })
}

/// CometBFT's hash of a transaction: SHA-256 of its bytes.
pub fn tx_hash(tx: &[u8]) -> [u8; 32] {
    Sha256::digest(tx).into()
}
