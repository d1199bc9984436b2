//! `plasma devnet`.

use std::path::Path;
use std::time::{Duration, Instant};

use plasma_rootchain::ethereum::At;
use serde_json::json;

use crate::cli;
use crate::commands::demo;
use crate::context::Context;
use crate::devnet::{Description, Devnet, Options, describe};
use crate::ethereum::eth_error;
use crate::home::Home;
use crate::output::{CommandError, CommandResult, Output};
use crate::process::{runs, terminate};
use crate::signals::Signals;

/// How long `down` waits.
const DOWN_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks.
const POLL: Duration = Duration::from_millis(100);

/// Starts a devnet and stays until a signal, or until the demo of `--once` is over.
pub fn up(home: &Home, args: &cli::DevnetUp, output: &mut Output) -> CommandResult<()> {
    let dir = args.dir.clone().unwrap_or_else(|| home.0.clone());
    let options = Options {
        validators: args.validators,
        free_ports: args.free_ports,
        max_heights: args.max_heights,
        store: args.store.clone(),
        record_calls: args.record_calls,
    };
    let mut devnet = Devnet::start(&dir, &options, output)?;
    output.note(summary(&dir, &devnet.description));
    if let Some(name) = args.demo {
        let context = Context::load(Home(devnet.dir.clone()))?;
        demo::run(&context, name, output)?;
        if args.once {
            return Ok(());
        }
    }
    // From here on ^C stops in order. Before, it ends this process at once, and with it whatever it
    // has started: there is nothing yet that would be lost.
    let signals =
        Signals::install().map_err(|error| CommandError::failure("signals", error, ""))?;
    output.note(next_commands(home, &dir));
    if args.demo.is_none() {
        output.result("ready", json!(devnet.description));
    }
    while !signals.received() {
        if let Some(message) = devnet.ended() {
            output.warn(format!("{message}; its log is below {}/logs", dir.display()));
        }
        std::thread::sleep(POLL);
    }
    output.note("stopping");
    Ok(())
}

fn summary(dir: &Path, d: &Description) -> String {
    let mut lines = vec![
        format!("devnet in {}", dir.display()),
        format!("  Ethereum   {}  RootChain {}", d.ethereum, d.root_chain),
    ];
    for (i, node) in d.nodes.iter().enumerate() {
        lines.push(format!("  node{i}      {}", node.rpc));
    }
    for (name, address) in &d.accounts {
        lines.push(format!("  {name:<10} {address}"));
    }
    lines.join("\n")
}

fn next_commands(home: &Home, dir: &Path) -> String {
    let option = if home.0 == dir { String::new() } else { format!(" --home {}", dir.display()) };
    format!(
        "try, in another terminal:\n  plasma{option} deposit --from alice --value 1ether --wait\n  \
         plasma{option} transfer COIN --from alice --to bob\n  \
         plasma{option} coin history COIN --verify\n  \
         plasma{option} exit start COIN --from bob\n  plasma{option} devnet warp 15d\n\
         ^C stops the network and keeps its state"
    )
}

/// Stops a running devnet.
pub fn down(dir: &Path, output: &Output) -> CommandResult<()> {
    let description = describe(dir)?;
    if description.supervisor == 0 || !runs(description.supervisor) {
        output.result("the devnet is down", json!({"running": false}));
        return Ok(());
    }
    terminate(description.supervisor);
    let deadline = Instant::now() + DOWN_TIMEOUT;
    while runs(description.supervisor) {
        if Instant::now() > deadline {
            let message = format!("process {} does not end", description.supervisor);
            return Err(CommandError::failure("timeout", message, "plasma devnet status"));
        }
        std::thread::sleep(POLL);
    }
    output.result("the devnet is down", json!({"running": false}));
    Ok(())
}

/// Prints what a devnet consists of and whether it runs.
pub fn status(dir: &Path, output: &Output) -> CommandResult<()> {
    let description = describe(dir)?;
    let running = description.supervisor != 0 && runs(description.supervisor);
    let mut lines = vec![summary(dir, &description)];
    for (name, pid) in &description.processes {
        let word = if runs(*pid) { "runs" } else { "ended" };
        lines.push(format!("  {name:<10} process {pid} {word}"));
    }
    lines.push(if running { "the devnet is up" } else { "the devnet is down" }.into());
    output.result(lines.join("\n"), json!({"running": running, "devnet": description}));
    Ok(())
}

/// Deletes a devnet that is down. Only a directory that holds a devnet's description.
pub fn reset(dir: &Path, yes: bool, output: &Output) -> CommandResult<()> {
    let description = describe(dir)?;
    if description.supervisor != 0 && runs(description.supervisor) {
        return Err(CommandError::failure("devnet_up", "the devnet is up", "plasma devnet down"));
    }
    if !yes {
        let message = format!("this deletes the devnet in {}", dir.display());
        return Err(CommandError::usage(message, "plasma devnet reset --yes"));
    }
    let failed = |error: std::io::Error| CommandError::failure("reset", error, "");
    let nodes = description.nodes.iter().map(|node| node.home.clone());
    let parts = ["anvil", "relayer", "logs"].map(|part| dir.join(part));
    for path in nodes.chain(parts) {
        if path.exists() {
            std::fs::remove_dir_all(&path).map_err(failed)?;
        }
    }
    std::fs::remove_file(crate::devnet::description_path(dir)).map_err(failed)?;
    let config = crate::config::path(dir);
    if config.exists() {
        std::fs::remove_file(config).map_err(failed)?;
    }
    output.result("deleted", json!({"deleted": true}));
    Ok(())
}

/// Lets time pass on anvil, and mines a block at the new time, which is returned.
pub async fn warp(context: &Context, seconds: u64) -> CommandResult<u64> {
    let ethereum = context.ethereum()?;
    let increase = vec![json!(seconds)];
    ethereum.anvil("evm_increaseTime", increase).await.map_err(eth_error)?;
    ethereum.anvil("evm_mine", Vec::new()).await.map_err(eth_error)?;
    let head = ethereum.head(At::Latest).await.map_err(eth_error)?;
    Ok(head.map_or(0, |head| head.timestamp))
}
