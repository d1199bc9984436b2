//! Calls recorded by the server, as the grammar's check sees them.

use std::sync::Arc;

use plasma_abci::grammar::{self, State};
use plasma_abci::recorder::{FileRecorder, parse_lives};
use plasma_abci::server::Options;
use tendermint_proto::v0_38::abci::*;

use crate::client::{FLUSH, TestServer, check_tx, echo};

fn with_recorder(path: &std::path::Path) -> TestServer {
    let recorder = Arc::new(FileRecorder::open(path).unwrap());
    TestServer::with(Options { recorder: Some(recorder), ..Default::default() })
}

fn finalize(height: i64) -> request::Value {
    request::Value::FinalizeBlock(RequestFinalizeBlock { height, ..Default::default() })
}

#[test]
fn calls_are_recorded_per_life() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls");
    let info = || request::Value::Info(RequestInfo::default());
    let commit = || request::Value::Commit(RequestCommit {});
    let prepare = RequestPrepareProposal { height: 4, ..Default::default() };
    let process = RequestProcessProposal { height: 4, ..Default::default() };
    let extend = RequestExtendVote { height: 4, ..Default::default() };
    let verify = RequestVerifyVoteExtension { height: 4, ..Default::default() };

    let server = with_recorder(&path);
    let (mut query, mut consensus) = (server.connect(), server.connect());
    query.call(info());
    query.call(echo("not recorded"));
    query.call(check_tx(b"not recorded"));
    let init = RequestInitChain { initial_height: 4, ..Default::default() };
    for value in [
        request::Value::InitChain(init),
        request::Value::PrepareProposal(prepare),
        request::Value::ProcessProposal(process),
        request::Value::ExtendVote(extend),
        request::Value::VerifyVoteExtension(verify),
        finalize(4),
        commit(),
    ] {
        consensus.call(value);
    }
    drop(server);

    let server = with_recorder(&path);
    let mut client = server.connect();
    client.call(info());
    client.call(finalize(5));
    client.call(finalize(5));
    client.send(FLUSH);
    drop(server);

    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        text,
        "start\ninfo 0\ninit_chain 4\nprepare_proposal 4\nprocess_proposal 4\nextend_vote 4\n\
         verify_vote_extension 4\nfinalize_block 4\ncommit 4\n\
         start\ninfo 0\nfinalize_block 5\nfinalize_block 5\n"
    );
    let lives = parse_lives(&text).unwrap();
    grammar::check(&lives[0]).unwrap();
    let error = grammar::check(&lives[1]).unwrap_err();
    assert_eq!((error.index, error.state), (2, State::Finalized(5)));
    assert!(parse_lives("info 0\n").is_err());
    assert!(parse_lives("start\ncheck_tx 0\n").is_err());
}

#[test]
fn snapshot_calls_are_recorded_with_their_height() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls");
    let server = with_recorder(&path);
    let mut client = server.connect();
    let snapshot = Some(Snapshot { height: 9, ..Default::default() });
    let offer = RequestOfferSnapshot { snapshot, ..Default::default() };
    client.call(request::Value::OfferSnapshot(offer));
    client.call(request::Value::ApplySnapshotChunk(RequestApplySnapshotChunk::default()));
    drop(client);
    assert!(!server.end().consensus);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "start\noffer_snapshot 9\napply_snapshot_chunk 0\n");
}
