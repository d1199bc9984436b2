//! The paths of `abci_query` (protocol.md section 6, formats.md "Query").
//!
//! Single-key paths answer the raw value and can be proven against the app hash of the next
//! header; the others carry their own proof or are verified by what they lead to.

use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use plasma_core::state::{
    CoinRecord, PARAMS_KEY, TIP_KEY, VALIDATORS_KEY, block_key, certificate_key, coin_key,
    deposit_key,
};
use plasma_core::transfer::SignedTransfer;
use plasma_core::wire::put_varint;
use plasma_core::{Address, BlockNumber, CoinId};
use plasma_ledger::{ReadError, View, deposit_of, find_coin};
use tendermint_proto::v0_38::abci::{RequestQuery, ResponseQuery};
use tendermint_proto::v0_38::crypto::{ProofOp, ProofOps};

use crate::block_archive::{ArchiveError, BlockArchive, closed_block};
use crate::committed::Committed;
use crate::owners::Owners;

/// Most runs of one answer about an account.
const RUNS_MAX: usize = 1_000;
/// Most transfers of one answer about a coin's history.
const HISTORY_MAX: usize = 10_000;
/// Bytes and time after which an answer with proofs of many blocks ends: the client asks for the
/// rest. A block whose archive file must be rebuilt takes seconds.
const PROOFS_BYTES_MAX: usize = 512 << 10;
const PROOFS_TIME_MAX: Duration = Duration::from_millis(200);
/// Windows of certificates overlap so that two kept neighbours are at most this far apart.
const CERTIFICATE_GAP_MAX: u64 = 512;

/// Why a query has no answer; the number is the response's code.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// No such path, or a malformed number in it.
    #[error("unknown path {0:?}; see the README's table of query paths")]
    Path(String),
    /// Nothing is stored under the path.
    #[error("{0} not found")]
    NotFound(String),
    /// The height is above the latest, or not kept.
    #[error("height {asked} is not there: latest is {latest}")]
    Height {
        /// The asked height.
        asked: i64,
        /// The latest height.
        latest: u64,
    },
    /// Only the latest height can answer this path.
    #[error("this path is answered at the latest height only")]
    LatestOnly,
    /// The path cannot be proven by one key.
    #[error("prove is for single-key paths")]
    NotProvable,
    /// Reading failed.
    #[error("internal error: {0}")]
    Internal(String),
}

impl QueryError {
    /// The response's code.
    pub const fn code(&self) -> u32 {
        match self {
            Self::Path(_) => 1,
            Self::NotFound(_) => 2,
            Self::Height { .. } => 3,
            Self::LatestOnly => 4,
            Self::NotProvable => 5,
            Self::Internal(_) => 6,
        }
    }
}

impl From<ReadError> for QueryError {
    fn from(error: ReadError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<ArchiveError> for QueryError {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::NotClosed(number) => Self::NotFound(format!("block {number}")),
            other => Self::Internal(other.to_string()),
        }
    }
}

/// What a path reads.
enum Answer {
    /// One key with its value and the keys whose proofs show it.
    Key { key: Vec<u8>, value: Vec<u8>, proven_by: Vec<Vec<u8>> },
    /// Something computed.
    Value(Vec<u8>),
}

impl Answer {
    fn key(key: &[u8], value: Vec<u8>) -> Self {
        Self::Key { key: key.to_vec(), value, proven_by: vec![key.to_vec()] }
    }
}

/// Answers a query from the committed view.
pub fn query(
    latest: &Committed,
    archive: &BlockArchive,
    owners: &RwLock<Owners>,
    request: &RequestQuery,
) -> ResponseQuery {
    match try_query(latest, archive, owners, request) {
        Ok(response) => response,
        Err(error) => refuse(&error),
    }
}

/// The response to a query that has no answer.
pub fn refuse(error: &QueryError) -> ResponseQuery {
    ResponseQuery {
        code: error.code(),
        log: error.to_string(),
        codespace: "plasma-query".into(),
        ..Default::default()
    }
}

