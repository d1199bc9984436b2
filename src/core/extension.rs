//! Vote extensions (protocol.md section 6, formats.md "Transactions and extension").
//!
//! | field | bytes |
//! |---|---|
//! | version | `01` |
//! | flags: bit 0 attestation, bit 1 observation | 1 |
//! | attestation, if flagged | varint n, signature:64 |
//! | observation, if flagged | varint count, hash:32, signature:64 |
//! | padding, only if the genesis parameter asks for it | zeros |
//!
//! Nothing to say is zero bytes; flags 0 is never sent.

use alloy_primitives::B256;

use crate::BlockNumber;
use crate::signature::Signature;
use crate::wire::{Reader, WireError, put_varint};

/// Most bytes of an extension unless padding asks for more.
pub const EXTENSION_BYTES_MAX: usize = 256;

const VERSION: u8 = 1;
const HAS_ATTESTATION: u8 = 1;
const HAS_OBSERVATION: u8 = 2;

/// A validator's signature of a closed block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attestation {
    /// The block.
    pub number: BlockNumber,
    /// Over [`crate::certificate::attestation_digest`].
    pub signature: Signature,
}

/// A validator's signature of what it has read of the contract's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// Events read.
    pub event_count: u64,
    /// Hash of the queue at that count.
    pub event_hash: B256,
    /// Over [`crate::event::observation_digest`].
    pub signature: Signature,
}

/// What rides on a precommit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VoteExtension {
    /// If there is a block to attest.
    pub attestation: Option<Attestation>,
    /// If the validator is ahead of the chain's cursor.
    pub observation: Option<Observation>,
}

/// Most bytes of an extension under the genesis parameter `extension_pad_bytes`.
pub fn limit(pad_bytes: u64) -> usize {
    EXTENSION_BYTES_MAX.max(usize::try_from(pad_bytes).unwrap_or(usize::MAX))
}

impl VoteExtension {
    /// The bytes to vote with; a non-empty one is padded to `pad_bytes`.
    pub fn encode(&self, pad_bytes: u64) -> Vec<u8> {
        let mut out = Vec::new();
        if self.attestation.is_none() && self.observation.is_none() {
            return out;
        }
        out.push(VERSION);
        out.push(
            if self.attestation.is_some() { HAS_ATTESTATION } else { 0 }
                | if self.observation.is_some() { HAS_OBSERVATION } else { 0 },
        );
        if let Some(attestation) = &self.attestation {
            put_varint(&mut out, attestation.number);
            out.extend_from_slice(&attestation.signature.0);
        }
        if let Some(observation) = &self.observation {
            put_varint(&mut out, observation.event_count);
            out.extend_from_slice(observation.event_hash.as_slice());
            out.extend_from_slice(&observation.signature.0);
        }
        out.resize(out.len().max(usize::try_from(pad_bytes).unwrap_or(0)), 0);
        out
    }

    /// Reads an extension; zero bytes are the empty one.
    pub fn decode(bytes: &[u8], pad_bytes: u64) -> Result<Self, WireError> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            VERSION => {}
            other => {
                return Err(WireError::Value { what: "extension version", value: other.into() });
            }
        }
        let flags = reader.u8()?;
        if flags == 0 || flags > (HAS_ATTESTATION | HAS_OBSERVATION) {
            return Err(WireError::Value { what: "extension flags", value: flags.into() });
        }
        let mut extension = Self::default();
        if flags & HAS_ATTESTATION != 0 {
            extension.attestation = Some(Attestation {
                number: reader.varint()?,
                signature: Signature(reader.array()?),
            });
        }
        if flags & HAS_OBSERVATION != 0 {
            extension.observation = Some(Observation {
                event_count: reader.varint()?,
                event_hash: reader.hash()?,
                signature: Signature(reader.array()?),
            });
        }
        if pad_bytes > 0 {
            let padding = reader.take(reader.remaining())?;
            if padding.iter().any(|byte| *byte != 0) {
                return Err(WireError::Trailing { extra: padding.len() });
            }
        }
        reader.finish()?;
        Ok(extension)
    }
}
