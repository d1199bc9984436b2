//! The application's answers as ABCI messages.

use plasma_core::code::{CODESPACE, Code};
use plasma_ledger::{Chain, Executed, Genesis, Outcome};
use tendermint_proto::v0_38::abci::response_apply_snapshot_chunk::Result as ApplyResult;
use tendermint_proto::v0_38::abci::response_offer_snapshot::Result as OfferResult;
use tendermint_proto::v0_38::abci::response_process_proposal::ProposalStatus;
use tendermint_proto::v0_38::abci::response_verify_vote_extension::VerifyStatus;
use tendermint_proto::v0_38::abci::{
    CheckTxType, Event, EventAttribute, ExecTxResult, RequestApplySnapshotChunk, RequestCheckTx,
    RequestExtendVote, RequestFinalizeBlock, RequestInfo, RequestInitChain,
    RequestLoadSnapshotChunk, RequestOfferSnapshot, RequestPrepareProposal, RequestProcessProposal,
    RequestQuery, RequestVerifyVoteExtension, ResponseApplySnapshotChunk, ResponseCheckTx,
    ResponseCommit, ResponseExtendVote, ResponseFinalizeBlock, ResponseInfo, ResponseInitChain,
    ResponseListSnapshots, ResponseLoadSnapshotChunk, ResponseOfferSnapshot,
    ResponsePrepareProposal, ResponseProcessProposal, ResponseQuery, ResponseVerifyVoteExtension,
};
use tendermint_proto::v0_38::crypto::public_key::Sum;

use crate::app::App;
use crate::application::{Application, Fatal};
use crate::query::{QueryError, query, refuse};

/// Least `block.max_bytes`: a proposal with all its events and a full bundle must fit.
const BLOCK_BYTES_MIN: i64 = 2_097_152;
/// Code of an answer to CheckTx that is no verdict: the state could not be read.
const CODE_INTERNAL: u32 = u32::MAX;

/// Checks what genesis says against the application's needs.
fn check_genesis(request: &RequestInitChain, scheme: &str) -> Result<Chain, Fatal> {
    let fail = |cause: String| Err(Fatal::new(0, cause));
    let params = request.consensus_params.as_ref();
    let max_bytes = params.and_then(|p| p.block.as_ref()).map_or(0, |block| block.max_bytes);
    // -1 is CometBFT's word for its own maximum.
    if max_bytes != -1 && max_bytes < BLOCK_BYTES_MIN {
        return fail(format!("block.max_bytes is {max_bytes}, must be at least {BLOCK_BYTES_MIN}"));
    }
    let enabled =
        params.and_then(|p| p.abci.as_ref()).map_or(0, |abci| abci.vote_extensions_enable_height);
    if enabled != 1 {
        return fail(format!("vote_extensions_enable_height is {enabled}, must be 1"));
    }
    if request.initial_height != 1 {
        return fail(format!("initial_height is {}, must be 1", request.initial_height));
    }
    let genesis = Genesis::parse(&request.app_state_bytes).map_err(|error| Fatal::new(0, error))?;
    let chain = genesis.chain().map_err(|error| Fatal::new(0, error))?;
    if chain.params.scheme != scheme {
        return fail(format!(
            "genesis demands store scheme {}, this node is configured for {scheme}",
            chain.params.scheme
        ));
    }
    let mut validators = Vec::with_capacity(request.validators.len());
    for update in &request.validators {
        let key = match update.pub_key.as_ref().and_then(|key| key.sum.as_ref()) {
            Some(Sum::Ed25519(key)) => <[u8; 32]>::try_from(key.as_slice()).ok(),
            _ => None,
        };
        let Some(key) = key else { return fail("a validator's key is not ed25519".into()) };
        validators.push((key, u64::try_from(update.power).unwrap_or(0)));
    }
    chain.check_validators(&validators).map_err(|error| Fatal::new(0, error))?;
    Ok(chain)
}

fn event(kind: &str, attributes: &[(&str, String)]) -> Event {
    let attributes = attributes
        .iter()
        .map(|(key, value)| EventAttribute {
            key: (*key).into(),
            value: value.clone(),
            index: true,
        })
        .collect();
    Event { r#type: kind.into(), attributes }
}

/// Events of a height: what closed, was certified, deposited and exited.
fn height_events(outcome: &Outcome) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some((number, record, tree)) = &outcome.closed {
        events.push(event(
            "block_closed",
            &[
                ("number", number.to_string()),
                ("root", record.root.to_string()),
                ("transfers", tree.leaves().len().to_string()),
            ],
        ));
    }
    if let Some(number) = outcome.certified {
        events.push(event("block_certified", &[("number", number.to_string())]));
    }
    for deposit in &outcome.deposits {
        events.push(event(
            "deposit",
            &[
                ("id", deposit.deposit_id.to_string()),
                ("first_coin", deposit.first_coin.to_string()),
                ("count", deposit.count.to_string()),
                ("owner", deposit.owner.to_string()),
            ],
        ));
    }
    let coin = |kind, coin: &u64| event(kind, &[("coin", coin.to_string())]);
    events.extend(outcome.frozen.iter().map(|c| coin("exit_started", c)));
    events.extend(outcome.thawed.iter().map(|c| coin("thawed", c)));
    events.extend(outcome.gone.iter().map(|(c, _)| coin("exit_finalized", c)));
    events
}

