//! The application's query paths, typed (protocol.md section 6, formats.md "Query").

use plasma_core::certificate::Certificate;
use plasma_core::coin::Deposit;
use plasma_core::smt::Proof;
use plasma_core::state::{
    BlockRecord, COIN_PREFIX, CoinRecord, DEPOSIT_PREFIX, Params, Tip, decode_deposit,
    decode_validators, key_number,
};
use plasma_core::transfer::SignedTransfer;
use plasma_core::validators::ValidatorSet;
use plasma_core::wire::{Reader, WireError};
use plasma_core::{Address, BlockNumber, CoinId};

use crate::history::HistoryError;
use crate::rpc::{NodeClient, QueryAnswer, RpcError};

/// First byte of a closed block's key.
const BLOCK_PREFIX: u8 = 4;
/// Most runs of coins that are read of one account, so that a node cannot fill the memory.
const RUNS_MAX: usize = 1_000_000;
/// Transfers of a full answer about a coin's history.
const HISTORY_PAGE: usize = 10_000;
/// Most such answers that are read of one coin.
const HISTORY_PAGES_MAX: usize = 100;
/// The application's code for "not found".
const CODE_NOT_FOUND: u32 = 2;

/// A coin as the node reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoinAnswer {
    /// It has a record of its own.
    Record(CoinRecord),
    /// It never moved: its deposit.
    Unmoved(Deposit),
}

/// Whether a coin moved in a block, with the proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoinProof {
    /// The transfer, if it moved.
    pub transfer: Option<SignedTransfer>,
    /// Proof of inclusion, or of exclusion.
    pub proof: Proof,
}

impl CoinProof {
    /// `01 || proof` or `02 || X || proof`.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = match &self.transfer {
            None => vec![1],
            Some(transfer) => [&[2], &transfer.encode()[..]].concat(),
        };
        out.extend_from_slice(&self.proof.encode());
        out
    }

    /// Reads `01 || proof` or `02 || X || proof`.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader::new(bytes);
        let transfer = match reader.u8().map_err(|e| e.to_string())? {
            1 => None,
            2 => Some(SignedTransfer::decode(&mut reader).map_err(|e| e.to_string())?),
            other => return Err(format!("kind {other} of a coin's proof")),
        };
        let proof = Proof::read(&mut reader).map_err(|e| e.to_string())?;
        reader.finish().map_err(|e| e.to_string())?;
        Ok(Self { transfer, proof })
    }
}

impl NodeClient {
    fn bad(&self, what: impl ToString) -> RpcError {
        RpcError::Malformed { url: self.url().to_owned(), what: what.to_string() }
    }

    async fn found(&self, path: &str, data: &[u8]) -> Result<Option<QueryAnswer>, RpcError> {
        let answer = self.query(path, data, 0, false).await?;
        match answer.code {
            0 => Ok(Some(answer)),
            CODE_NOT_FOUND => Ok(None),
            code => Err(RpcError::Query { code, log: answer.log }),
        }
    }

    async fn value<T>(
        &self,
        path: &str,
        decode: impl FnOnce(&[u8]) -> Result<T, WireError>,
    ) -> Result<Option<T>, RpcError> {
        let Some(answer) = self.found(path, &[]).await? else { return Ok(None) };
        decode(&answer.value).map(Some).map_err(|error| self.bad(error))
    }

    /// A coin as it stands.
    pub async fn coin(&self, coin: CoinId) -> Result<Option<CoinAnswer>, RpcError> {
        let Some(answer) = self.found(&format!("/coin/{coin}"), &[]).await? else {
            return Ok(None);
        };
        let decoded = if key_number(&answer.key, COIN_PREFIX) == Some(coin) {
            CoinRecord::decode(&answer.value).map(CoinAnswer::Record)
        } else if let Some(id) = key_number(&answer.key, DEPOSIT_PREFIX) {
            decode_deposit(id, &answer.value).map(CoinAnswer::Unmoved)
        } else {
            return Err(self.bad(format!("coin {coin} under key {}", hex::encode(answer.key))));
        };
        match decoded.map_err(|error| self.bad(error))? {
            CoinAnswer::Unmoved(deposit) if !deposit.contains(coin) => {
                Err(self.bad(format!("deposit {} for coin {coin}", deposit.deposit_id)))
            }
            answer => Ok(Some(answer)),
        }
    }

