//! Broken clients and a broken application.

use std::io::Write;
use std::net::Shutdown;

use plasma_abci::codec::{MESSAGE_BYTES_MAX, ReadError};
use plasma_abci::server::ConnectionError;
use tendermint_proto::v0_38::abci::{RequestCommit, RequestFinalizeBlock, request};

use crate::client::{TestServer, check_tx, echo, frame};

/// Sends bytes, expects an exception with the text, then the end of the connection.
#[track_caller]
fn refused(bytes: &[u8], text: &str) -> ConnectionError {
    let server = TestServer::start();
    let mut client = server.connect();
    client.stream.write_all(&frame(check_tx(b"before"))).unwrap();
    client.stream.write_all(bytes).unwrap();
    // What was asked before the fault is still answered.
    client.expect_code(6);
    client.expect_exception(text);
    assert!(client.receive().is_none());
    assert!(server.fatal.lock().unwrap().is_empty());
    // Before another connection comes and ends.
    let end = server.end();
    server.connect().call(echo("others are served"));
    end.result.unwrap_err()
}

#[test]
fn an_oversize_length_is_refused() {
    let mut bytes = Vec::new();
    prost::encoding::encode_varint(MESSAGE_BYTES_MAX as u64 + 1, &mut bytes);
    let error = refused(&bytes, "over the limit");
    assert!(matches!(error, ConnectionError::Read(ReadError::TooLong { .. })));
}

#[test]
fn a_length_that_is_not_minimal_is_refused() {
    for bytes in [&[0x82, 0x00, 0x12, 0x00][..], &[0xff; 10]] {
        let error = refused(bytes, "not a minimal varint");
        assert!(matches!(error, ConnectionError::Read(ReadError::BadLength { .. })));
    }
}

#[test]
fn garbage_is_refused() {
    let error = refused(&[4, 0xff, 0xff, 0xff, 0xff], "not an ABCI request");
    assert!(matches!(error, ConnectionError::Read(ReadError::Malformed { bytes: 4, .. })));
}

#[test]
fn a_request_without_a_known_call_is_refused() {
    // An empty message, and field 100, which no ABCI 2.0 request has.
    for bytes in [&[0][..], &[3, 0xa2, 0x06, 0x00]] {
        let error = refused(bytes, "without a known call");
        assert!(matches!(error, ConnectionError::UnknownRequest));
    }
}

#[test]
fn the_end_inside_a_request_is_an_error() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.stream.write_all(&[7, 0x42, 5]).unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.expect_exception("ended inside a message");
    let error = server.end().result.unwrap_err();
    assert!(matches!(error, ConnectionError::Read(ReadError::Truncated { bytes: 3 })));
}

fn finalize(tx: &'static [u8], height: i64) -> request::Value {
    request::Value::FinalizeBlock(RequestFinalizeBlock {
        txs: vec![tx.into()],
        height,
        ..Default::default()
    })
}

#[test]
fn a_fatal_error_calls_the_hook_and_is_not_answered() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(finalize(b"fatal", 77));
    assert!(client.receive().is_none());
    let text = "finalize_block: fatal at height 77: disk is gone";
    assert_eq!(*server.fatal.lock().unwrap(), [text]);
    let end = server.end();
    assert!(end.consensus);
    assert!(matches!(end.result, Err(ConnectionError::Fatal(told)) if told == text));
}

#[test]
fn a_panic_calls_the_hook_and_is_not_answered() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(check_tx(b"panic"));
    assert!(client.receive().is_none());
    let told = server.fatal.lock().unwrap().concat();
    assert!(told.starts_with("check_tx: panic at height 0: "), "{told}");
    assert!(told.contains("asked to panic"), "{told}");
}

#[test]
fn a_panic_in_commit_names_the_finalized_height() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.call(finalize(b"tx", 12));
    // The gate's sender has no receiver, so Commit panics.
    let (sender, _) = std::sync::mpsc::channel();
    let (_, receiver) = std::sync::mpsc::channel();
    *server.application.gate.lock().unwrap() = Some((sender, receiver));
    client.send(request::Value::Commit(RequestCommit {}));
    assert!(client.receive().is_none());
    let told = server.fatal.lock().unwrap().concat();
    assert!(told.starts_with("commit: panic at height 12: "), "{told}");
}
