//! A coin's history as a file: what a sender hands to a receiver who asks no node.
//!
//! JSON: `{"format": "plasma-history/1", "chain_id": 31337, "root_chain": "0x...", "coin": 7,
//! "after": 3, "proofs": ["01...", "02..."]}`. `proofs[i]` is the answer of
//! `/coin/{coin}/proof/{after + 1 + i}` in hex (formats.md "Query"). The file proves nothing by
//! itself: deposit and roots come from Ethereum.

use plasma_core::coin::CoinState;
use plasma_core::domain::Domain;
use plasma_core::{B256, BlockNumber, CoinId};
use serde_json::{Value, json};

use crate::history::{HistoryError, Verified, shown};
use crate::queries::CoinProof;
use crate::rpc::NodeClient;

const FORMAT: &str = "plasma-history/1";

/// Proofs of a coin in the blocks after `after`, one a block, unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryFile {
    /// The chain on which the coin is.
    pub domain: Domain,
    /// The coin.
    pub coin: CoinId,
    /// The block before the first proof; the deposit block in a complete history.
    pub after: BlockNumber,
    /// The proofs, one a block, without gaps.
    pub proofs: Vec<CoinProof>,
}

/// Why bytes are no history file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// They are no JSON.
    #[error("the history file is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A field is absent or has the wrong form.
    #[error("the history file's field {0} is missing or malformed")]
    Field(&'static str),
    /// A proof does not decode.
    #[error("block {block}: the history file's proof is malformed: {cause}")]
    Proof {
        /// The block.
        block: BlockNumber,
        /// Why.
        cause: String,
    },
}

impl HistoryFile {
    /// Asks a node for the proofs of the blocks `after + 1 ..= newest`, unchecked.
    pub async fn fetch(
        node: &NodeClient,
        domain: Domain,
        coin: CoinId,
        after: BlockNumber,
        newest: BlockNumber,
    ) -> Result<Self, HistoryError> {
        let mut proofs = Vec::new();
        for block in after.saturating_add(1)..=newest {
            proofs.push(shown(node, coin, block).await?);
        }
        Ok(Self { domain, coin, after, proofs })
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        let proofs: Vec<String> =
            self.proofs.iter().map(|proof| hex::encode(proof.encode())).collect();
        let file = json!({
            "format": FORMAT,
            "chain_id": self.domain.chain_id,
            "root_chain": self.domain.root_chain.to_string(),
            "coin": self.coin,
            "after": self.after,
            "proofs": proofs,
        });
        format!("{file:#}\n")
    }

    /// Reads a file's text.
    pub fn from_json(text: &[u8]) -> Result<Self, FileError> {
        let file: Value = serde_json::from_slice(text)?;
        let number = |field: &'static str| file[field].as_u64().ok_or(FileError::Field(field));
        if file["format"] != FORMAT {
            return Err(FileError::Field("format"));
        }
        let root_chain = file["root_chain"].as_str().and_then(|text| text.parse().ok());
        let root_chain = root_chain.ok_or(FileError::Field("root_chain"))?;
        let (coin, after) = (number("coin")?, number("after")?);
        let list = file["proofs"].as_array().ok_or(FileError::Field("proofs"))?;
        let mut proofs = Vec::with_capacity(list.len());
        for (index, entry) in (1..).zip(list) {
            let block = after.saturating_add(index);
            let text = entry.as_str().ok_or(FileError::Field("proofs"))?;
            let bytes = hex::decode(text)
                .map_err(|error| FileError::Proof { block, cause: error.to_string() })?;
            let proof =
                CoinProof::decode(&bytes).map_err(|cause| FileError::Proof { block, cause })?;
            proofs.push(proof);
        }
        Ok(Self { domain: Domain::new(number("chain_id")?, root_chain), coin, after, proofs })
    }

    /// Checks the file from a verified state on; blocks up to `newest` must be in it.
    ///
    /// The domain is the caller's own: a file of another chain fails by its hashes.
    pub fn verify(
        &self,
        from: Verified,
        newest: BlockNumber,
        domain: &Domain,
        roots: impl Fn(BlockNumber) -> Option<B256>,
    ) -> Result<Verified, HistoryError> {
        let CoinState { coin, .. } = from.state;
        if self.coin != coin {
            return Err(HistoryError::OtherCoin { expected: coin, found: self.coin });
        }
        let mut verified = from;
        while verified.checked < newest {
            let block = verified.checked + 1;
            let index =
                verified.checked.checked_sub(self.after).and_then(|i| usize::try_from(i).ok());
            let shown = index.and_then(|i| self.proofs.get(i));
            let shown = shown.ok_or(HistoryError::Missing(block))?;
            verified.extend(roots(block), shown, domain)?;
        }
        Ok(verified)
    }
}
