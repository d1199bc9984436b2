//! Building this proposer's block.

use bytes::Bytes;
use plasma_core::B256;
use plasma_core::proposal::Proposal;
use plasma_core::smt::Leaf;
use plasma_core::tx::Tx;
use plasma_core::wire::varint_len;
use plasma_ledger::{Execution, Hasher, ReadError, Refusal, TxVerdict, Verifier, View};

use crate::committed::Committed;
use crate::votes::Gathered;

/// Bytes that a transaction takes in a block: its protobuf tag, length and bytes.
fn proto_len(bytes: usize) -> u64 {
    (1 + varint_len(bytes as u64) + bytes) as u64
}

/// A mempool transaction with the plasma blocks that its coins have rested.
struct Waiting {
    bytes: Bytes,
    tx: Tx,
    rested: u64,
}

/// Builds the block of the next height over `view`: its proposal transaction and as many of
/// `txs` as execute and fit `max_tx_bytes`. Coins that have rested longest go first.
pub fn build(
    view: &Committed,
    verifier: &impl Verifier,
    hasher: &impl Hasher,
    open_leaves: &[Leaf],
    gathered: Gathered,
    txs: &[Bytes],
    max_tx_bytes: u64,
) -> Result<Vec<Bytes>, Refusal> {
    let height = view.version + 1;
    let mut execution = Execution::new(&view.chain, view, verifier, height)?;
    if let Some(certificate) = &gathered.certificate {
        execution.certificate(certificate)?;
    }
    execution.events(&gathered.observations, &gathered.events)?;

    let Gathered { certificate, observations, events } = gathered;
    let mut proposal =
        // The largest that the closing field can become.
        Proposal { closing: Some((u64::MAX, B256::ZERO)), certificate, observations, events };
    let mut left = max_tx_bytes.saturating_sub(proto_len(proposal.encode().len()));
    let mut listed = vec![Bytes::new()];
    let mut results = Vec::new();
    for waiting in order(&execution, txs)? {
        let size = proto_len(waiting.bytes.len());
        if size > left {
            continue;
        }
        if let TxVerdict::Done(result) = execution.tx(&waiting.tx)? {
            left -= size;
            results.push(result);
            listed.push(waiting.bytes);
        }
    }
    let outcome = execution.finish(open_leaves, hasher, results)?;
    proposal.closing = outcome.closed.map(|(number, record, _)| (number, record.root));
    listed[0] = proposal.encode().into();
    Ok(listed)
}

/// The transactions that decode, longest rested first, else in the mempool's order; their
/// signatures are verified.
fn order<V: View, R: Verifier>(
    execution: &Execution<'_, V, R>,
    txs: &[Bytes],
) -> Result<Vec<Waiting>, ReadError> {
    let mut waiting = Vec::with_capacity(txs.len());
    for bytes in txs {
        let Ok(tx) = Tx::decode(bytes) else { continue };
        if let Some(rested) = execution.rested(&tx)? {
            waiting.push(Waiting { bytes: bytes.clone(), tx, rested });
        }
    }
    waiting.sort_by_key(|waiting| std::cmp::Reverse(waiting.rested));
    execution.warm(waiting.iter().map(|waiting| &waiting.tx))?;
    Ok(waiting)
}
