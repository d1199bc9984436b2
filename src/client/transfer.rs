//! Signing transfers.

use plasma_core::coin::CoinState;
use plasma_core::domain::Domain;
use plasma_core::signature::SigningKey;
use plasma_core::transfer::{SignedTransfer, Transfer};
use plasma_core::{Address, BlockNumber};
use sha2::{Digest, Sha256};

/// Signs the transfer that spends `state`. The caller has verified that state, has no other live
/// signature over it, and keeps `max_block` short.
pub fn sign(
    state: &CoinState,
    new_owner: Address,
    max_block: BlockNumber,
    key: &SigningKey,
    domain: &Domain,
) -> SignedTransfer {
    Transfer::spending(state, new_owner, max_block).sign(key, domain)
}

/// CometBFT's hash of a transaction: SHA-256 of its bytes.
pub fn tx_hash(tx: &[u8]) -> [u8; 32] {
    Sha256::digest(tx).into()
}