    /// A coin's transfers with their blocks, ascending. Unchecked beyond that: see
    /// [`history`](crate::history).
    pub async fn coin_history(
        &self,
        coin: CoinId,
    ) -> Result<Option<Vec<(BlockNumber, SignedTransfer)>>, RpcError> {
        let path = format!("/coin/{coin}/history");
        // Pages come newest first.
        let mut pages: Vec<Vec<(BlockNumber, SignedTransfer)>> = Vec::new();
        let mut start: Vec<u8> = Vec::new();
        loop {
            let Some(answer) = self.found(&path, &start).await? else { break };
            let page = decode_transfers(&answer.value, coin).map_err(|e| self.bad(e))?;
            let first = page.first().map(|(block, _)| *block);
            let ends_before = pages.last().and_then(|newer| newer.first()).map(|(block, _)| *block);
            if let (Some((last, _)), Some(before)) = (page.last(), ends_before)
                && *last >= before
            {
                return Err(self.bad(format!("block {last} below block {before}")));
            }
            let whole = page.len() < HISTORY_PAGE;
            pages.push(page);
            match first {
                Some(_) if pages.len() > HISTORY_PAGES_MAX => {
                    return Err(self.bad(format!("more than {HISTORY_PAGES_MAX} pages")));
                }
                Some(first) if !whole => start = first.to_be_bytes().to_vec(),
                _ => break,
            }
        }
        Ok((!pages.is_empty()).then(|| pages.into_iter().rev().flatten().collect()))
    }

    /// Whether a coin moved in a closed block.
    pub async fn coin_proof(
        &self,
        coin: CoinId,
        block: BlockNumber,
    ) -> Result<Option<CoinProof>, RpcError> {
        let path = format!("/coin/{coin}/proof/{block}");
        let Some(answer) = self.found(&path, &[]).await? else { return Ok(None) };
        CoinProof::decode(&answer.value).map(Some).map_err(|error| self.bad(error))
    }

    /// What the node shows of a coin in the blocks `from ..= to`, unchecked: at least that of
    /// `from`, as many as one answer holds.
    pub async fn coin_proofs(
        &self,
        coin: CoinId,
        from: BlockNumber,
        to: BlockNumber,
    ) -> Result<Vec<CoinProof>, HistoryError> {
        let path = format!("/coin/{coin}/proofs/{from}/{to}");
        let missing = HistoryError::Missing(from);
        let Some(answer) = self.found(&path, &[]).await? else { return Err(missing) };
        let malformed = |block, cause: String| HistoryError::Malformed { block, cause };
        let mut reader = Reader::new(&answer.value);
        let count = reader.varint().map_err(|error| malformed(from, error.to_string()))?;
        if count == 0 {
            return Err(missing);
        }
        if count - 1 > to.saturating_sub(from) {
            return Err(malformed(from, format!("{count} proofs of blocks {from} to {to}")));
        }
        let mut proofs = Vec::new();
        for block in from..from + count {
            let shown = read_sized(&mut reader).map_err(|error| error.to_string());
            match shown.and_then(CoinProof::decode) {
                Ok(shown) => proofs.push(shown),
                Err(cause) if proofs.is_empty() => return Err(malformed(block, cause)),
                // What came before it counts; it is asked for again.
                Err(_) => return Ok(proofs),
            }
        }
        reader.finish().map_err(|error| malformed(from + count - 1, error.to_string()))?;
        Ok(proofs)
    }

    /// A closed plasma block.
    pub async fn block(&self, number: BlockNumber) -> Result<Option<BlockRecord>, RpcError> {
        self.value(&format!("/block/{number}"), BlockRecord::decode).await
    }

    /// The newest closed plasma block; none before the first.
    pub async fn latest_block(&self) -> Result<Option<(BlockNumber, BlockRecord)>, RpcError> {
        let Some(answer) = self.found("/block/latest", &[]).await? else { return Ok(None) };
        let number = key_number(&answer.key, BLOCK_PREFIX);
        let number = number.ok_or_else(|| self.bad("a block under another key"))?;
        let block = BlockRecord::decode(&answer.value).map_err(|error| self.bad(error))?;
        Ok(Some((number, block)))
    }

