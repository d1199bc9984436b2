//! What a well-behaved client sees, and how the server starts and stops.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread;

use plasma_abci::server::{Address, BindError, CONNECTIONS_MAX, Options, Server};
use tendermint_proto::v0_38::abci::{RequestCommit, RequestInfo, request, response};

use crate::application::TestApplication;
use crate::client::{FLUSH, TestServer, check_tx, echo, eventually, frame};

#[test]
fn golden_exchange() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.stream.write_all(&[7, 0x42, 5, 0x0a, 3, 1, 2, 3, 2, 0x12, 0]).unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, [4, 0x4a, 2, 0x08, 3, 2, 0x1a, 0]);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = TestServer::start();
    let mut client = server.connect();
    let mut sender = client.stream.try_clone().unwrap();
    let sending = thread::spawn(move || {
        for length in 0..2_000 {
            sender.write_all(&frame(check_tx(&vec![1; length]))).unwrap();
        }
        sender.write_all(&frame(FLUSH)).unwrap();
    });
    (0..2_000).for_each(|length| client.expect_code(length));
    assert!(matches!(client.receive(), Some(response::Value::Flush(_))));
    sending.join().unwrap();
}

#[test]
fn requests_may_arrive_byte_by_byte() {
    let server = TestServer::start();
    let mut client = server.connect();
    for byte in [frame(check_tx(b"slow")), frame(FLUSH)].concat() {
        client.stream.write_all(&[byte]).unwrap();
    }
    client.expect_code(4);
}

#[test]
fn nothing_is_sent_before_a_flush() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(check_tx(b"x"));
    client.send(check_tx(b"xy"));
    eventually("both were checked", || server.application.checked.load(Ordering::Acquire) == 2);
    client.stream.set_nonblocking(true).unwrap();
    let error = client.stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    client.stream.set_nonblocking(false).unwrap();
    client.send(FLUSH);
    client.expect_code(1);
    client.expect_code(2);
}

#[test]
fn a_full_buffer_is_sent_without_a_flush() {
    let server = TestServer::start();
    let mut client = server.connect();
    let text = "e".repeat(300 << 10);
    client.send(echo(&text));
    assert!(matches!(client.receive(), Some(response::Value::Echo(e)) if e.message == text));
}

#[test]
fn many_connections_are_served_at_once() {
    let server = TestServer::start();
    thread::scope(|scope| {
        for connection in 0..32 {
            let mut client = server.connect();
            scope.spawn(move || {
                for round in 0..10 {
                    for length in 0..100 {
                        client.send(check_tx(&vec![1; connection + round + length]));
                    }
                    client.send(FLUSH);
                    for length in 0..100 {
                        client.expect_code((connection + round + length) as u32);
                    }
                    assert!(matches!(client.receive(), Some(response::Value::Flush(_))));
                }
            });
        }
    });
    for _ in 0..32 {
        let end = server.end();
        assert!(end.result.is_ok() && !end.consensus, "{end:?}");
    }
}

#[test]
fn connections_over_the_limit_are_closed() {
    let server = TestServer::start();
    let mut clients: Vec<_> = (0..CONNECTIONS_MAX).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.call(echo("here"));
    }
    assert!(server.connect().receive().is_none());
    clients.pop();
    server.end();
    server.connect().call(echo("room again"));
}

#[test]
fn the_end_of_the_consensus_connection_is_told() {
    let server = TestServer::start();
    let mut query = server.connect();
    query.call(request::Value::Info(RequestInfo::default()));
    drop(query);
    let end = server.end();
    assert_eq!((end.connection, end.consensus), (0, false));
    let mut consensus = server.connect();
    consensus.call(request::Value::Commit(RequestCommit {}));
    drop(consensus);
    let end = server.end();
    assert_eq!((end.connection, end.consensus), (1, true));
}

#[test]
fn stop_finishes_the_running_call() {
    let mut server = TestServer::start();
    let path = server.folder.path().join("abci.sock");
    let (entered_sender, entered) = mpsc::channel();
    let (release, release_receiver) = mpsc::channel();
    *server.application.gate.lock().unwrap() = Some((entered_sender, release_receiver));
    let mut idle = server.connect();
    idle.call(echo("here"));
    let mut client = server.connect();
    client.send(request::Value::Commit(RequestCommit {}));
    client.send(check_tx(b"not taken up"));
    entered.recv().unwrap();
    let handle = server.handle.take().unwrap();
    let stopping = thread::spawn(move || handle.stop());
    assert!(idle.receive().is_none());
    assert_eq!(server.application.committed.load(Ordering::Acquire), 0);
    release.send(()).unwrap();
    stopping.join().unwrap();
    assert_eq!(server.application.committed.load(Ordering::Acquire), 1);
    assert_eq!(server.application.checked.load(Ordering::Acquire), 0);
    assert!(!path.exists());
}

fn bind(address: &Address) -> Result<Server<TestApplication>, BindError> {
    Server::bind(address, Arc::new(TestApplication::default()), Options::default())
}

#[test]
fn only_a_dead_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("abci.sock");
    let address = Address::Unix(path.clone());
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let live = bind(&address).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(bind(&address), Err(BindError::InUse { .. })));
    UnixStream::connect(&path).unwrap();
    drop(live);
    bind(&address).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "keep me").unwrap();
    assert!(matches!(bind(&address), Err(BindError::NotASocket { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"keep me");
}

#[test]
fn addresses_are_those_of_proxy_app() {
    for text in ["unix:///tmp/abci.sock", "unix://abci.sock", "tcp://127.0.0.1:26658"] {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
    }
    for text in ["", "unix://", "tcp://localhost", "http://127.0.0.1:1", "/tmp/abci.sock"] {
        assert!(text.parse::<Address>().is_err(), "{text:?}");
    }
    let public = "tcp://0.0.0.0:0".parse().unwrap();
    assert!(matches!(bind(&public), Err(BindError::NotLoopback { .. })));
}
