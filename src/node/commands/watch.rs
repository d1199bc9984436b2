//! `plasma watch`: guards coins, and trusts no node.
//!
//! stdout has a line for each step and alert, `--json` makes each a JSON object. Below the home's
//! `data/watch/` are what the watcher remembers (`watch.log`), a journal for each account that
//! sends, and `status.json`, which is written anew when something has changed.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plasma_client::rpc::NodeClient;
use plasma_core::Address;
use plasma_core::signature::SigningKey;
use plasma_rootchain::courier::Policy;
use plasma_rootchain::ethereum::Ethereum;
use plasma_rootchain::watcher::book::BookError;
use plasma_rootchain::watcher::report::{Notice, Report};
use plasma_rootchain::watcher::{Settings, WatchError, Watcher};
use serde_json::{Value, json};

use crate::authorization::{Consent, Inbox};
use crate::cli::Watch;
use crate::context::{Context, rpc_error};
use crate::ethereum::{eth_error, parse_address};
use crate::home::write_file;
use crate::metrics;
use crate::output::{CommandError, CommandResult, Output};
use crate::signals::Signals;

/// Time limit of a question to a node.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Between two tries to reach Ethereum at the start.
const RETRY: Duration = Duration::from_secs(2);
/// Between two looks into the directory of consents.
const INBOX_POLL: Duration = Duration::from_secs(10);
/// Between two looks at the signals.
const SIGNAL_POLL: Duration = Duration::from_millis(100);

/// Runs until a signal.
pub async fn run(context: &Context, args: &Watch, output: &Output) -> CommandResult<()> {
    let signals =
        Signals::install().map_err(|error| CommandError::failure("signals", error, ""))?;
    let served = Arc::new(Mutex::new(String::new()));
    if let Some(address) = args.metrics {
        let bound = metrics::serve(address, Arc::clone(&served)).await?;
        output.note(format!("metrics at http://{bound}/metrics"));
    }
    let stopped = async {
        while !signals.received() {
            tokio::time::sleep(SIGNAL_POLL).await;
        }
    };
    tokio::select! {
        ended = watch(context, args, output, &served) => ended,
        // Stopping is as good as a crash: everything is on disk before it is done.
        () = stopped => Ok(()),
    }
}

async fn watch(
    context: &Context,
    args: &Watch,
    output: &Output,
    served: &Mutex<String>,
) -> CommandResult<()> {
    let mut watcher = loop {
        let made = match settings(context, args).await {
            Ok(settings) => Watcher::new(settings).await.map_err(watch_error),
            Err(error) => Err(error),
        };
        match made {
            Ok(watcher) => break watcher,
            // Ethereum may be away when the watcher starts.
            Err(error) if error.exit == crate::output::Exit::Unreachable => {
                output.note(format!("waiting for Ethereum: {error}"));
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(RETRY).await;
    };
    let status = context.home.data().join("watch/status.json");
    output.note(format!("watching; status in {}", status.display()));
    let dir = args.authorizations.as_deref();
    let mut inbox = dir.map(|dir| Inbox::new(dir, *watcher.domain()));
    if let Some(inbox) = &mut inbox {
        take_consents(inbox, &mut watcher)
            .map_err(|error| CommandError::usage(error, "check --authorizations"))?;
    }
    let (mut written, mut taken) = (Value::Null, Instant::now());
    watcher
        .run(|watcher| {
            for notice in &watcher.take_notices() {
                tell(notice, output);
            }
            publish(watcher.report(), &status, &mut written, served);
            if let Some(inbox) = inbox.as_mut().filter(|_| taken.elapsed() >= INBOX_POLL) {
                // No reason to stop guarding: what was read before still counts.
                if let Err(error) = take_consents(inbox, watcher) {
                    tracing::warn!("{error}");
                }
                taken = Instant::now();
            }
        })
        .await;
    Ok(())
}

fn take_consents(inbox: &mut Inbox, watcher: &mut Watcher) -> io::Result<()> {
    for Consent { coin, state_hash, owner, authorization } in inbox.take()? {
        watcher.authorize(coin, state_hash, owner, authorization);
    }
    Ok(())
}

fn tell(notice: &Notice, output: &Output) {
    let Notice { kind, alert, text, data } = notice;
    let line = if *alert { format!("ALERT {kind}: {text}") } else { text.clone() };
    output
        .line(line, json!({"schema": 1, "kind": kind, "alert": alert, "text": text, "data": data}));
}

fn publish(report: &Report, path: &Path, written: &mut Value, served: &Mutex<String>) {
    *served.lock().unwrap_or_else(PoisonError::into_inner) = report.metrics();
    let status = report.status();
    if *written == status {
        return;
    }
    // A status that cannot be written is no reason to stop guarding.
    match write_file(path, &format!("{status:#}\n")) {
        Ok(()) => *written = status,
        Err(error) => tracing::warn!(%error, path = %path.display(), "status file"),
    }
}

async fn settings(context: &Context, args: &Watch) -> CommandResult<Settings> {
    let config = &context.config;
    let mut keys: Vec<SigningKey> = Vec::new();
    for name in &args.from {
        keys.push(context.key(name, args.password_file.as_deref()).await?);
    }
    let payer = match &args.payer {
        Some(name) => Some(context.key(name, args.password_file.as_deref()).await?),
        None => keys.first().cloned(),
    };
    let mut owners: Vec<Address> = Vec::new();
    for owner in &args.owner {
        owners.push(context.address(owner).await?);
    }
    if keys.is_empty() && owners.is_empty() && args.coin.is_empty() {
        let message = "whose coins? --from KEY, --owner ADDRESS or --coin COIN";
        return Err(CommandError::usage(message, "plasma watch --from alice"));
    }
    let mut nodes = vec![context.node()?];
    for url in &config.watch.nodes {
        nodes.push(NodeClient::new(url, ANSWER_TIMEOUT).map_err(rpc_error)?);
    }
    let ethereum: Result<Vec<Ethereum>, _> =
        config.ethereum.rpc.iter().map(|url| Ethereum::new(url)).collect();
    Ok(Settings {
        ethereum: ethereum.map_err(eth_error)?,
        root_chain: parse_address(&config.ethereum.root_chain)?,
        deployed_at: config.ethereum.deployed_at,
        nodes,
        dir: context.home.data().join("watch"),
        keys,
        owners,
        coins: args.coin.clone(),
        payer,
        data_grace_s: config.watch.data_grace_s,
        withdraw: args.withdraw,
        dry_run: args.dry_run,
        policy: Policy {
            resubmit_after: Duration::from_secs(config.watch.resubmit_after_s),
            max_fee_wei: config.watch.max_fee_wei.into(),
        },
    })
}

fn watch_error(error: WatchError) -> CommandError {
    match error {
        WatchError::Ethereum(error) => eth_error(error),
        WatchError::Book(BookError::Locked(_)) => {
            CommandError::usage(error, "stop the other one, or --home DIR for a second")
        }
        other => CommandError::usage(other, "plasma watch --help"),
    }
}
