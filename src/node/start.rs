//! `plasma start`: one node, that is the application, the follower and CometBFT.
//!
//! The three live and die together: CometBFT ends when the application's socket drops, and the
//! application is of no use without CometBFT. Whatever supervises this process starts all of it
//! again.

use std::process::Command;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use plasma_abci::app::{App, Options as AppOptions};
use plasma_abci::recorder::FileRecorder;
use plasma_abci::server::{Handle, Options, Server};
use plasma_core::event_window::EventWindow;
use plasma_store::{Store, StoreError};
use rustix::process::Signal;

use crate::cometbft;
use crate::config::Config;
use crate::home::{Home, read_key};
use crate::init::absolute;
use crate::output::{CommandError, CommandResult, Exit, Output};
use crate::process::Process;
use crate::signals::Signals;

/// Between two looks at CometBFT and the signals.
const POLL: Duration = Duration::from_millis(100);

/// A node stops in an orderly way when less is left on its disk.
const DISK_BYTES_MIN: u64 = 64 << 20;

fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::failure("start", error, "plasma doctor")
}

/// Threads for signatures, trees and the store.
fn workers(config: &Config) -> usize {
    match config.app.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        workers => workers,
    }
}

/// Opens the store that the configuration names.
pub fn open_store(home: &Home, config: &Config) -> CommandResult<Arc<dyn Store>> {
    let app = &config.app;
    plasma_store::open(&app.store, &home.state(), app.cache_bytes, workers(config)).map_err(
        |error| match error {
            StoreError::Scheme(_) => {
                CommandError::usage(format!("[app] store: {error}"), "correct config/plasma.toml")
            }
            error => failed(error),
        },
    )
}

/// Refuses a disk that is all but full: CometBFT panics in the middle of a write there, and its
/// log, the one place that would say so, is on the same disk.
pub fn check_room(home: &Home) -> CommandResult<()> {
    let disk = rustix::fs::statvfs(&home.0).map_err(failed)?;
    let left = disk.f_bavail.saturating_mul(disk.f_frsize);
    if left < DISK_BYTES_MIN {
        let message = format!("{} MiB are left on the disk of {}", left >> 20, home.0.display());
        let help = "make room (64 MiB at least), then plasma start: nothing committed is lost";
        return Err(CommandError::failure("disk_full", message, help));
    }
    Ok(())
}

/// Runs the node until a signal, or until one of its parts ends.
pub fn run(home: &Home, config: &Config, output: &Output) -> CommandResult<()> {
    let signals = Signals::install().map_err(failed)?;
    let wrong = cometbft::check_config(&home.cometbft())?;
    if !wrong.is_empty() {
        let message = format!("CometBFT's config.toml: {}", wrong.join("; "));
        return Err(CommandError::usage(message, "plasma init"));
    }
    std::fs::create_dir_all(home.data()).map_err(failed)?;
    let events = Arc::new(RwLock::new(Arc::new(EventWindow::default())));
    check_room(home)?;
    let app = open_app(home, config, Arc::clone(&events))?;
    crate::ethereum::spawn_follower(home, config, events, Arc::clone(&app))?;
    let server = serve(home, config, app)?;

    let mut command = Command::new(cometbft::program()?);
    command.args(["start", "--home"]).arg(home.cometbft());
    let log = home.data().join("cometbft.log");
    let mut cometbft = Process::start("cometbft", command, &log, Signal::KILL).map_err(failed)?;
    output.note(format!("node of {} started", home.0.display()));

    let result = loop {
        if signals.received() {
            break Ok(());
        }
        if let Err(error) = check_room(home) {
            break Err(error);
        }
        if let Some(status) = cometbft.ended() {
            break Err(failed(format!("CometBFT ended ({status}); its log: {}", log.display())));
        }
        if let Some(end) = server.next_end(POLL).filter(|end| end.consensus) {
            let why = end.result.err().map_or("closed".into(), |error| error.to_string());
            break Err(failed(format!("the consensus connection ended: {why}")));
        }
    };
    cometbft.stop();
    server.stop();
    result
}

fn open_app(
    home: &Home,
    config: &Config,
    events: Arc<RwLock<Arc<EventWindow>>>,
) -> CommandResult<Arc<App>> {
    let root_key = match config.app.root_key_file.as_str() {
        "" => None,
        file => Some(read_key(&home.resolve(file))?),
    };
    let options = AppOptions {
        root_key,
        events,
        transfer_events: config.app.transfer_events,
        workers: workers(config),
        pool_transfers: config.app.pool_transfers,
        cached_signatures: config.app.cached_signatures,
    };
    let store = open_store(home, config)?;
    let app = App::open(store, &home.data().join("blocks"), options).map_err(failed)?;
    if let Some(view) = app.committed() {
        check_deployment(config, &view.chain.params)?;
    }
    Ok(Arc::new(app))
}

/// The state's contract must be the one that the follower reads.
fn check_deployment(config: &Config, params: &plasma_core::state::Params) -> CommandResult<()> {
    let configured = &config.ethereum.root_chain;
    if configured.parse() == Ok(params.root_chain) {
        return Ok(());
    }
    let state = params.root_chain;
    let message = format!("[ethereum] root_chain is {configured:?}, the state's is {state}");
    Err(CommandError::new(Exit::Usage, "root_chain", message, "correct config/plasma.toml"))
}

fn serve(home: &Home, config: &Config, app: Arc<App>) -> CommandResult<Handle> {
    let address = absolute(home, &config.app.listen).parse().map_err(failed)?;
    let mut options = Options::default();
    if !config.app.record_calls.is_empty() {
        let path = home.resolve(&config.app.record_calls);
        options.recorder = Some(Arc::new(FileRecorder::open(&path).map_err(failed)?));
    }
    let server = Server::bind(&address, app, options).map_err(failed)?;
    server.start().map_err(failed)
}
