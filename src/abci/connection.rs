//! One connection: requests are taken up strictly in order and answered in that order.
//!
//! A request that cannot be read is answered with an exception (CometBFT logs its text) and ends
//! the connection. A [`Fatal`] error or a panic of the application calls the fatal hook, which
//! normally does not return.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use tendermint_proto::v0_38::abci::request::Value as Req;
use tendermint_proto::v0_38::abci::response::Value as Res;
use tendermint_proto::v0_38::abci::{Response, ResponseEcho, ResponseException, ResponseFlush};

use crate::application::{Application, Fatal};
use crate::codec::{ReadError, RequestReader, ResponseWriter};
use crate::grammar::{Call, Method};
use crate::recorder::Recorder;
use crate::socket::Stream;

/// Why a connection ended, other than by the peer's closing it between two requests.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// A request could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A request without a call that this version knows.
    #[error("request without a known call")]
    UnknownRequest,
    /// A response could not be sent.
    #[error("cannot write to the socket: {0}")]
    Write(#[source] io::Error),
    /// The application failed and the fatal hook returned; the text is what the hook was given.
    #[error("{0}")]
    Fatal(String),
}

pub(crate) struct Connection<'a, A> {
    pub(crate) application: &'a A,
    pub(crate) recorder: Option<&'a dyn Recorder>,
    pub(crate) fatal: &'a (dyn Fn(&str) + Send + Sync),
    pub(crate) stopping: &'a AtomicBool,
    /// Whether a call came that only the consensus connection carries.
    pub(crate) consensus: bool,
    /// Height of the last FinalizeBlock, which is what Commit commits.
    height: i64,
}

