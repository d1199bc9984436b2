//! `$PLASMA_HOME/config/plasma.toml`: every key, its default and what it is for.
//!
//! Precedence: default < file < `PLASMA_<SECTION>_<KEY>` < flag. Unknown keys are errors that name
//! file, line and the key that was probably meant.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::output::{CommandError, CommandResult};

/// The whole configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The child chain's node that commands talk to.
    pub node: NodeConfig,
    /// The root chain.
    pub ethereum: EthereumConfig,
    /// The application that `plasma start` runs.
    pub app: AppConfig,
    /// The relayer.
    pub relayer: RelayerConfig,
    /// The watcher.
    pub watch: WatchConfig,
}

/// `[node]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeConfig {
    /// URL of CometBFT's RPC.
    pub rpc: String,
    /// Plasma blocks ahead of the open one until which a transfer stays valid.
    pub max_block_margin: u64,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self { rpc: "http://127.0.0.1:26657".into(), max_block_margin: 20 }
    }
}

/// `[ethereum]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EthereumConfig {
    /// URLs of Ethereum's JSON-RPC; the follower tries them in order, commands use the first.
    pub rpc: Vec<String>,
    /// Address of the RootChain contract.
    pub root_chain: String,
    /// Block in which it was deployed: the follower reads from there.
    pub deployed_at: u64,
}

impl Default for EthereumConfig {
    fn default() -> Self {
        Self {
            rpc: vec!["http://127.0.0.1:8545".into()],
            root_chain: String::new(),
            deployed_at: 0,
        }
    }
}

/// `[app]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AppConfig {
    /// Where CometBFT connects: `unix://PATH` (relative to the home) or `tcp://IP:PORT`.
    pub listen: String,
    /// Scheme of the state store; must be the one that genesis names.
    pub store: String,
    /// Bytes of the store's cache.
    pub cache_bytes: u64,
    /// File with the validator's root key in hex, 0600; empty: this node never signs.
    pub root_key_file: String,
    /// Whether results carry an event for each transfer.
    pub transfer_events: bool,
    /// Transfers at which the pool is full.
    pub pool_transfers: usize,
    /// Signatures that are remembered.
    pub cached_signatures: usize,
    /// Threads for signatures and trees; 0: one a core.
    pub workers: usize,
    /// File to which the calls of CometBFT are recorded; empty: none.
    pub record_calls: String,
}

/// Scheme of the state store of a new chain.
pub const DEFAULT_STORE: &str = "letus-blake3/1";

impl Default for AppConfig {
    fn default() -> Self {
        Self {
            listen: "unix://data/plasma.sock".into(),
            store: DEFAULT_STORE.into(),
            cache_bytes: 128 << 20,
            root_key_file: String::new(),
            transfer_events: false,
            pool_transfers: 1_000_000,
            cached_signatures: 500_000,
            workers: 0,
            record_calls: String::new(),
        }
    }
}

/// `[relayer]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RelayerConfig {
    /// File with the paying account's key in hex, 0600.
    pub key_file: String,
    /// Seconds after which a transaction that was not mined is replaced.
    pub resubmit_after_s: u64,
    /// Most wei a unit of gas may cost.
    pub max_fee_wei: u64,
}

impl Default for RelayerConfig {
    fn default() -> Self {
        Self { key_file: String::new(), resubmit_after_s: 48, max_fee_wei: 500_000_000_000 }
    }
}

/// `[watch]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WatchConfig {
    /// URLs of further nodes of the child chain, asked after `[node] rpc`.
    pub nodes: Vec<String>,
    /// Seconds that a plasma block's data may be missing before its owners' exits are started.
    pub data_grace_s: u64,
    /// Seconds after which a transaction that was not mined is replaced.
    pub resubmit_after_s: u64,
    /// Most wei a unit of gas may cost.
    pub max_fee_wei: u64,
}

impl Default for WatchConfig {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            data_grace_s: 86_400,
            resubmit_after_s: 48,
            max_fee_wei: 500_000_000_000,
        }
    }
}

/// Path of the configuration in a home.
pub fn path(home: &Path) -> PathBuf {
    home.join("config").join("plasma.toml")
}

