//! An application whose answers tell what it was asked; the benchmark uses it as well.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use plasma_abci::application::{Application, Fatal};
use tendermint_proto::v0_38::abci::*;

/// CheckTx answers the transaction's length as its code, FinalizeBlock one result per
/// transaction.
#[derive(Default)]
pub struct TestApplication {
    /// CheckTx calls so far.
    pub checked: AtomicUsize,
    /// Commits that returned.
    pub committed: AtomicUsize,
    /// If set, Commit tells that it was entered and waits until it is released.
    pub gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Application for TestApplication {
    fn info(&self, request: RequestInfo) -> ResponseInfo {
        ResponseInfo { data: "test".to_owned(), version: request.version, ..Default::default() }
    }

    fn query(&self, request: RequestQuery) -> ResponseQuery {
        ResponseQuery { value: request.data, height: request.height, ..Default::default() }
    }

    fn check_tx(&self, request: RequestCheckTx) -> ResponseCheckTx {
        assert_ne!(&request.tx[..], b"panic", "asked to panic");
        self.checked.fetch_add(1, Ordering::Release);
        ResponseCheckTx { code: request.tx.len() as u32, ..Default::default() }
    }

    fn init_chain(&self, _: RequestInitChain) -> Result<ResponseInitChain, Fatal> {
        Ok(ResponseInitChain { app_hash: vec![7; 32].into(), ..Default::default() })
    }

    fn prepare_proposal(
        &self,
        request: RequestPrepareProposal,
    ) -> Result<ResponsePrepareProposal, Fatal> {
        Ok(ResponsePrepareProposal { txs: request.txs })
    }

    fn process_proposal(
        &self,
        _: RequestProcessProposal,
    ) -> Result<ResponseProcessProposal, Fatal> {
        Ok(ResponseProcessProposal { status: 1 })
    }

    fn extend_vote(&self, request: RequestExtendVote) -> Result<ResponseExtendVote, Fatal> {
        Ok(ResponseExtendVote { vote_extension: request.hash })
    }

    fn verify_vote_extension(
        &self,
        _: RequestVerifyVoteExtension,
    ) -> Result<ResponseVerifyVoteExtension, Fatal> {
        Ok(ResponseVerifyVoteExtension { status: 1 })
    }

    fn finalize_block(
        &self,
        request: RequestFinalizeBlock,
    ) -> Result<ResponseFinalizeBlock, Fatal> {
        if request.txs.first().is_some_and(|tx| &tx[..] == b"fatal") {
            return Err(Fatal::new(request.height, "disk is gone"));
        }
        let tx_results = vec![ExecTxResult::default(); request.txs.len()];
        Ok(ResponseFinalizeBlock { tx_results, ..Default::default() })
    }

    fn commit(&self) -> Result<ResponseCommit, Fatal> {
        if let Some((entered, release)) = &*self.gate.lock().unwrap() {
            entered.send(()).unwrap();
            release.recv().unwrap();
        }
        self.committed.fetch_add(1, Ordering::Release);
        Ok(ResponseCommit { retain_height: 0 })
    }

    fn list_snapshots(&self) -> ResponseListSnapshots {
        ResponseListSnapshots::default()
    }

    fn offer_snapshot(&self, _: RequestOfferSnapshot) -> Result<ResponseOfferSnapshot, Fatal> {
        Ok(ResponseOfferSnapshot { result: 3 })
    }

    fn load_snapshot_chunk(&self, _: RequestLoadSnapshotChunk) -> ResponseLoadSnapshotChunk {
        ResponseLoadSnapshotChunk::default()
    }

    fn apply_snapshot_chunk(
        &self,
        _: RequestApplySnapshotChunk,
    ) -> Result<ResponseApplySnapshotChunk, Fatal> {
        Ok(ResponseApplySnapshotChunk { result: 2, ..Default::default() })
    }
}
