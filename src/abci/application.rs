//! The application as CometBFT v0.38 calls it: one method per call of ABCI 2.0.
//!
//! Echo and Flush are answered by the server. Four connections call at once and none of them
//! says which it is, so an implementation brings its own locks: Info, Query and the reading of
//! snapshots from a committed view, CheckTx from a view that Commit replaces, everything else
//! one call at a time. The byte fields of a request are slices of the read buffer (see
//! [`crate::codec`]); what is kept for long is copied.
//!
//! Methods that return [`Fatal`] can end the process: a validator that cannot execute a block
//! must stop rather than answer. The others have no way to fail but their response's code; in
//! particular CheckTx never raises an exception, because CometBFT panics on one.

use std::error::Error;

use tendermint_proto::v0_38::abci::{
    RequestApplySnapshotChunk, RequestCheckTx, RequestExtendVote, RequestFinalizeBlock,
    RequestInfo, RequestInitChain, RequestLoadSnapshotChunk, RequestOfferSnapshot,
    RequestPrepareProposal, RequestProcessProposal, RequestQuery, RequestVerifyVoteExtension,
    ResponseApplySnapshotChunk, ResponseCheckTx, ResponseCommit, ResponseExtendVote,
    ResponseFinalizeBlock, ResponseInfo, ResponseInitChain, ResponseListSnapshots,
    ResponseLoadSnapshotChunk, ResponseOfferSnapshot, ResponsePrepareProposal,
    ResponseProcessProposal, ResponseQuery, ResponseVerifyVoteExtension,
};

/// The process must end: going on could break consensus or the store.
#[derive(Debug, thiserror::Error)]
#[error("fatal at height {height}: {cause}")]
pub struct Fatal {
    /// Height that was being decided or executed.
    pub height: i64,
    /// What went wrong.
    pub cause: Box<dyn Error + Send + Sync>,
}

impl Fatal {
    /// A fatal error at a height, from an error or a message.
    pub fn new(height: i64, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { height, cause: cause.into() }
    }
}

/// One method per call of ABCI 2.0 (`spec/abci/abci++_methods.md` of CometBFT v0.38).
#[allow(clippy::missing_errors_doc)] // Every error is a `Fatal`, which says what it means.
pub trait Application: Send + Sync + 'static {
    /// Name, version and last committed height with its app hash. Any time.
    fn info(&self, request: RequestInfo) -> ResponseInfo;

    /// Reads from the committed state. Any time.
    fn query(&self, request: RequestQuery) -> ResponseQuery;

    /// Judges a transaction for the mempool. Any time; a refusal is a code.
    fn check_tx(&self, request: RequestCheckTx) -> ResponseCheckTx;

    /// Starts a chain from its genesis, again if nothing was committed yet.
    fn init_chain(&self, request: RequestInitChain) -> Result<ResponseInitChain, Fatal>;

    /// Makes this proposer's block from the mempool's transactions and the last extensions.
    fn prepare_proposal(
        &self,
        request: RequestPrepareProposal,
    ) -> Result<ResponsePrepareProposal, Fatal>;

    /// Accepts or rejects a proposed block, possibly an earlier one after a restart.
    fn process_proposal(
        &self,
        request: RequestProcessProposal,
    ) -> Result<ResponseProcessProposal, Fatal>;

    /// Makes this validator's vote extension for an accepted block.
    fn extend_vote(&self, request: RequestExtendVote) -> Result<ResponseExtendVote, Fatal>;

    /// Judges another validator's extension, possibly for a block never seen.
    fn verify_vote_extension(
        &self,
        request: RequestVerifyVoteExtension,
    ) -> Result<ResponseVerifyVoteExtension, Fatal>;

    /// Executes a decided block, with or without a ProcessProposal before it.
    fn finalize_block(&self, request: RequestFinalizeBlock)
    -> Result<ResponseFinalizeBlock, Fatal>;

    /// Makes the finalized block durable; returns only after that.
    fn commit(&self) -> Result<ResponseCommit, Fatal>;

    /// Snapshots that can be served. Any time.
    fn list_snapshots(&self) -> ResponseListSnapshots;

    /// A snapshot that peers offer to a node that is state-syncing.
    fn offer_snapshot(&self, request: RequestOfferSnapshot)
    -> Result<ResponseOfferSnapshot, Fatal>;

    /// One chunk of a snapshot that is served. Any time.
    fn load_snapshot_chunk(&self, request: RequestLoadSnapshotChunk) -> ResponseLoadSnapshotChunk;

    /// One chunk of the snapshot that was accepted.
    fn apply_snapshot_chunk(
        &self,
        request: RequestApplySnapshotChunk,
    ) -> Result<ResponseApplySnapshotChunk, Fatal>;
}
