//! What a receiver checks (protocol.md section 7): every block since the deposit either includes
//! a valid child of the coin's state or excludes the coin, against roots that the caller has read
//! from Ethereum's finalized block.

use plasma_core::coin::CoinState;
use plasma_core::domain::Domain;
use plasma_core::smt::ProofError;
use plasma_core::transfer::ChildError;
use plasma_core::{B256, BlockNumber, CoinId};

use crate::queries::CoinProof;
use crate::rpc::{NodeClient, RpcError};

/// What is wrong with a history, and at which block.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The block's root is not on Ethereum.
    #[error("block {0}: no root on Ethereum")]
    NoRoot(BlockNumber),
    /// Nobody shows what the block holds at the coin.
    #[error("block {0}: data missing")]
    Missing(BlockNumber),
    /// What is shown for the block is no proof at all.
    #[error("block {block}: no usable proof: {cause}")]
    Malformed {
        /// The block.
        block: BlockNumber,
        /// Why.
        cause: String,
    },
    /// The proof does not lead to the root.
    #[error("block {block}: bad proof: {source}")]
    Proof {
        /// The block.
        block: BlockNumber,
        /// Why.
        source: ProofError,
    },
    /// The block includes something that is no valid child: garbage.
    #[error("block {block}: garbage: {source}")]
    Garbage {
        /// The block.
        block: BlockNumber,
        /// Why it is no child.
        source: ChildError,
    },
    /// A history file is about another coin.
    #[error("the history is of coin {found}, not {expected}")]
    OtherCoin {
        /// The coin in question.
        expected: CoinId,
        /// The file's coin.
        found: CoinId,
    },
    /// The node failed.
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

/// A coin's state after a block, with all blocks before verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The last block that was checked.
    pub checked: BlockNumber,
    /// The state after it.
    pub state: CoinState,
    /// The blocks in which the coin moved.
    pub moved: Vec<BlockNumber>,
}

impl Verified {
    /// A coin's deposit state; the contract has its record, which needs no proof.
    pub fn deposit(state: CoinState) -> Self {
        Self { checked: state.block, state, moved: Vec::new() }
    }

    /// Checks the next block.
    pub fn extend(
        &mut self,
        root: Option<B256>,
        shown: &CoinProof,
        domain: &Domain,
    ) -> Result<(), HistoryError> {
        // Above the last number of all there is no block: its root is missing.
        let block = self.checked.saturating_add(1);
        let root = root.ok_or(HistoryError::NoRoot(block))?;
        let hash = shown.transfer.map(|t| t.transfer.digest(domain));
        let proof = shown.proof.verify(root, self.state.coin, hash);
        let _ = proof.map_err(|source| HistoryError::Proof { block, source })?;
        if let Some(transfer) = &shown.transfer {
            self.state = transfer
                .child_of(&self.state, block, domain)
                .map_err(|source| HistoryError::Garbage { block, source })?;
            self.moved.push(block);
        }
        self.checked = block;
        Ok(())
    }
}

/// Fetches and checks every block up to `newest` from an untrusted node; `roots` are Ethereum's.
pub async fn verify(
    node: &NodeClient,
    from: Verified,
    newest: BlockNumber,
    domain: &Domain,
    roots: impl Fn(BlockNumber) -> Option<B256>,
) -> Result<Verified, HistoryError> {
    let mut verified = from;
    let coin: CoinId = verified.state.coin;
    while verified.checked < newest {
        let block = verified.checked + 1;
        let shown = shown(node, coin, block).await?;
        verified.extend(roots(block), &shown, domain)?;
    }
    Ok(verified)
}

/// What a node shows of a coin in a block, unchecked.
pub(crate) async fn shown(
    node: &NodeClient,
    coin: CoinId,
    block: BlockNumber,
) -> Result<CoinProof, HistoryError> {
    match node.coin_proof(coin, block).await {
        Err(RpcError::Malformed { what, .. }) => {
            Err(HistoryError::Malformed { block, cause: what })
        }
        other => other?.ok_or(HistoryError::Missing(block)),
    }
}