/// Reads the configuration of a home: defaults where there is no file.
pub fn load(home: &Path) -> CommandResult<Config> {
    let path = path(home);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            return Err(CommandError::usage(
                format!("{}: {error}", path.display()),
                "check the file's permissions",
            ));
        }
    };
    let mut table: toml::Table = toml::from_str(&text).map_err(|e| bad_file(&path, &e))?;
    // Unknown keys are judged on the file's own text, so that the error names the line.
    let from_file: Config = toml::from_str(&text).map_err(|e| bad_file(&path, &e))?;
    if !apply_environment(&mut table, |name| std::env::var(name).ok())? {
        return Ok(from_file);
    }
    table.try_into().map_err(|error| {
        CommandError::usage(format!("a PLASMA_ variable: {error}"), "unset or correct it")
    })
}

fn bad_file(path: &Path, error: &toml::de::Error) -> CommandError {
    let meant = unknown_key(error.message())
        .and_then(|(found, known)| nearest(&found, known))
        .map(|key| format!("did you mean `{key}`?"))
        .unwrap_or_else(|| "plasma init --help lists every key".into());
    CommandError::usage(format!("{}: {error}", path.display()), meant)
}

/// The unknown key and the known ones in serde's message.
fn unknown_key(message: &str) -> Option<(String, Vec<String>)> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let found = quoted.next()?.to_owned();
    Some((found, quoted.map(str::to_owned).collect()))
}

/// The known word with the fewest edits to `found`, if it is near.
pub fn nearest(found: &str, known: Vec<String>) -> Option<String> {
    let distance = |word: &String| strsim::damerau_levenshtein(found, word);
    known.into_iter().filter(|word| distance(word) <= 3).min_by_key(distance)
}

/// Overrides keys by `PLASMA_<SECTION>_<KEY>`; true if there was one.
fn apply_environment(
    table: &mut toml::Table,
    variable: impl Fn(&str) -> Option<String>,
) -> CommandResult<bool> {
    let defaults = toml::Table::try_from(Config::default())
        .map_err(|error| CommandError::failure("internal", error, ""))?;
    let mut found = false;
    for (section, keys) in &defaults {
        for (key, default) in keys.as_table().into_iter().flatten() {
            let name = format!("PLASMA_{}_{}", section.to_uppercase(), key.to_uppercase());
            let Some(text) = variable(&name) else { continue };
            let value = parse_like(default, &text).ok_or_else(|| {
                CommandError::usage(format!("{name}={text} is no {}", default.type_str()), "")
            })?;
            let entry = table
                .entry(section.clone())
                .or_insert_with(|| toml::Value::Table(toml::Table::new()));
            if let Some(section) = entry.as_table_mut() {
                section.insert(key.clone(), value);
                found = true;
            }
        }
    }
    Ok(found)
}

/// Parses text as the type of a default value.
fn parse_like(default: &toml::Value, text: &str) -> Option<toml::Value> {
    Some(match default {
        toml::Value::Integer(_) => toml::Value::Integer(text.parse().ok()?),
        toml::Value::Boolean(_) => toml::Value::Boolean(text.parse().ok()?),
        toml::Value::Array(_) => {
            toml::Value::Array(text.split(',').map(|item| item.trim().into()).collect())
        }
        _ => toml::Value::String(text.into()),
    })
}

/// The file that `init` writes: every key with its comment.
pub fn render(config: &Config) -> String {
    let Config { node, ethereum, app, relayer, watch } = config;
    let sections = [
        render_node(node),
        render_ethereum(ethereum),
        render_app(app),
        render_relayer(relayer),
        render_watch(watch),
    ];
    let head = "# Configuration of `plasma`. Precedence: default < this file < \
                PLASMA_<SECTION>_<KEY> < flag.\n";
    head.to_owned() + &sections.concat()
}

fn quoted(urls: &[String]) -> String {
    urls.iter().map(|url| format!("{url:?}")).collect::<Vec<_>>().join(", ")
}

fn render_node(section: &NodeConfig) -> String {
    let NodeConfig { rpc, max_block_margin } = section;
    format!(
        "
[node]
# URL of CometBFT's RPC that the commands talk to.
rpc = {rpc:?}
# Plasma blocks ahead of the open one until which a transfer that you sign stays valid.
max_block_margin = {max_block_margin}
"
    )
}

fn render_ethereum(section: &EthereumConfig) -> String {
    let EthereumConfig { rpc, root_chain, deployed_at } = section;
    let urls = quoted(rpc);
    format!(
        "
[ethereum]
# URLs of Ethereum's JSON-RPC. A node's follower tries them in order, commands use the first.
rpc = [{urls}]
# Address of the RootChain contract.
root_chain = {root_chain:?}
# Ethereum block in which it was deployed: the follower reads from there.
deployed_at = {deployed_at}
"
    )
}

