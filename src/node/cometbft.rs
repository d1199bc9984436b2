//! CometBFT beside the application: its program, its home, its configuration and genesis.

use std::path::{Path, PathBuf};
use std::process::Command;

use plasma_core::validators::{Validator, ValidatorSet};
use plasma_ledger::Genesis;
use serde_json::{Value, json};
use toml_edit::{DocumentMut, Item, Table, value};

use crate::output::{CommandError, CommandResult};

/// Differences from v0.38's defaults that every node sets.
const CONFIG: &str = include_str!("../../cometbft-config/config.toml");
/// Differences of a network on one machine.
const CONFIG_DEVNET: &str = include_str!("../../cometbft-config/config.devnet.toml");
/// Differences of the genesis file.
const GENESIS: &str = include_str!("../../cometbft-config/genesis.json");

/// Finds a program: the variable, `.tools/bin` here or above, then PATH.
pub fn find_program(variable: &str, name: &str) -> CommandResult<PathBuf> {
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        if path.is_file() {
            return Ok(path);
        }
        let message = format!("{variable} is {}, which is no file", path.display());
        return Err(CommandError::usage(message, format!("./scripts/setup, or unset {variable}")));
    }
    let here = std::env::current_dir().unwrap_or_default();
    let above = here.ancestors().map(|dir| dir.join(".tools/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    above
        .chain(std::env::split_paths(&path))
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| CommandError::usage(format!("{name} is not installed"), "./scripts/setup"))
}

/// The CometBFT program.
pub fn program() -> CommandResult<PathBuf> {
    find_program("PLASMA_COMETBFT", "cometbft")
}

/// What differs from node to node.
#[derive(Debug, Clone, Default)]
pub struct NodeSettings {
    /// Name of the node.
    pub moniker: String,
    /// Port of the RPC on loopback.
    pub rpc_port: u16,
    /// Port of the peer-to-peer connections on loopback.
    pub p2p_port: u16,
    /// `id@ip:port`, comma-separated.
    pub persistent_peers: String,
}

fn failed(what: &str, error: impl std::fmt::Display) -> CommandError {
    CommandError::failure("cometbft", format!("{what}: {error}"), "plasma doctor")
}

/// Has CometBFT make its keys and default configuration in `home`; nothing happens if it has.
pub fn init_home(home: &Path) -> CommandResult<()> {
    let run = Command::new(program()?).arg("init").arg("--home").arg(home).output();
    let output = run.map_err(|error| failed("cometbft init", error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed("cometbft init", String::from_utf8_lossy(&output.stderr)))
}

/// Merges the required values over the configuration that CometBFT has written. `devnet` adds
/// those of a network on one machine.
pub fn write_config(home: &Path, listen: &str, devnet: Option<&NodeSettings>) -> CommandResult<()> {
    let path = home.join("config/config.toml");
    let read = std::fs::read_to_string(&path).map_err(|error| failed("config.toml", error))?;
    let mut document: DocumentMut = read.parse().map_err(|error| failed("config.toml", error))?;
    merge_text(&mut document, CONFIG)?;
    document["proxy_app"] = value(listen);
    if let Some(settings) = devnet {
        merge_text(&mut document, CONFIG_DEVNET)?;
        document["moniker"] = value(&settings.moniker);
        document["rpc"]["laddr"] = value(format!("tcp://127.0.0.1:{}", settings.rpc_port));
        document["rpc"]["pprof_laddr"] = value("");
        document["p2p"]["laddr"] = value(format!("tcp://127.0.0.1:{}", settings.p2p_port));
        document["p2p"]["persistent_peers"] = value(&settings.persistent_peers);
        document["instrumentation"]["prometheus"] = value(false);
    }
    crate::home::write_file(&path, &document.to_string())
        .map_err(|error| failed("config.toml", error))
}

fn merge_text(into: &mut DocumentMut, text: &str) -> CommandResult<()> {
    let differences: DocumentMut =
        text.parse().map_err(|error| failed("cometbft-config", error))?;
    merge(into.as_table_mut(), differences.as_table());
    Ok(())
}

/// Sets every key of `from` in `into`, tables key by key.
fn merge(into: &mut Table, from: &Table) {
    for (key, item) in from {
        match (into.get_mut(key), item) {
            (Some(Item::Table(into)), Item::Table(from)) => merge(into, from),
            (Some(slot), Item::Value(new)) => *slot = value(new.clone().decorated("", "")),
            _ => {
                into.insert(key, item.clone());
            }
        }
    }
}

/// Values of `config.toml` that the protocol requires and that differ (protocol.md section 6).
pub fn check_config(home: &Path) -> CommandResult<Vec<String>> {
    let path = home.join("config/config.toml");
    let read = std::fs::read_to_string(&path).map_err(|error| failed("config.toml", error))?;
    let document: DocumentMut = read.parse().map_err(|error| failed("config.toml", error))?;
    let required = [
        ("mempool", "recheck", "true"),
        ("mempool", "recheck_timeout", "\"5s\""),
        ("mempool", "max_txs_bytes", "268435456"),
        ("mempool", "keep-invalid-txs-in-cache", "false"),
        ("consensus", "create_empty_blocks", "true"),
        ("consensus", "skip_timeout_commit", "false"),
    ];
    let mut wrong = Vec::new();
    for (section, key, wanted) in required {
        let found = document.get(section).and_then(|table| table.get(key));
        let found = found.map_or_else(|| "missing".into(), |item| item.to_string());
        if found.trim() != wanted {
            wrong.push(format!("[{section}] {key} is {}, must be {wanted}", found.trim()));
        }
    }
    Ok(wrong)
}

/// The ed25519 key of a validator's home, 32 bytes.
pub fn consensus_key(home: &Path) -> CommandResult<[u8; 32]> {
    use base64::Engine;
    let path = home.join("config/priv_validator_key.json");
    let text = std::fs::read_to_string(&path).map_err(|error| failed("validator key", error))?;
    let file: Value = serde_json::from_str(&text).map_err(|e| failed("validator key", e))?;
    let key = file["pub_key"]["value"].as_str().unwrap_or_default();
    base64::engine::general_purpose::STANDARD
        .decode(key)
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| failed("validator key", "no ed25519 public key in the file"))
}

