//! Vote extensions: making this validator's and reading those of the last commit.
//!
//! Extensions of late precommits are never verified by CometBFT, so PrepareProposal verifies
//! everything again; what is bad or absent counts as empty and never fails a proposal.

use std::collections::BTreeMap;

use plasma_core::BlockNumber;
use plasma_core::certificate::{ATTESTATION_REACH, Certificate, attestation_digest};
use plasma_core::event::{OBSERVATION_REACH, observation_digest};
use plasma_core::event_window::EventWindow;
use plasma_core::extension::{Attestation, Observation, VoteExtension, limit};
use plasma_core::proposal::Observed;
use plasma_core::signature::{Signature, SigningKey};
use plasma_ledger::{ReadError, Verifier, chain_hash_at};
use sha2::{Digest, Sha256};
use tendermint_proto::v0_38::abci::ExtendedCommitInfo;
use tendermint_proto::v0_38::types::BlockIdFlag;

use crate::committed::Committed;

/// The highest block that can be attested over this state; none if nothing is left to attest.
fn attestable(view: &Committed) -> Option<BlockNumber> {
    let tip = &view.tip;
    let number = tip.last_closed.min(tip.last_certified + ATTESTATION_REACH);
    (number > tip.last_certified).then_some(number)
}

/// This validator's extension over the committed state `view`; empty without a root key. Signs
/// only what is committed, never the block being voted on.
pub fn extend(view: &Committed, key: Option<&SigningKey>, events: &EventWindow) -> Vec<u8> {
    let Some(key) = key else { return Vec::new() };
    let chain = &view.chain;
    let attestation = attestable(view).and_then(|number| {
        let hash = chain_hash_at(view, &view.chain.domain, number)
            .inspect_err(|error| tracing::error!(%error, number, "no attestation"))
            .ok()?;
        let digest = attestation_digest(&chain.domain, number, hash, chain.validators.id());
        Some(Attestation { number, signature: key.sign(digest) })
    });
    let cursor = view.tip.event_count;
    let event_count = events.count().min(cursor.saturating_add(OBSERVATION_REACH));
    let observation =
        events.hash_at(event_count).filter(|_| event_count > cursor).map(|event_hash| {
            let digest = observation_digest(&chain.domain, event_count, event_hash);
            Observation { event_count, event_hash, signature: key.sign(digest) }
        });
    VoteExtension { attestation, observation }.encode(chain.params.extension_pad_bytes)
}

/// What the extensions of the last commit are good for.
#[derive(Debug, Default)]
pub struct Gathered {
    /// A certificate of the highest block that more than two thirds attested.
    pub certificate: Option<Certificate>,
    /// Observations that advance the cursor; empty unless more than two thirds observed events.
    pub observations: Vec<Observed>,
    /// The events up to the highest observation.
    pub events: Vec<Vec<u8>>,
}

/// The extensions of a commit by validator index, ascending.
fn extensions(view: &Committed, commit: &ExtendedCommitInfo) -> Vec<(usize, VoteExtension)> {
    let params = &view.chain.params;
    let mut indices: BTreeMap<[u8; 20], usize> = BTreeMap::new();
    for (i, validator) in view.chain.validators.validators().iter().enumerate() {
        let hash: [u8; 32] = Sha256::digest(validator.consensus_key).into();
        let mut address = [0; 20];
        address.copy_from_slice(&hash[..20]);
        indices.insert(address, i);
    }
    let mut found = BTreeMap::new();
    for vote in &commit.votes {
        let index = vote.validator.as_ref().and_then(|v| indices.get(v.address.as_ref()));
        let committed = vote.block_id_flag == BlockIdFlag::Commit as i32;
        let Some(index) = index.filter(|_| committed) else { continue };
        if vote.vote_extension.len() > limit(params.extension_pad_bytes) {
            continue;
        }
        match VoteExtension::decode(&vote.vote_extension, params.extension_pad_bytes) {
            Ok(extension) => {
                found.insert(*index, extension);
            }
            Err(error) => tracing::warn!(%error, validator = index, "bad vote extension"),
        }
    }
    found.into_iter().collect()
}

