//! secp256k1 signatures in the compact form of EIP-2098.
//!
//! `r:32 || s:32` with the top bit of s = yParity. Valid iff 0 < r < N, 0 < s <= N/2 and the
//! recovered address is not 0. The contract applies the same rules.

use std::fmt;
use std::sync::LazyLock;

use alloy_primitives::{Address, B256, U256, keccak256};
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{All, Message, PublicKey, Secp256k1, SecretKey};

static SECP: LazyLock<Secp256k1<All>> = LazyLock::new(Secp256k1::new);

/// Half of the group order, rounded down: the highest s that is accepted.
const HALF_ORDER: U256 = U256::from_be_bytes([
    0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0x5d, 0x57, 0x6e, 0x73, 0x57, 0xa4, 0x50, 0x1d, 0xdf, 0xe9, 0x2f, 0x46, 0x68, 0x1b, 0x20, 0xa0,
]);

/// The signature's r, s or recovered point is outside what the protocol allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed signature")]
pub struct BadSignature;

/// A compact signature as it travels; not necessarily a valid one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature(pub [u8; 64]);

impl Signature {
    /// 64 zero bytes, the place holder of a coin that never moved; never valid.
    pub const ZERO: Self = Self([0; 64]);

    /// The address whose key made this signature over `digest`.
    pub fn recover(&self, digest: B256) -> Result<Address, BadSignature> {
        let mut plain = self.0;
        let parity = plain[32] >> 7;
        plain[32] &= 0x7f;
        let s = U256::from_be_slice(&plain[32..]);
        if s.is_zero() || s > HALF_ORDER || plain[..32].iter().all(|byte| *byte == 0) {
            return Err(BadSignature);
        }
        let id = if parity == 1 { RecoveryId::One } else { RecoveryId::Zero };
        let signature = RecoverableSignature::from_compact(&plain, id).map_err(|_| BadSignature)?;
        let key = SECP
            .recover_ecdsa(Message::from_digest(digest.0), &signature)
            .map_err(|_| BadSignature)?;
        match address_of(&key) {
            Address::ZERO => Err(BadSignature),
            address => Ok(address),
        }
    }
}

fn address_of(key: &PublicKey) -> Address {
    Address::from_slice(&keccak256(&key.serialize_uncompressed()[1..])[12..])
}

/// A secp256k1 key that signs digests: a coin owner's or a validator's root key.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(SecretKey);

impl SigningKey {
    /// Takes 32 secret bytes; refuses zero and values at or above the group order.
    pub fn from_bytes(bytes: [u8; 32]) -> Result<Self, BadKey> {
        SecretKey::from_byte_array(bytes).map(Self).map_err(|_| BadKey)
    }

    /// The 32 secret bytes, for a keystore.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.secret_bytes()
    }

    /// The Ethereum address of this key.
    pub fn address(&self) -> Address {
        address_of(&PublicKey::from_secret_key(&SECP, &self.0))
    }

    /// Signs a digest, low s, deterministically (RFC 6979).
    pub fn sign(&self, digest: B256) -> Signature {
        let (id, mut bytes) = SECP
            .sign_ecdsa_recoverable(Message::from_digest(digest.0), &self.0)
            .serialize_compact();
        // libsecp256k1 signs with low s, so the top bit is free for the parity.
        if matches!(id, RecoveryId::One | RecoveryId::Three) {
            bytes[32] |= 0x80;
        }
        Signature(bytes)
    }
}

/// Bytes that are no secp256k1 secret key. Carries nothing: the bytes are a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a secp256k1 secret key")]
pub struct BadKey;

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.address())
    }
}