    /// The lowest kept certificate of a block from `number` on.
    pub async fn certificate_from(
        &self,
        number: BlockNumber,
        validators: usize,
    ) -> Result<Option<Certificate>, RpcError> {
        self.value(&format!("/certificate/{number}"), |bytes| {
            let mut reader = Reader::new(bytes);
            let certificate = Certificate::decode(&mut reader, validators)?;
            reader.finish()?;
            if certificate.number < number {
                let value = certificate.number;
                return Err(WireError::Value { what: "block of a certificate", value });
            }
            Ok(certificate)
        })
        .await
    }

    /// Runs (first, length) of an account's coins, ascending.
    pub async fn account_coins(&self, owner: Address) -> Result<Vec<(CoinId, u64)>, RpcError> {
        let mut runs: Vec<(CoinId, u64)> = Vec::new();
        let mut after: CoinId = 0;
        loop {
            let path = format!("/account/{owner}/coins");
            let Some(answer) = self.found(&path, &after.to_be_bytes()).await? else {
                return Ok(runs);
            };
            let page = decode_runs(&answer.value).map_err(|error| self.bad(error))?;
            if page.is_empty() {
                return Ok(runs);
            }
            for (first, length) in page {
                if first <= after || length == 0 || first.checked_add(length).is_none() {
                    return Err(self.bad(format!("run {first}+{length} after coin {after}")));
                }
                after = first + (length - 1);
                runs.push((first, length));
            }
            if runs.len() > RUNS_MAX {
                return Err(self.bad(format!("more than {RUNS_MAX} runs of coins")));
            }
        }
    }

    /// The chain's position.
    pub async fn tip(&self) -> Result<Tip, RpcError> {
        let tip = self.value("/events/cursor", Tip::decode).await?;
        tip.ok_or_else(|| self.bad("no tip"))
    }

    /// A deposit.
    pub async fn deposit(&self, id: u64) -> Result<Option<Deposit>, RpcError> {
        self.value(&format!("/deposit/{id}"), |value| decode_deposit(id, value)).await
    }

    /// The parameters.
    pub async fn params(&self) -> Result<Params, RpcError> {
        let params = self.value("/params", Params::decode).await?;
        params.ok_or_else(|| self.bad("no parameters"))
    }

    /// The validator set.
    pub async fn validators(&self) -> Result<ValidatorSet, RpcError> {
        let found = self.found("/validators", &[]).await?;
        let answer = found.ok_or_else(|| self.bad("no validator set"))?;
        decode_validators(&answer.value).map_err(|error| self.bad(error))
    }
}

fn decode_transfers(
    bytes: &[u8],
    coin: CoinId,
) -> Result<Vec<(BlockNumber, SignedTransfer)>, WireError> {
    let mut reader = Reader::new(bytes);
    let mut transfers = Vec::new();
    let mut last = 0;
    for _ in 0..reader.varint()? {
        let block = reader.varint()?;
        let transfer = SignedTransfer::decode(&mut reader)?;
        if block <= last {
            return Err(WireError::Value { what: "block of a history", value: block });
        }
        if transfer.transfer.coin != coin {
            let value = transfer.transfer.coin;
            return Err(WireError::Value { what: "coin of a history", value });
        }
        last = block;
        transfers.push((block, transfer));
    }
    reader.finish()?;
    Ok(transfers)
}

/// varint length, then as many bytes.
fn read_sized<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
    let at_most = |_| WireError::Short { at: 0, wanted: usize::MAX };
    let length = usize::try_from(reader.varint()?).map_err(at_most)?;
    reader.take(length)
}

fn decode_runs(bytes: &[u8]) -> Result<Vec<(CoinId, u64)>, WireError> {
    let mut reader = Reader::new(bytes);
    let mut runs = Vec::new();
    for _ in 0..reader.varint()? {
        runs.push((reader.u64()?, reader.u64()?));
    }
    reader.finish()?;
    Ok(runs)
}
