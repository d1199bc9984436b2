//! Roots of plasma blocks that Ethereum does not have yet, by the validators' certificates
//! (protocol.md section 4): worth more than two thirds of their power, not finality.
//!
//! The chain of hashes starts at the contract's own, so that one certificate covers every root
//! from there on; the validators are those whose hash the contract keeps.

use std::collections::BTreeMap;

use plasma_core::block::chain_hash;
use plasma_core::certificate::{CertificateError, attestation_digest};
use plasma_core::domain::Domain;
use plasma_core::{B256, BlockNumber};

use crate::rpc::{NodeClient, RpcError};

/// Most blocks that validators may be ahead of Ethereum; more is no root chain to rely on, and a
/// node must not make its client ask for ever.
const AHEAD_MAX: u64 = 10_000;

/// What the contract says, at one block of Ethereum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Number of the last stored plasma block.
    pub last_block: BlockNumber,
    /// Its chain hash.
    pub chain_hash: B256,
    /// Hash of the validator set.
    pub set_hash: B256,
}

/// Why a node's newest roots count for nothing.
#[derive(Debug, thiserror::Error)]
pub enum CertifiedError {
    /// The node's validators are not the contract's.
    #[error("the node's validators hash to {found}, the contract's to {expected}")]
    WrongSet {
        /// The contract's hash.
        expected: B256,
        /// The hash of the node's list.
        found: B256,
    },
    /// The validators are too far ahead.
    #[error("block {newest} is said to be certified, Ethereum has {last}: too far behind")]
    TooFar {
        /// The last block on Ethereum.
        last: BlockNumber,
        /// The certified block.
        newest: BlockNumber,
    },
    /// The node does not show a block, or the certificate, that it says to have.
    #[error("block {0}: the node does not show it, or its certificate")]
    Missing(BlockNumber),
    /// The certificate does not fit the roots.
    #[error("block {block}: the certificate does not pass: {source}")]
    Certificate {
        /// The certified block.
        block: BlockNumber,
        /// Why.
        source: CertificateError,
    },
    /// The node failed.
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

/// The roots above `stored.last_block` that the newest certificate covers, by number.
pub async fn certified_roots(
    node: &NodeClient,
    domain: &Domain,
    stored: &Stored,
) -> Result<BTreeMap<BlockNumber, B256>, CertifiedError> {
    let mut roots = BTreeMap::new();
    let newest = node.tip().await?.last_certified;
    if newest <= stored.last_block {
        return Ok(roots);
    }
    let set = node.validators().await?;
    if set.hash() != stored.set_hash {
        return Err(CertifiedError::WrongSet { expected: stored.set_hash, found: set.hash() });
    }
    let certificate = node.certificate_from(newest, set.len()).await?;
    let certificate = certificate.ok_or(CertifiedError::Missing(newest))?;
    let newest = certificate.number;
    if newest - stored.last_block > AHEAD_MAX {
        return Err(CertifiedError::TooFar { last: stored.last_block, newest });
    }
    let mut hash = stored.chain_hash;
    for number in stored.last_block + 1..=newest {
        let block = node.block(number).await?.ok_or(CertifiedError::Missing(number))?;
        hash = chain_hash(hash, number, block.root);
        roots.insert(number, block.root);
    }
    let digest = attestation_digest(domain, newest, hash, set.id());
    let verified =
        certificate.verify(&set, digest, |digest, signature| signature.recover(digest).ok());
    verified.map_err(|source| CertifiedError::Certificate { block: newest, source })?;
    Ok(roots)
}