thread_local! {
    /// The call that this thread is answering, for the text of a panic.
    static CURRENT: Cell<Option<(&'static str, i64)>> = const { Cell::new(None) };
}

impl<'a, A: Application> Connection<'a, A> {
    pub(crate) fn new(
        application: &'a A,
        recorder: Option<&'a dyn Recorder>,
        fatal: &'a (dyn Fn(&str) + Send + Sync),
        stopping: &'a AtomicBool,
    ) -> Self {
        Self { application, recorder, fatal, stopping, consensus: false, height: 0 }
    }

    /// Answers requests until the stream ends or the server stops.
    pub(crate) fn run(&mut self, input: Stream, output: Stream) -> Result<(), ConnectionError> {
        let mut reader = RequestReader::new(input);
        let mut writer = ResponseWriter::new(output);
        while !self.stopping.load(Ordering::Relaxed) {
            let request = match reader.next_request() {
                Ok(Some(request)) => request.value.ok_or(ConnectionError::UnknownRequest),
                Ok(None) => return Ok(()),
                Err(error) => Err(error.into()),
            };
            let request = match request {
                Ok(request) => request,
                Err(error) => {
                    refuse(&mut writer, &error);
                    return Err(error);
                }
            };
            let value = self.answer(request)?;
            let flush = matches!(value, Res::Flush(_));
            writer.write(&Response { value: Some(value) }).map_err(ConnectionError::Write)?;
            if flush {
                writer.flush().map_err(ConnectionError::Write)?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, request: Req) -> Result<Res, ConnectionError> {
        let (name, method, height) = self.describe(&request);
        if let (Some(method), Some(recorder)) = (method, self.recorder) {
            recorder.record(Call { method, height });
        }
        CURRENT.set(Some((name, height)));
        let result = panic::catch_unwind(AssertUnwindSafe(|| self.call(request)));
        CURRENT.set(None);
        let text = match result {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(fatal)) => format!("{name}: {fatal}"),
            Err(payload) => {
                format!("{name}: panic at height {height}: {}", panic_text(payload.as_ref()))
            }
        };
        (self.fatal)(&text);
        Err(ConnectionError::Fatal(text))
    }

    /// Name of a request, its method if the grammar speaks of it, and the height it is about.
    fn describe(&mut self, request: &Req) -> (&'static str, Option<Method>, i64) {
        let (method, height) = match request {
            Req::Echo(_) => return ("echo", None, 0),
            Req::Flush(_) => return ("flush", None, 0),
            Req::Query(query) => return ("query", None, query.height),
            Req::CheckTx(_) => return ("check_tx", None, 0),
            Req::ListSnapshots(_) => return ("list_snapshots", None, 0),
            Req::LoadSnapshotChunk(load) => {
                return ("load_snapshot_chunk", None, signed(load.height));
            }
            Req::Info(_) => (Method::Info, 0),
            Req::OfferSnapshot(offer) => (
                Method::OfferSnapshot,
                offer.snapshot.as_ref().map_or(0, |snapshot| signed(snapshot.height)),
            ),
            Req::ApplySnapshotChunk(_) => (Method::ApplySnapshotChunk, 0),
            Req::InitChain(request) => (Method::InitChain, request.initial_height),
            Req::PrepareProposal(request) => (Method::PrepareProposal, request.height),
            Req::ProcessProposal(request) => (Method::ProcessProposal, request.height),
            Req::ExtendVote(request) => (Method::ExtendVote, request.height),
            Req::VerifyVoteExtension(request) => (Method::VerifyVoteExtension, request.height),
            Req::FinalizeBlock(request) => {
                self.height = request.height;
                (Method::FinalizeBlock, request.height)
            }
            Req::Commit(_) => (Method::Commit, self.height),
        };
        self.consensus |=
            !matches!(method, Method::Info | Method::OfferSnapshot | Method::ApplySnapshotChunk);
        (method.name(), Some(method), height)
    }

    fn call(&self, request: Req) -> Result<Res, Fatal> {
        let application = self.application;
        Ok(match request {
            Req::CheckTx(request) => Res::CheckTx(application.check_tx(request)),
            Req::Echo(request) => Res::Echo(ResponseEcho { message: request.message }),
            Req::Flush(_) => Res::Flush(ResponseFlush {}),
            Req::Info(request) => Res::Info(application.info(request)),
            Req::Query(request) => Res::Query(application.query(request)),
            Req::InitChain(request) => Res::InitChain(application.init_chain(request)?),
            Req::PrepareProposal(request) => {
                Res::PrepareProposal(application.prepare_proposal(request)?)
            }
            Req::ProcessProposal(request) => {
                Res::ProcessProposal(application.process_proposal(request)?)
            }
            Req::ExtendVote(request) => Res::ExtendVote(application.extend_vote(request)?),
            Req::VerifyVoteExtension(request) => {
                Res::VerifyVoteExtension(application.verify_vote_extension(request)?)
            }
            Req::FinalizeBlock(request) => Res::FinalizeBlock(application.finalize_block(request)?),
            Req::Commit(_) => Res::Commit(application.commit()?),
            Req::ListSnapshots(_) => Res::ListSnapshots(application.list_snapshots()),
            Req::OfferSnapshot(request) => Res::OfferSnapshot(application.offer_snapshot(request)?),
            Req::LoadSnapshotChunk(request) => {
                Res::LoadSnapshotChunk(application.load_snapshot_chunk(request))
            }
            Req::ApplySnapshotChunk(request) => {
                Res::ApplySnapshotChunk(application.apply_snapshot_chunk(request)?)
            }
        })
    }
}

/// Tells the peer why its connection ends. That the peer may be gone already does not matter.
fn refuse(writer: &mut ResponseWriter<Stream>, error: &ConnectionError) {
    let exception = Res::Exception(ResponseException { error: error.to_string() });
    let _ = writer.write(&Response { value: Some(exception) }).and_then(|()| writer.flush());
}

fn signed(height: u64) -> i64 {
    i64::try_from(height).unwrap_or(i64::MAX)
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Makes every panic inside a call name the call and its height. The release profile aborts at
/// a panic, so nothing after it can say so.
pub(crate) fn name_call_in_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if let Some((call, height)) = CURRENT.get() {
                tracing::error!(call, height, "panic while answering: {info}");
            }
            previous(info);
        }));
    });
}