/// The node id of a home, for `persistent_peers`.
pub fn node_id(home: &Path) -> CommandResult<String> {
    let run = Command::new(program()?).arg("show-node-id").arg("--home").arg(home).output();
    let output = run.map_err(|error| failed("cometbft show-node-id", error))?;
    let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && id.len() == 40 {
        return Ok(id);
    }
    Err(failed("cometbft show-node-id", String::from_utf8_lossy(&output.stderr)))
}

/// Brings validators into set order and gives the set; its hash goes into the contract.
pub fn validator_set(mut validators: Vec<Validator>) -> CommandResult<ValidatorSet> {
    ValidatorSet::sort(&mut validators);
    ValidatorSet::new(1, validators).map_err(|error| CommandError::usage(error, "plasma init"))
}

/// Sets every key of `from` in `into`, objects key by key.
fn merge_json(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge_json(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// The genesis file of a chain, over the defaults that CometBFT has written in `home`.
pub fn genesis(home: &Path, chain_id: &str, time: &str, app: &Genesis) -> CommandResult<String> {
    let defaults = std::fs::read_to_string(home.join("config/genesis.json"))
        .map_err(|error| failed("genesis.json", error))?;
    let mut genesis: Value =
        serde_json::from_str(&defaults).map_err(|error| failed("genesis.json", error))?;
    let differences = serde_json::from_str(GENESIS).map_err(|error| failed("template", error))?;
    merge_json(&mut genesis, differences);
    let validators: Vec<Value> = app
        .validators
        .iter()
        .map(|v| {
            json!({
                "pub_key": {"type": "tendermint/PubKeyEd25519", "value": v.consensus_key},
                "power": v.power.to_string(),
                "name": "",
            })
        })
        .collect();
    genesis["chain_id"] = chain_id.into();
    genesis["genesis_time"] = time.into();
    genesis["validators"] = validators.into();
    genesis["app_hash"] = "".into();
    genesis["app_state"] =
        serde_json::to_value(app).map_err(|error| failed("genesis app_state", error))?;
    let mut text =
        serde_json::to_string_pretty(&genesis).map_err(|error| failed("genesis", error))?;
    text.push('\n');
    Ok(text)
}