fn render_app(section: &AppConfig) -> String {
    let AppConfig {
        listen,
        store,
        cache_bytes,
        root_key_file,
        transfer_events,
        pool_transfers,
        cached_signatures,
        workers,
        record_calls,
    } = section;
    format!(
        "
[app]
# Where CometBFT connects: unix://PATH (relative to the home) or tcp://IP:PORT (loopback only).
listen = {listen:?}
# Scheme of the state store; must be the one that genesis names.
store = {store:?}
# Bytes of the store's cache.
cache_bytes = {cache_bytes}
# File with the validator's root key in hex (mode 0600). Empty: this node signs no roots.
root_key_file = {root_key_file:?}
# Whether block results carry an event for each transfer (costs space; not part of consensus).
transfer_events = {transfer_events}
# Transfers at which the pool is full; above half of it coins must have rested.
pool_transfers = {pool_transfers}
# Verified signatures that are remembered.
cached_signatures = {cached_signatures}
# Threads for signatures and trees; 0: one a core.
workers = {workers}
# File to which CometBFT's calls are recorded, for tests. Empty: none.
record_calls = {record_calls:?}
"
    )
}

fn render_relayer(section: &RelayerConfig) -> String {
    let RelayerConfig { key_file, resubmit_after_s, max_fee_wei } = section;
    format!(
        "
[relayer]
# File with the key, in hex, of the account that pays for submitting roots (mode 0600).
key_file = {key_file:?}
# Seconds after which a transaction that was not mined is replaced.
resubmit_after_s = {resubmit_after_s}
# Most wei that a unit of gas may cost.
max_fee_wei = {max_fee_wei}
"
    )
}

fn render_watch(section: &WatchConfig) -> String {
    let WatchConfig { nodes, data_grace_s, resubmit_after_s, max_fee_wei } = section;
    let urls = quoted(nodes);
    format!(
        "
[watch]
# URLs of further nodes of the child chain, asked after [node] rpc; none of them is trusted.
nodes = [{urls}]
# Seconds that a plasma block's data may be missing before its owners' exits are started. An exit
# of somebody else is answered at once.
data_grace_s = {data_grace_s}
# Seconds after which a transaction that was not mined is replaced.
resubmit_after_s = {resubmit_after_s}
# Most wei that a unit of gas may cost.
max_fee_wei = {max_fee_wei}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_file_holds_every_key() {
        let mut config = Config::default();
        config.ethereum.rpc.push("http://127.0.0.1:1".into());
        config.app.transfer_events = true;
        config.watch.nodes.push("http://127.0.0.1:2".into());
        let text = render(&config);
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
        let keys = toml::Table::try_from(&config).unwrap();
        let written: toml::Table = toml::from_str(&text).unwrap();
        for (section, values) in &keys {
            for key in values.as_table().unwrap().keys() {
                assert!(written[section].get(key).is_some(), "{section}.{key}");
            }
        }
    }

    #[test]
    fn a_typo_names_line_and_key() {
        let error = toml::from_str::<Config>("[node]\nrcp = \"x\"\n").unwrap_err();
        let error = bad_file(Path::new("plasma.toml"), &error);
        assert!(error.message.contains("line 2"), "{}", error.message);
        assert_eq!(error.help, "did you mean `rpc`?");
    }

    #[test]
    fn variables_override_the_file() {
        let mut table: toml::Table = toml::from_str("[node]\nmax_block_margin = 3\n").unwrap();
        let variable = |name: &str| {
            let value = match name {
                "PLASMA_NODE_MAX_BLOCK_MARGIN" => "7",
                "PLASMA_ETHEREUM_RPC" => "http://a, http://b",
                _ => return None,
            };
            Some(value.to_owned())
        };
        assert!(apply_environment(&mut table, variable).unwrap());
        let config: Config = table.try_into().unwrap();
        assert_eq!(config.node.max_block_margin, 7);
        assert_eq!(config.ethereum.rpc, ["http://a", "http://b"]);
        let mut table = toml::Table::new();
        let error = apply_environment(&mut table, |name| {
            (name == "PLASMA_APP_WORKERS").then(|| "many".into())
        });
        assert!(error.is_err());
    }
}
