//! The ABCI socket server: one blocking thread per connection.
//!
//! CometBFT opens four connections (consensus, mempool, query, snapshot) without naming them and
//! exits when one drops, so the server reports each connection's end and leaves it to its owner
//! to end the process; node and application are restarted together. Nothing here is durable: a
//! request without an answer is CometBFT's to repeat after the restart.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::application::Application;
pub use crate::connection::ConnectionError;
use crate::connection::{Connection, name_call_in_panics};
use crate::recorder::Recorder;
pub use crate::socket::{Address, BindError, ParseAddressError};
use crate::socket::{Listener, Stream};

/// Most connections at a time. CometBFT opens four; a further one is closed at once.
pub const CONNECTIONS_MAX: usize = 64;

/// Called with a text that names call, height and cause when the application cannot go on.
pub type FatalHook = Arc<dyn Fn(&str) + Send + Sync>;

/// How the server runs.
#[derive(Clone)]
pub struct Options {
    /// Called on a fatal error or a panic of the application. If it returns, the connection
    /// ends without an answer. The default logs the text and aborts the process.
    pub fatal: FatalHook,
    /// Sees every call that the call grammar speaks of.
    pub recorder: Option<Arc<dyn Recorder>>,
}

impl Default for Options {
    fn default() -> Self {
        Self { fatal: Arc::new(abort), recorder: None }
    }
}

fn abort(text: &str) {
    tracing::error!("{text}; aborting");
    std::process::abort()
}

/// The end of a connection.
#[derive(Debug)]
pub struct ConnectionEnd {
    /// Number of the connection, from 0 in the order of their arrival.
    pub connection: u64,
    /// Whether it carried a call of consensus (InitChain to Commit).
    pub consensus: bool,
    /// `Ok` if the peer closed it between two requests.
    pub result: Result<(), ConnectionError>,
}

/// A server that listens and does not accept connections yet.
pub struct Server<A> {
    listener: Listener,
    address: Address,
    application: Arc<A>,
    options: Options,
}

/// A running server. Dropping it does not stop the server.
pub struct Handle {
    shared: Arc<Shared>,
    ends: Receiver<ConnectionEnd>,
    acceptor: JoinHandle<()>,
}

struct Shared {
    address: Address,
    stopping: AtomicBool,
    connections: Mutex<HashMap<u64, Peer>>,
}

/// What is needed to end a connection from outside.
struct Peer {
    stream: Stream,
    thread: JoinHandle<()>,
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, HashMap<u64, Peer>> {
        self.connections.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

impl<A: Application> Server<A> {
    /// Listens on an address; TCP port 0 takes a free port.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(
        address: &Address,
        application: Arc<A>,
        options: Options,
    ) -> Result<Self, BindError> {
        let (listener, address) = Listener::bind(address)?;
        Ok(Self { listener, address, application, options })
    }

    /// The address listened on, with the port that was taken.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Accepts connections in threads of its own.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start(self) -> io::Result<Handle> {
        name_call_in_panics();
        let shared = Arc::new(Shared {
            address: self.address.clone(),
            stopping: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let (sender, ends) = mpsc::channel();
        let for_acceptor = Arc::clone(&shared);
        let acceptor = thread::Builder::new()
            .name("abci-accept".to_owned())
            .spawn(move || self.accept(&for_acceptor, &sender))?;
        Ok(Handle { shared, ends, acceptor })
    }

    fn accept(self, shared: &Arc<Shared>, ends: &Sender<ConnectionEnd>) {
        for number in 0.. {
            let accepted = self.listener.accept();
            if shared.stopping() {
                return;
            }
            let result = accepted.and_then(|stream| self.spawn(shared, ends, number, stream));
            if let Err(error) = result {
                tracing::error!(%error, "cannot accept an ABCI connection");
                // Out of descriptors or threads: give others time to return some.
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    fn spawn(
        &self,
        shared: &Arc<Shared>,
        ends: &Sender<ConnectionEnd>,
        number: u64,
        input: Stream,
    ) -> io::Result<()> {
        let (output, stream) = (input.try_clone()?, input.try_clone()?);
        // Held until the thread is listed, so that it finds itself there at its end.
        let mut connections = shared.connections();
        if connections.len() >= CONNECTIONS_MAX {
            tracing::warn!(max = CONNECTIONS_MAX, "too many ABCI connections, one is refused");
            return Ok(());
        }
        let (application, options) = (Arc::clone(&self.application), self.options.clone());
        let (for_thread, ends) = (Arc::clone(shared), ends.clone());
        let thread = thread::Builder::new().name(format!("abci-{number}")).spawn(move || {
            let recorder = options.recorder.as_deref();
            let stopping = &for_thread.stopping;
            let mut connection =
                Connection::new(&*application, recorder, &*options.fatal, stopping);
            let result = connection.run(input, output);
            let consensus = connection.consensus;
            if let Some(peer) = for_thread.connections().remove(&number) {
                // The peer must see the end although this clone may live on for a moment.
                let _ = peer.stream.shutdown();
            }
            tracing::info!(connection = number, consensus, ?result, "ABCI connection ended");
            // The owner may have dropped the handle and not care.
            let _ = ends.send(ConnectionEnd { connection: number, consensus, result });
        })?;
        connections.insert(number, Peer { stream, thread });
        Ok(())
    }
}

impl Handle {
    /// The address listened on.
    pub fn address(&self) -> &Address {
        &self.shared.address
    }

    /// Waits for the next end of a connection; `None` after the time.
    pub fn next_end(&self, timeout: Duration) -> Option<ConnectionEnd> {
        self.ends.recv_timeout(timeout).ok()
    }

    /// Stops: no new connection and no new request; the calls that run are finished. Removes
    /// the unix socket. Returns when all threads have ended.
    pub fn stop(self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        // A blocked accept returns for a connection only. Where none can be made (somebody
        // removed the path), the accepting thread is left to the end of the process.
        let woken = Stream::connect(&self.shared.address).is_ok();
        if woken && self.acceptor.join().is_err() {
            tracing::error!("the ABCI accept thread panicked");
        }
        let peers: Vec<Peer> = self.shared.connections().drain().map(|(_, peer)| peer).collect();
        for peer in &peers {
            // Fails if the peer is gone already.
            let _ = peer.stream.shutdown();
        }
        for peer in peers {
            if peer.thread.join().is_err() {
                tracing::error!("an ABCI connection's thread panicked");
            }
        }
        if let Address::Unix(path) = &self.shared.address {
            let _ = fs::remove_file(path);
        }
    }
}