fn transfer_event(executed: &Executed) -> Event {
    event(
        "transfer",
        &[
            ("coin", executed.coin.to_string()),
            ("from", executed.from.to_string()),
            ("to", executed.to.to_string()),
            ("hash", executed.hash.to_string()),
        ],
    )
}

fn refused(code: Code) -> ResponseCheckTx {
    ResponseCheckTx {
        code: code.number(),
        codespace: CODESPACE.into(),
        log: format!("{}: {}", code.name(), code.help()),
        ..Default::default()
    }
}

impl Application for App {
    fn info(&self, _request: RequestInfo) -> ResponseInfo {
        let latest = self.store.latest();
        ResponseInfo {
            data: "plasma-cash".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            app_version: 1,
            last_block_height: latest.map_or(0, |(version, _)| version as i64),
            last_block_app_hash: latest
                .map_or_else(Default::default, |(_, commitment)| commitment.0.to_vec().into()),
        }
    }

    fn query(&self, request: RequestQuery) -> ResponseQuery {
        match self.committed() {
            Some(view) => query(&view, &self.archive, &self.owners, &request),
            None => refuse(&QueryError::NotFound("the chain, before its genesis,".into())),
        }
    }

    fn check_tx(&self, request: RequestCheckTx) -> ResponseCheckTx {
        let Some(view) = self.committed() else {
            let log = "internal error: the chain has not started".into();
            return ResponseCheckTx { code: CODE_INTERNAL, log, ..Default::default() };
        };
        let position = (view.version, view.tip.next_block());
        if request.r#type == CheckTxType::Recheck as i32
            && let Some(verdict) = self.pool.recheck(&request.tx, position)
        {
            return verdict.map_or_else(refused, |()| ResponseCheckTx::default());
        }
        let (chain, verifier) = (&view.chain, &self.verifier);
        match self.pool.admit(&request.tx, chain, &*view, verifier, position) {
            Ok(Ok(_)) => ResponseCheckTx::default(),
            Ok(Err(code)) => refused(code),
            Err(error) => {
                tracing::error!(%error, "CheckTx");
                let log = format!("internal error: {error}");
                ResponseCheckTx { code: CODE_INTERNAL, log, ..Default::default() }
            }
        }
    }

    fn init_chain(&self, request: RequestInitChain) -> Result<ResponseInitChain, Fatal> {
        let chain = check_genesis(&request, self.store.scheme())?;
        let commitment = self.start_chain(&chain)?;
        Ok(ResponseInitChain { app_hash: commitment.0.to_vec().into(), ..Default::default() })
    }

    fn prepare_proposal(
        &self,
        request: RequestPrepareProposal,
    ) -> Result<ResponsePrepareProposal, Fatal> {
        Ok(ResponsePrepareProposal { txs: self.prepare(&request)? })
    }

    fn process_proposal(
        &self,
        request: RequestProcessProposal,
    ) -> Result<ResponseProcessProposal, Fatal> {
        let status =
            if self.process(&request)? { ProposalStatus::Accept } else { ProposalStatus::Reject };
        Ok(ResponseProcessProposal { status: status.into() })
    }

    fn extend_vote(&self, request: RequestExtendVote) -> Result<ResponseExtendVote, Fatal> {
        Ok(ResponseExtendVote { vote_extension: self.extend(&request).into() })
    }

    fn verify_vote_extension(
        &self,
        request: RequestVerifyVoteExtension,
    ) -> Result<ResponseVerifyVoteExtension, Fatal> {
        let status = if self.verify_extension(&request) {
            VerifyStatus::Accept
        } else {
            VerifyStatus::Reject
        };
        Ok(ResponseVerifyVoteExtension { status: status.into() })
    }

    fn finalize_block(
        &self,
        request: RequestFinalizeBlock,
    ) -> Result<ResponseFinalizeBlock, Fatal> {
        let (outcome, commitment) = self.finalize(&request)?;
        let tx_results = outcome
            .results
            .iter()
            .map(|result| ExecTxResult {
                data: result.data.clone().into(),
                events: if self.options.transfer_events {
                    result.executed.iter().map(transfer_event).collect()
                } else {
                    Vec::new()
                },
                ..Default::default()
            })
            .collect();
        Ok(ResponseFinalizeBlock {
            events: height_events(&outcome),
            tx_results,
            app_hash: commitment.0.to_vec().into(),
            ..Default::default()
        })
    }

    fn commit(&self) -> Result<ResponseCommit, Fatal> {
        self.commit_finalized()?;
        Ok(ResponseCommit::default())
    }

    // State sync comes later: no snapshot is served, and none is accepted.

    fn list_snapshots(&self) -> ResponseListSnapshots {
        ResponseListSnapshots::default()
    }

    fn offer_snapshot(
        &self,
        _request: RequestOfferSnapshot,
    ) -> Result<ResponseOfferSnapshot, Fatal> {
        Ok(ResponseOfferSnapshot { result: OfferResult::RejectFormat.into() })
    }

    fn load_snapshot_chunk(&self, _request: RequestLoadSnapshotChunk) -> ResponseLoadSnapshotChunk {
        ResponseLoadSnapshotChunk::default()
    }

    fn apply_snapshot_chunk(
        &self,
        _request: RequestApplySnapshotChunk,
    ) -> Result<ResponseApplySnapshotChunk, Fatal> {
        let result = ApplyResult::Abort.into();
        Ok(ResponseApplySnapshotChunk { result, ..Default::default() })
    }
}
