//! The `proposal` transaction, first in every block (protocol.md section 6).
//!
//! | field | bytes |
//! |---|---|
//! | kind, version | `00 01` |
//! | number of the plasma block that closes at this height, 0 = none | varint |
//! | its root, only if one closes | 32 |
//! | certificate flag, certificate if 1 | 1, see [`crate::certificate`] |
//! | observations | varint k, k times (varint validator, varint eventCount, signature:64) |
//! | events | varint j, j times (varint length, e) |
//!
//! Chain and event hashes are recomputed, never carried.

use alloy_primitives::B256;

use crate::BlockNumber;
use crate::certificate::Certificate;
use crate::event::{EVENT_BYTES_MAX, OBSERVATION_REACH};
use crate::signature::Signature;
use crate::tx::KIND_PROPOSAL;
use crate::wire::{Reader, WireError, put_varint};

const VERSION: u8 = 1;

/// An observation as a proposal carries it: the hash is recomputed from the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// Validator index in the root-key set.
    pub validator: usize,
    /// Events it has read.
    pub event_count: u64,
    /// Over [`crate::event::observation_digest`].
    pub signature: Signature,
}

/// What the proposer says about the chain itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proposal {
    /// The plasma block that closes at this height, with its root.
    pub closing: Option<(BlockNumber, B256)>,
    /// A certificate above the last certified block.
    pub certificate: Option<Certificate>,
    /// At most one a validator, ascending.
    pub observations: Vec<Observed>,
    /// The events c+1 ..= the largest observed count.
    pub events: Vec<Vec<u8>>,
}

impl Proposal {
    /// The transaction's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![KIND_PROPOSAL, VERSION];
        match &self.closing {
            None => out.push(0),
            Some((number, root)) => {
                put_varint(&mut out, *number);
                out.extend_from_slice(root.as_slice());
            }
        }
        out.push(u8::from(self.certificate.is_some()));
        if let Some(certificate) = &self.certificate {
            certificate.encode(&mut out);
        }
        put_varint(&mut out, self.observations.len() as u64);
        for observed in &self.observations {
            put_varint(&mut out, observed.validator as u64);
            put_varint(&mut out, observed.event_count);
            out.extend_from_slice(&observed.signature.0);
        }
        put_varint(&mut out, self.events.len() as u64);
        for event in &self.events {
            put_varint(&mut out, event.len() as u64);
            out.extend_from_slice(event);
        }
        out
    }

    /// Reads a proposal of a chain with `validators`. Checks structure: order and limits of the
    /// lists; what they say is judged by the ledger.
    pub fn decode(bytes: &[u8], validators: usize) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        for (what, expected) in [("kind", KIND_PROPOSAL), ("proposal version", VERSION)] {
            let value = reader.u8()?;
            if value != expected {
                return Err(WireError::Value { what, value: value.into() });
            }
        }
        let closing = match reader.varint()? {
            0 => None,
            number => Some((number, reader.hash()?)),
        };
        let certificate = match reader.u8()? {
            0 => None,
            1 => Some(Certificate::decode(&mut reader, validators)?),
            flag => {
                return Err(WireError::Value { what: "certificate flag", value: flag.into() });
            }
        };
        let observations = read_observations(&mut reader, validators)?;
        let events = read_events(&mut reader)?;
        reader.finish()?;
        Ok(Self { closing, certificate, observations, events })
    }
}

fn read_observations(
    reader: &mut Reader<'_>,
    validators: usize,
) -> Result<Vec<Observed>, WireError> {
    let count = reader.varint()?;
    if count > validators as u64 {
        return Err(WireError::Value { what: "observation count", value: count });
    }
    let mut observations: Vec<Observed> = Vec::new();
    for _ in 0..count {
        let validator = reader.varint()?;
        let ascends = observations.last().is_none_or(|last| last.validator < validator as usize);
        if validator >= validators as u64 || !ascends {
            return Err(WireError::Value { what: "validator index", value: validator });
        }
        observations.push(Observed {
            validator: validator as usize,
            event_count: reader.varint()?,
            signature: Signature(reader.array()?),
        });
    }
    Ok(observations)
}

fn read_events(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, WireError> {
    let count = reader.varint()?;
    if count > OBSERVATION_REACH {
        return Err(WireError::Value { what: "event count", value: count });
    }
    let mut events = Vec::new();
    for _ in 0..count {
        let length = reader.varint()?;
        if length > EVENT_BYTES_MAX as u64 {
            return Err(WireError::Value { what: "event length", value: length });
        }
        events.push(reader.take(length as usize)?.to_vec());
    }
    Ok(events)
}
