//! A client that shows the bytes, and a server to use it on.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plasma_abci::server::{Address, ConnectionEnd, Handle, Options, Server};
use prost::Message;
use tempfile::TempDir;
use tendermint_proto::v0_38::abci::{
    Request, RequestCheckTx, RequestEcho, RequestFlush, Response, request, response,
};

use crate::application::TestApplication;

pub const DEADLINE: Duration = Duration::from_secs(20);

/// Waits until a condition holds.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "never: {what}");
        std::thread::yield_now();
    }
}

/// A server on a unix socket that keeps what its fatal hook was told.
pub struct TestServer {
    pub application: Arc<TestApplication>,
    pub handle: Option<Handle>,
    pub fatal: Arc<Mutex<Vec<String>>>,
    pub folder: TempDir,
}

impl TestServer {
    pub fn start() -> Self {
        Self::with(Options::default())
    }

    pub fn with(mut options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fatal = Arc::new(Mutex::new(Vec::new()));
        let texts = Arc::clone(&fatal);
        options.fatal = Arc::new(move |text| texts.lock().unwrap().push(text.to_owned()));
        let application = Arc::new(TestApplication::default());
        let address = Address::Unix(folder.path().join("abci.sock"));
        let server = Server::bind(&address, Arc::clone(&application), options).unwrap();
        let handle = Some(server.start().unwrap());
        Self { application, handle, fatal, folder }
    }

    pub fn connect(&self) -> RawClient {
        RawClient::new(UnixStream::connect(self.folder.path().join("abci.sock")).unwrap())
    }

    #[track_caller]
    pub fn end(&self) -> ConnectionEnd {
        self.handle.as_ref().unwrap().next_end(DEADLINE).expect("no connection ended")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.stop();
        }
    }
}

pub fn frame(value: request::Value) -> Vec<u8> {
    Request { value: Some(value) }.encode_length_delimited_to_vec()
}

pub fn check_tx(tx: &[u8]) -> request::Value {
    request::Value::CheckTx(RequestCheckTx { tx: tx.to_vec().into(), r#type: 0 })
}

pub fn echo(text: &str) -> request::Value {
    request::Value::Echo(RequestEcho { message: text.to_owned() })
}

pub const FLUSH: request::Value = request::Value::Flush(RequestFlush {});

pub struct RawClient {
    pub stream: UnixStream,
    unread: Vec<u8>,
}

impl RawClient {
    pub fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self { stream, unread: Vec::new() }
    }

    pub fn send(&mut self, value: request::Value) {
        self.stream.write_all(&frame(value)).unwrap();
    }

    /// The next response; `None` when the server closed.
    pub fn receive(&mut self) -> Option<response::Value> {
        loop {
            let mut rest = &self.unread[..];
            if let Ok(response) = Response::decode_length_delimited(&mut rest) {
                let used = self.unread.len() - rest.len();
                self.unread.drain(..used);
                return Some(response.value.expect("empty response"));
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes).unwrap() {
                0 => return None,
                count => self.unread.extend_from_slice(&bytes[..count]),
            }
        }
    }

    pub fn call(&mut self, value: request::Value) -> response::Value {
        self.send(value);
        self.send(FLUSH);
        let answer = self.receive().expect("closed");
        assert!(matches!(self.receive(), Some(response::Value::Flush(_))));
        answer
    }

    #[track_caller]
    pub fn expect_code(&mut self, code: u32) {
        match self.receive() {
            Some(response::Value::CheckTx(response)) => assert_eq!(response.code, code),
            other => panic!("not a CheckTx response: {other:?}"),
        }
    }

    #[track_caller]
    pub fn expect_exception(&mut self, text: &str) {
        match self.receive() {
            Some(response::Value::Exception(exception)) => {
                assert!(exception.error.contains(text), "{}", exception.error);
            }
            other => panic!("not an exception: {other:?}"),
        }
    }
}