fn try_query(
    latest: &Committed,
    archive: &BlockArchive,
    owners: &RwLock<Owners>,
    request: &RequestQuery,
) -> Result<ResponseQuery, QueryError> {
    let height = QueryError::Height { asked: request.height, latest: latest.version };
    let view = match u64::try_from(request.height) {
        Ok(0) => latest.clone(),
        Ok(asked) if asked <= latest.version => latest.at(asked)?,
        _ => return Err(height),
    };
    let path: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
    let unknown = || QueryError::Path(request.path.clone());
    let number = |text: &str| text.parse::<u64>().map_err(|_| unknown());
    let answer = match path[..] {
        ["coin", coin] => coin_answer(&view, number(coin)?)?,
        ["coin", coin, "history"] => {
            let before = start(&request.data).ok_or_else(unknown)?;
            Answer::Value(history(&view, number(coin)?, before)?)
        }
        ["coin", coin, "proofs", from, to] => {
            let blocks = number(from)?..=number(to)?;
            Answer::Value(coin_proofs(&view, archive, number(coin)?, blocks)?)
        }
        ["coin", coin, "proof", block] => {
            Answer::Value(coin_proof(&view, archive, number(coin)?, number(block)?)?)
        }
        ["block", "latest"] => block_answer(&view, view.tip.last_closed)?,
        ["block", block] => block_answer(&view, number(block)?)?,
        ["certificate", block] => certificate(&view, number(block)?)?,
        ["account", address, "coins"] => {
            if view.version != latest.version {
                return Err(QueryError::LatestOnly);
            }
            let owner: Address = address.parse().map_err(|_| unknown())?;
            let after = start(&request.data).ok_or_else(unknown)?.unwrap_or(0);
            Answer::Value(account(owners, owner, after))
        }
        ["events", "cursor"] => stored(&view, &TIP_KEY, || "the tip".into())?,
        ["deposit", id] => stored(&view, &deposit_key(number(id)?), || format!("deposit {id}"))?,
        ["validators"] => stored(&view, &VALIDATORS_KEY, || "the validator set".into())?,
        ["params"] => stored(&view, &PARAMS_KEY, || "the parameters".into())?,
        _ => return Err(unknown()),
    };
    respond(&view, answer, request.prove)
}

/// Where a list that has several answers goes on: eight bytes of query data, or none.
fn start(data: &Bytes) -> Option<Option<u64>> {
    match data.len() {
        0 => Some(None),
        _ => data.as_ref().try_into().ok().map(u64::from_be_bytes).map(Some),
    }
}