/// Reads and verifies the extensions of the last commit.
pub fn gather(
    view: &Committed,
    commit: Option<&ExtendedCommitInfo>,
    window: &EventWindow,
    verifier: &impl Verifier,
) -> Result<Gathered, ReadError> {
    let Some(commit) = commit else { return Ok(Gathered::default()) };
    let extensions = extensions(view, commit);
    let certificate = gather_certificate(view, &extensions, verifier)?;
    let (observations, events) = gather_observations(view, &extensions, window, verifier);
    Ok(Gathered { certificate, observations, events })
}

fn gather_certificate(
    view: &Committed,
    extensions: &[(usize, VoteExtension)],
    verifier: &impl Verifier,
) -> Result<Option<Certificate>, ReadError> {
    let Some(highest) = attestable(view) else { return Ok(None) };
    let set = &view.chain.validators;
    let mut by_block: BTreeMap<BlockNumber, Vec<(usize, Signature)>> = BTreeMap::new();
    for (index, extension) in extensions {
        if let Some(a) = extension.attestation
            && a.number > view.tip.last_certified
            && a.number <= highest
        {
            by_block.entry(a.number).or_default().push((*index, a.signature));
        }
    }
    for (number, mut signed) in by_block.into_iter().rev() {
        let hash = chain_hash_at(view, &view.chain.domain, number)?;
        let digest = attestation_digest(&view.chain.domain, number, hash, set.id());
        let digests: Vec<_> = signed.iter().map(|(_, signature)| (digest, *signature)).collect();
        let mut signers = verifier.recover_all(&digests).into_iter();
        signed.retain(|(i, _)| signers.next().flatten() == Some(set.validators()[*i].root_key));
        let power = signed.iter().map(|(i, _)| u128::from(set.validators()[*i].power)).sum();
        if set.is_quorum(power) {
            return Ok(Some(Certificate::new(number, set.len(), &signed)));
        }
    }
    Ok(None)
}

/// The observations that agree with this node's own reading of the queue, and their events.
fn gather_observations(
    view: &Committed,
    extensions: &[(usize, VoteExtension)],
    window: &EventWindow,
    verifier: &impl Verifier,
) -> (Vec<Observed>, Vec<Vec<u8>>) {
    let cursor = view.tip.event_count;
    let set = &view.chain.validators;
    let mut candidates: Vec<(usize, Observation)> = extensions
        .iter()
        .filter_map(|(index, extension)| Some((*index, extension.observation?)))
        .filter(|(_, o)| {
            o.event_count > cursor
                && o.event_count <= cursor.saturating_add(OBSERVATION_REACH)
                && window.hash_at(o.event_count) == Some(o.event_hash)
        })
        .collect();
    let digests: Vec<_> = candidates
        .iter()
        .map(|(_, o)| {
            let digest = observation_digest(&view.chain.domain, o.event_count, o.event_hash);
            (digest, o.signature)
        })
        .collect();
    let mut signers = verifier.recover_all(&digests).into_iter();
    candidates.retain(|(i, _)| signers.next().flatten() == Some(set.validators()[*i].root_key));
    let power = candidates.iter().map(|(i, _)| u128::from(set.validators()[*i].power)).sum();
    let highest = candidates.iter().map(|(_, o)| o.event_count).max();
    // Every candidate observed at least one event, so this power is what moves the cursor.
    let events = highest
        .filter(|_| set.is_quorum(power))
        .and_then(|highest| window.events(cursor + 1, highest));
    let Some(events) = events else { return Default::default() };
    let observations = candidates
        .into_iter()
        .map(|(validator, o)| Observed {
            validator,
            event_count: o.event_count,
            signature: o.signature,
        })
        .collect();
    (observations, events.iter().map(|e| e.to_vec()).collect())
}
