//! Keys and transactions of tests.

use plasma_core::Address;
use plasma_core::coin::CoinState;
use plasma_core::domain::Domain;
use plasma_core::signature::SigningKey;
use plasma_core::transfer::{SignedTransfer, Transfer};
use plasma_core::tx::Tx;

/// The `seed`-th key; seeds above 0.
///
/// # Panics
/// For seed 0.
pub fn key(seed: u64) -> SigningKey {
    let mut bytes = [0; 32];
    bytes[24..].copy_from_slice(&seed.to_be_bytes());
    // INVARIANT: small numbers above zero are keys.
    #[allow(clippy::expect_used)]
    SigningKey::from_bytes(bytes).expect("a seed above zero")
}

/// A signed transfer of `state`.
pub fn sign(
    state: &CoinState,
    to: Address,
    max_block: u64,
    key: &SigningKey,
    domain: &Domain,
) -> SignedTransfer {
    Transfer::spending(state, to, max_block).sign(key, domain)
}

/// The bytes of a single transfer.
pub fn single(transfer: &SignedTransfer) -> Vec<u8> {
    Tx::Transfer(transfer.wire()).encode()
}

/// The bytes of a bundle of transfers with ascending coins.
pub fn bundle(transfers: &[SignedTransfer]) -> Vec<u8> {
    Tx::Bundle(transfers.iter().map(SignedTransfer::wire).collect()).encode()
}
