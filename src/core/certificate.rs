//! Attestations and certificates: validators sign closed roots (protocol.md section 4).
//!
//! Attestation: EIP-712 `RootAttestation(uint64 blockNumber,bytes32 chainHash,uint64
//! validatorSetId)`, signed by the root key.
//!
//! | field of a certificate | bytes |
//! |---|---|
//! | block number n | varint |
//! | bitmap: validator i is bit i mod 8, least significant first, of byte i / 8 | validators / 8 |
//! | signatures, ascending i | 64 for each bit |

use std::sync::LazyLock;

use alloy_primitives::{Address, B256, keccak256};

use crate::BlockNumber;
use crate::domain::{Domain, Words};
use crate::signature::Signature;
use crate::validators::ValidatorSet;
use crate::wire::{Reader, WireError, put_varint};

/// How far above the last certified block an attestation may reach.
pub const ATTESTATION_REACH: u64 = 256;
/// Blocks of one window; the state keeps the highest certificate of each.
pub const WINDOW: u64 = 256;

static ATTESTATION_TYPE: LazyLock<B256> = LazyLock::new(|| {
    keccak256("RootAttestation(uint64 blockNumber,bytes32 chainHash,uint64 validatorSetId)")
});

/// What a validator signs for block `number`.
pub fn attestation_digest(
    domain: &Domain,
    number: BlockNumber,
    chain_hash: B256,
    set_id: u64,
) -> B256 {
    let mut words = Words::new(*ATTESTATION_TYPE);
    words.u64(number);
    words.hash(chain_hash);
    words.u64(set_id);
    domain.digest(words.keccak())
}

/// Signatures of one block's chain hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The block that is attested, and with it every earlier one.
    pub number: BlockNumber,
    /// Who signed.
    pub bitmap: Vec<u8>,
    /// The signatures of the bitmap's validators, ascending.
    pub signatures: Vec<Signature>,
}

/// Why a certificate proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Wrong length, spare bits, or another number of signatures.
    #[error(
        "bitmap of {bytes} bytes and {signatures} signatures do not fit {validators} validators"
    )]
    Shape {
        /// Length of the bitmap.
        bytes: usize,
        /// Number of signatures.
        signatures: usize,
        /// Validators in the set.
        validators: usize,
    },
    /// A signature is not its validator's.
    #[error("the signature of validator {0} is not over this block's chain hash")]
    Signature(usize),
    /// Not more than two thirds.
    #[error("power {0} is not more than two thirds")]
    Power(u128),
}

impl Certificate {
    /// Gathers signatures by ascending validator index.
    pub fn new(number: BlockNumber, validators: usize, signed: &[(usize, Signature)]) -> Self {
        debug_assert!(signed.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let mut bitmap = vec![0u8; validators.div_ceil(8)];
        for (i, _) in signed {
            bitmap[i / 8] |= 1 << (i % 8);
        }
        Self { number, bitmap, signatures: signed.iter().map(|(_, s)| *s).collect() }
    }

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number);
        out.extend_from_slice(&self.bitmap);
        for signature in &self.signatures {
            out.extend_from_slice(&signature.0);
        }
    }

    /// Reads a certificate of a set of `validators`.
    pub fn decode(reader: &mut Reader<'_>, validators: usize) -> Result<Self, WireError> {
        let number = reader.varint()?;
        let bitmap = reader.take(validators.div_ceil(8))?.to_vec();
        let bits: u32 = bitmap.iter().map(|byte| byte.count_ones()).sum();
        let mut signatures = Vec::with_capacity(bits.min(validators as u32) as usize);
        for _ in 0..bits {
            signatures.push(Signature(reader.array()?));
        }
        Ok(Self { number, bitmap, signatures })
    }

    /// The signing validators with their signatures, ascending.
    pub fn signed(&self) -> impl Iterator<Item = (usize, Signature)> + '_ {
        let set = (0..self.bitmap.len() * 8).filter(|i| self.bitmap[i / 8] >> (i % 8) & 1 == 1);
        set.zip(self.signatures.iter().copied())
    }

    /// Checks it against `digest` (see [`attestation_digest`]); `recover` gives the signer of a
    /// digest, so that a caller may remember what it has verified.
    pub fn verify(
        &self,
        set: &ValidatorSet,
        digest: B256,
        mut recover: impl FnMut(B256, Signature) -> Option<Address>,
    ) -> Result<(), CertificateError> {
        let bits: usize = self.bitmap.iter().map(|byte| byte.count_ones() as usize).sum();
        let spare =
            (set.len()..self.bitmap.len() * 8).any(|i| self.bitmap[i / 8] >> (i % 8) & 1 == 1);
        if self.bitmap.len() != set.len().div_ceil(8) || bits != self.signatures.len() || spare {
            return Err(CertificateError::Shape {
                bytes: self.bitmap.len(),
                signatures: self.signatures.len(),
                validators: set.len(),
            });
        }
        let mut power = 0u128;
        for (i, signature) in self.signed() {
            let validator = &set.validators()[i];
            if recover(digest, signature) != Some(validator.root_key) {
                return Err(CertificateError::Signature(i));
            }
            power += u128::from(validator.power);
        }
        if set.is_quorum(power) { Ok(()) } else { Err(CertificateError::Power(power)) }
    }
}