fn respond(view: &Committed, answer: Answer, prove: bool) -> Result<ResponseQuery, QueryError> {
    let mut response = ResponseQuery { height: view.version as i64, ..Default::default() };
    match answer {
        Answer::Value(_) if prove => return Err(QueryError::NotProvable),
        Answer::Value(value) => response.value = value.into(),
        Answer::Key { key, value, proven_by } => {
            if prove {
                let mut ops = Vec::new();
                for key in proven_by {
                    let proven = view
                        .store()
                        .prove(view.version, &key)
                        .map_err(|error| QueryError::Internal(error.to_string()))?;
                    let r#type = format!("plasma/{}", view.store().scheme());
                    ops.push(ProofOp { r#type, key, data: proven.proof });
                }
                response.proof_ops = Some(ProofOps { ops });
            }
            response.key = key.into();
            response.value = value.into();
        }
    }
    Ok(response)
}

fn stored(view: &Committed, key: &[u8], name: impl Fn() -> String) -> Result<Answer, QueryError> {
    let value = view.get(key)?.ok_or_else(|| QueryError::NotFound(name()))?;
    Ok(Answer::key(key, value))
}

/// A coin's record; of a coin without a key of its own its deposit, proven by the deposit and the
/// absence of the coin's key.
fn coin_answer(view: &Committed, coin: CoinId) -> Result<Answer, QueryError> {
    let own_key = coin_key(coin);
    if let Some(value) = view.get(&own_key)? {
        return Ok(Answer::key(&own_key, value));
    }
    let found = find_coin(view, &view.chain.domain, coin)?.and_then(|coin| coin.deposit);
    let deposit = found.ok_or_else(|| QueryError::NotFound(format!("coin {coin}")))?;
    let key = deposit_key(deposit.deposit_id).to_vec();
    let value = plasma_core::state::encode_deposit(&deposit);
    Ok(Answer::Key { key: key.clone(), value, proven_by: vec![key, own_key.to_vec()] })
}

fn block_answer(view: &Committed, number: BlockNumber) -> Result<Answer, QueryError> {
    stored(view, &block_key(number), || format!("block {number}"))
}

/// The lowest kept certificate with a number of at least `number`.
fn certificate(view: &Committed, number: BlockNumber) -> Result<Answer, QueryError> {
    let last = view.tip.last_certified.min(number.saturating_add(CERTIFICATE_GAP_MAX));
    for candidate in number..=last {
        let key = certificate_key(candidate);
        if let Some(value) = view.get(&key)? {
            return Ok(Answer::key(&key, value));
        }
    }
    Err(QueryError::NotFound(format!("certificate of a block from {number} on")))
}

/// The records that a coin's key held at or before `version`, newest first, one for each hash.
fn records(
    view: &Committed,
    coin: CoinId,
    version: u64,
    most: usize,
) -> Result<Vec<CoinRecord>, QueryError> {
    let key = coin_key(coin);
    let mut found: Vec<CoinRecord> = Vec::new();
    let mut at = Some(version);
    while let Some(version) = at {
        let change = view
            .store()
            .newest(version, &key)
            .map_err(|error| QueryError::Internal(error.to_string()))?;
        let Some((version, Some(value))) = change else { break };
        let record = CoinRecord::decode(&value)
            .map_err(|source| ReadError::Record { key: key.to_vec(), source })?;
        if found.last().is_none_or(|newer| newer.hash != record.hash) {
            if found.len() == most {
                break;
            }
            found.push(record);
        }
        at = version.checked_sub(1);
    }
    Ok(found)
}

/// Form `X` of the transfer that made `record`, given the record before it, if any.
fn full_transfer(
    view: &Committed,
    coin: CoinId,
    record: &CoinRecord,
    before: Option<&CoinRecord>,
) -> Result<SignedTransfer, QueryError> {
    let parent = match before {
        Some(before) => before.state(coin),
        None => {
            let missing = || QueryError::Internal(format!("coin {coin} has no deposit"));
            deposit_of(view, coin)?.ok_or_else(missing)?.state(coin, &view.chain.domain)
        }
    };
    let wire = plasma_core::transfer::WireTransfer {
        coin,
        new_owner: record.owner,
        max_block: record.max_block,
        signature: record.signature,
    };
    Ok(wire.spending(parent.block, parent.hash))
}

/// varint count, then varint block and form `X` of each transfer, ascending: the newest at most
/// 10,000, or the newest of those in blocks below `before`.
fn history(
    view: &Committed,
    coin: CoinId,
    before: Option<BlockNumber>,
) -> Result<Vec<u8>, QueryError> {
    if find_coin(view, &view.chain.domain, coin)?.is_none() {
        return Err(QueryError::NotFound(format!("coin {coin}")));
    }
    // Every height up to the one that closed block `before - 1` belongs to a block below.
    let version = match before {
        Some(before) if before <= view.tip.last_closed => match before.saturating_sub(1) {
            0 => return Ok(vec![0]),
            last => closed_block(view, last)?.height,
        },
        _ => view.version,
    };
    // One more, because the oldest transfer's message names the state before it.
    let mut records = records(view, coin, version, HISTORY_MAX + 1)?;
    records.reverse();
    let oldest = records.len().saturating_sub(HISTORY_MAX);
    let moved: Vec<usize> = (oldest..records.len()).filter(|i| records[*i].moved()).collect();
    let mut out = Vec::new();
    put_varint(&mut out, moved.len() as u64);
    for i in moved {
        let before = i.checked_sub(1).map(|before| &records[before]);
        put_varint(&mut out, records[i].block);
        out.extend_from_slice(&full_transfer(view, coin, &records[i], before)?.encode());
    }
    Ok(out)
}

/// varint count, then for each block from the first on: varint length and the answer of
/// [`coin_proof`]. Fewer than asked, but at least one, if they are not closed or too many for one
/// answer.
fn coin_proofs(
    view: &Committed,
    archive: &BlockArchive,
    coin: CoinId,
    blocks: std::ops::RangeInclusive<BlockNumber>,
) -> Result<Vec<u8>, QueryError> {
    let (from, to) = (*blocks.start(), (*blocks.end()).min(view.tip.last_closed));
    if from > to || from == 0 {
        return Err(QueryError::NotFound(format!("block {from}")));
    }
    let started = Instant::now();
    let (mut count, mut proofs) = (0, Vec::new());
    for number in from..=to {
        let proof = coin_proof(view, archive, coin, number)?;
        put_varint(&mut proofs, proof.len() as u64);
        proofs.extend_from_slice(&proof);
        count += 1;
        if proofs.len() >= PROOFS_BYTES_MAX || started.elapsed() >= PROOFS_TIME_MAX {
            break;
        }
    }
    let mut out = Vec::with_capacity(proofs.len() + 10);
    put_varint(&mut out, count);
    out.extend_from_slice(&proofs);
    Ok(out)
}

/// `01`, proof of exclusion; or `02`, form `X`, proof of inclusion.
fn coin_proof(
    view: &Committed,
    archive: &BlockArchive,
    coin: CoinId,
    number: BlockNumber,
) -> Result<Vec<u8>, QueryError> {
    let closed_at = closed_block(view, number)?.height;
    let records = records(view, coin, closed_at, 2)?;
    let included = records.first().filter(|record| record.block == number && record.moved());
    let proof = archive.prove(view, number, coin, included.map(|record| record.hash))?;
    let mut out = Vec::new();
    match included {
        None => out.push(1),
        Some(record) => {
            out.push(2);
            let transfer = full_transfer(view, coin, record, records.get(1))?;
            out.extend_from_slice(&transfer.encode());
        }
    }
    out.extend_from_slice(&proof.encode());
    Ok(out)
}

/// varint count, then first:8 and length:8 of each run above coin `after`.
fn account(owners: &RwLock<Owners>, owner: Address, after: CoinId) -> Vec<u8> {
    let owners = owners.read().unwrap_or_else(PoisonError::into_inner);
    let runs = owners.runs(owner, after, RUNS_MAX);
    let mut out = Vec::new();
    put_varint(&mut out, runs.len() as u64);
    for (first, length) in runs {
        out.extend_from_slice(&first.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
    }
    out
}
