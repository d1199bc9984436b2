//! A whole network on this machine: anvil with finality lag, the contracts, validators (CometBFT
//! and application each) and the relayer.
//!
//! Everything lives below one directory: `anvil/` with the state of Ethereum, `nodeN/` with the
//! homes of the validators, `relayer/`, `logs/` and `devnet.json`, which lists processes, URLs and
//! addresses. An existing directory is started again with its state.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use plasma_client::wallet::DEVNET_CHAIN_ID;
use plasma_core::Address;
use plasma_core::signature::SigningKey;
use plasma_core::validators::Validator;
use plasma_ledger::{Genesis, GenesisParams, GenesisValidator};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::cometbft::{self, NodeSettings};
use crate::config::{self, Config};
use crate::home::{Home, write_file, write_secret};
use crate::output::{CommandError, CommandResult, Exit, Output};
use crate::process::{Process, runs};

/// CometBFT's chain id.
const COMET_CHAIN_ID: &str = "plasma-devnet";
/// Voting power of each validator.
const POWER: u64 = 10;
/// Plasma blocks stay open for this many heights.
const MAX_HEIGHTS: u64 = 4;
/// Seconds between two blocks of anvil.
const BLOCK_TIME_S: u64 = 1;
/// Anvil calls a block final that is two "epochs" of this many slots below the latest.
const SLOTS_IN_AN_EPOCH: u64 = 2;
/// Ports of the first node and of anvil; further nodes follow ten apart.
const RPC_PORT: u16 = 26_657;
const P2P_PORT: u16 = 26_656;
const ANVIL_PORT: u16 = 8_545;
/// How long the network may take to start.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long ports may stay in use that an ended network has left.
const PORTS_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks at something that is awaited.
const POLL: Duration = Duration::from_millis(100);

/// What `devnet.json` says.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// URL of anvil.
    pub ethereum: String,
    /// The RootChain contract.
    pub root_chain: String,
    /// Test tokens by kind: erc20, erc721, erc1155.
    pub tokens: std::collections::BTreeMap<String, String>,
    /// The validators.
    pub nodes: Vec<NodeDescription>,
    /// Running processes by name.
    pub processes: std::collections::BTreeMap<String, u32>,
    /// Accounts by name.
    pub accounts: std::collections::BTreeMap<String, String>,
    /// Process id of `devnet up`, 0 if it is down.
    pub supervisor: u32,
}

/// One validator.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeDescription {
    /// Its home.
    pub home: PathBuf,
    /// URL of its RPC.
    pub rpc: String,
    /// Socket of its application.
    pub socket: PathBuf,
    /// Port of its RPC.
    pub rpc_port: u16,
    /// Port of its peer-to-peer connections.
    pub p2p_port: u16,
}

/// What `devnet up` is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of validators.
    pub validators: usize,
    /// Any free port instead of the usual ones.
    pub free_ports: bool,
    /// Heights that a plasma block stays open.
    pub max_heights: Option<u64>,
    /// Scheme of the state store.
    pub store: String,
    /// Record CometBFT's calls in each node's home.
    pub record_calls: bool,
}

/// Path of the description.
pub fn description_path(dir: &Path) -> PathBuf {
    dir.join("devnet.json")
}

/// Reads the description of a devnet.
pub fn describe(dir: &Path) -> CommandResult<Description> {
    let path = description_path(dir);
    let text = fs::read_to_string(&path).map_err(|error| {
        let message = match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no devnet in {}", dir.display()),
            _ => format!("{}: {error}", path.display()),
        };
        CommandError::no("no_devnet", message, "plasma devnet up")
    })?;
    serde_json::from_str(&text).map_err(|error| {
        let help = "plasma devnet reset --yes";
        CommandError::failure("devnet", format!("{}: {error}", path.display()), help)
    })
}

fn save(dir: &Path, description: &Description) -> CommandResult<()> {
    let text = serde_json::to_string_pretty(description).map_err(failed)?;
    write_file(&description_path(dir), &text).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::failure("devnet", error, "see the logs below the devnet's directory")
}

/// A running devnet; dropping it stops every process.
pub struct Devnet {
    /// Its directory.
    pub dir: PathBuf,
    /// What it consists of.
    pub description: Description,
    // Stopped in this order: the relayer and the nodes before Ethereum.
    processes: Vec<Process>,
}

impl Devnet {
    /// Starts the devnet in `dir`, new or with the state that it was stopped with.
    pub fn start(dir: &Path, options: &Options, output: &mut Output) -> CommandResult<Self> {
        fs::create_dir_all(dir.join("logs")).map_err(failed)?;
        // Paths go into configuration files, which are read from other directories.
        let dir = dir.canonicalize().map_err(failed)?;
        let known = description_path(&dir).exists();
        let description = if known { describe(&dir)? } else { plan(&dir, options)? };
        if runs(description.supervisor) && description.supervisor != 0 {
            let message = format!("this devnet is up already, process {}", description.supervisor);
            return Err(CommandError::failure("devnet_up", message, "plasma devnet down"));
        }
        let mut devnet = Self { dir, description, processes: Vec::new() };
        devnet.check_ports()?;
        devnet.start_anvil()?;
        if !known {
            output.note("deploying the contracts");
            devnet.make(options)?;
        }
        devnet.start_nodes()?;
        devnet.description.supervisor = std::process::id();
        save(&devnet.dir, &devnet.description)?;
        devnet.await_first_block()?;
        Ok(devnet)
    }

    fn check_ports(&self) -> CommandResult<()> {
        let nodes = self.description.nodes.iter();
        let mut ports: Vec<u16> = nodes.flat_map(|node| [node.rpc_port, node.p2p_port]).collect();
        ports.extend(port_of(&self.description.ethereum));
        // After a killed supervisor its processes take a moment to end.
        let deadline = Instant::now() + PORTS_TIMEOUT;
        for port in ports {
            while TcpListener::bind(("127.0.0.1", port)).is_err() {
                if Instant::now() < deadline {
                    std::thread::sleep(POLL);
                    continue;
                }
                return Err(CommandError::new(
                    Exit::Unreachable,
                    "port_in_use",
                    format!("port {port} on 127.0.0.1 is in use"),
                    "stop what uses it, or plasma devnet up --free-ports",
                ));
            }
        }
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{name}.log"))
    }

    fn launch(&mut self, name: &str, command: Command) -> CommandResult<()> {
        // Killed while it writes its state, anvil leaves half of a file and cannot start again.
        let orphaned = if name == "anvil" { Signal::TERM } else { Signal::KILL };
        let process = Process::start(name, command, &self.log(name), orphaned)
            .map_err(|error| failed(format!("{name}: {error}")))?;
        self.description.processes.insert(name.to_owned(), process.pid());
        self.processes.push(process);
        Ok(())
    }

    fn start_anvil(&mut self) -> CommandResult<()> {
        let state = self.dir.join("anvil/state.json");
        fs::create_dir_all(self.dir.join("anvil")).map_err(failed)?;
        let port = port_of(&self.description.ethereum).unwrap_or(ANVIL_PORT);
        let mut command = Command::new(cometbft::find_program("PLASMA_ANVIL", "anvil")?);
        command
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .args(["--chain-id", &DEVNET_CHAIN_ID.to_string()])
            .arg("--no-mining")
            .args(["--slots-in-an-epoch", &SLOTS_IN_AN_EPOCH.to_string()])
            .args(["--state-interval", "1", "--preserve-historical-states"])
            .arg("--state")
            .arg(state);
        self.launch("anvil", command)?;
        let url = self.description.ethereum.clone();
        self.await_condition("anvil", || crate::ethereum::answers(&url))?;
        crate::ethereum::start_mining(&url, BLOCK_TIME_S)
    }

    /// Deploys the contracts and makes the homes of a new devnet.
    fn make(&mut self, options: &Options) -> CommandResult<()> {
        let mut validators = Vec::new();
        for (i, node) in self.description.nodes.iter().enumerate() {
            let home = Home(node.home.clone());
            cometbft::init_home(&home.cometbft())?;
            let key = new_key()?;
            write_secret(&home.resolve("config/root_key"), hex::encode(key.to_bytes()).as_bytes())
                .map_err(failed)?;
            let consensus_key = cometbft::consensus_key(&home.cometbft())?;
            validators
                .push((i, Validator { root_key: key.address(), power: POWER, consensus_key }));
        }
        let set = cometbft::validator_set(validators.iter().map(|(_, v)| *v).collect())?;
        let deployed = crate::ethereum::deploy_devnet(&self.description.ethereum, &set)?;
        self.description.root_chain = deployed.root_chain.to_string();
        self.description.tokens = deployed.tokens;
        self.write_genesis(&set, deployed.root_chain, options)?;
        self.write_homes(deployed.block, options)?;
        for (name, account) in plasma_client::wallet::devnet_accounts() {
            self.description.accounts.insert(name.to_owned(), account.to_string());
        }
        save(&self.dir, &self.description)
    }

    fn write_genesis(
        &self,
        set: &plasma_core::validators::ValidatorSet,
        root_chain: Address,
        options: &Options,
    ) -> CommandResult<()> {
        let encode = |key: [u8; 32]| base64::engine::general_purpose::STANDARD.encode(key);
        let validators = set.validators().iter().map(|v| GenesisValidator {
            consensus_key: encode(v.consensus_key),
            root_key: v.root_key,
            power: v.power,
        });
        let app = Genesis {
            chain_id: DEVNET_CHAIN_ID,
            root_chain,
            store: options.store.clone(),
            params: GenesisParams {
                max_transfers: 1_000_000,
                max_height_transfers: 250_000,
                max_heights: options.max_heights.unwrap_or(MAX_HEIGHTS),
                extension_pad_bytes: 0,
            },
            validator_set_id: set.id(),
            validators: validators.collect(),
        };
        let first = Home(self.description.nodes[0].home.clone()).cometbft();
        let now = crate::time::now_rfc3339();
        let text = cometbft::genesis(&first, COMET_CHAIN_ID, &now, &app)?;
        for node in &self.description.nodes {
            let path = Home(node.home.clone()).cometbft().join("config/genesis.json");
            write_file(&path, &text).map_err(failed)?;
        }
        Ok(())
    }

    fn write_homes(&self, deployed_at: u64, options: &Options) -> CommandResult<()> {
        let mut peers = Vec::new();
        for node in &self.description.nodes {
            let id = cometbft::node_id(&Home(node.home.clone()).cometbft())?;
            peers.push(format!("{id}@127.0.0.1:{}", node.p2p_port));
        }
        let mut base = Config::default();
        base.ethereum.rpc = vec![self.description.ethereum.clone()];
        base.ethereum.root_chain.clone_from(&self.description.root_chain);
        base.ethereum.deployed_at = deployed_at;
        for (i, node) in self.description.nodes.iter().enumerate() {
            let others = peers.iter().enumerate().filter(|(j, _)| *j != i);
            let settings = NodeSettings {
                moniker: format!("node{i}"),
                rpc_port: node.rpc_port,
                p2p_port: node.p2p_port,
                persistent_peers: others
                    .map(|(_, peer)| peer.as_str())
                    .collect::<Vec<_>>()
                    .join(","),
            };
            let listen = format!("unix://{}", node.socket.display());
            let home = Home(node.home.clone());
            cometbft::write_config(&home.cometbft(), &listen, Some(&settings))?;
            let mut config = base.clone();
            config.node.rpc.clone_from(&node.rpc);
            config.app.listen = listen;
            config.app.root_key_file = "config/root_key".into();
            config.app.store.clone_from(&options.store);
            config.app.transfer_events = true;
            config.app.cache_bytes = 32 << 20;
            config.app.workers = 2;
            if options.record_calls {
                config.app.record_calls = "data/calls.log".into();
            }
            write_file(&config::path(&home.0), &config::render(&config)).map_err(failed)?;
        }
        let relayer = self.dir.join("relayer");
        let key = plasma_client::wallet::devnet_key("relayer")
            .ok_or_else(|| failed("no devnet account for the relayer"))?;
        write_secret(&relayer.join("config/key"), hex::encode(key.to_bytes()).as_bytes())
            .map_err(failed)?;
        base.node.rpc.clone_from(&self.description.nodes[0].rpc);
        base.relayer.key_file = "config/key".into();
        write_file(&config::path(&relayer), &config::render(&base)).map_err(failed)?;
        // The commands' own configuration, for `plasma --home DIR`.
        base.relayer.key_file = String::new();
        write_file(&config::path(&self.dir), &config::render(&base)).map_err(failed)
    }

    fn start_nodes(&mut self) -> CommandResult<()> {
        let plasma = std::env::current_exe().map_err(failed)?;
        for (i, node) in self.description.nodes.clone().into_iter().enumerate() {
            let mut command = Command::new(&plasma);
            command.arg("--home").arg(&node.home).arg("start");
            self.launch(&format!("node{i}"), command)?;
        }
        let mut command = Command::new(&plasma);
        command.arg("--home").arg(self.dir.join("relayer")).arg("relayer");
        self.launch("relayer", command)
    }

    fn await_first_block(&mut self) -> CommandResult<()> {
        let url = self.description.nodes[0].rpc.clone();
        self.await_condition("the first block", || {
            plasma_client::blocking_height(&url).is_some_and(|height| height >= 2)
        })
    }

    /// Waits until `condition` holds, while every process runs.
    fn await_condition(&mut self, what: &str, condition: impl Fn() -> bool) -> CommandResult<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        while !condition() {
            let dead = self.processes.iter_mut().find_map(|p| Some((p.ended()?, p.name.clone())));
            if let Some((status, name)) = dead {
                let log = self.log(&name);
                let message = format!("{name} ended ({status}); its log: {}", log.display());
                return Err(failed(message));
            }
            if Instant::now() > deadline {
                return Err(failed(format!("{what} did not come up in {READY_TIMEOUT:?}")));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// The first process that has ended since the last call, with its status.
    pub fn ended(&mut self) -> Option<String> {
        let position = self.processes.iter_mut().position(|p| p.ended().is_some())?;
        let mut process = self.processes.remove(position);
        let status = process.ended().map_or_else(String::new, |status| status.to_string());
        self.description.processes.remove(&process.name);
        let _ = save(&self.dir, &self.description);
        Some(format!("{} ended ({status})", process.name))
    }
}

impl Drop for Devnet {
    fn drop(&mut self) {
        // Ethereum last: the others write to it.
        while let Some(mut process) = self.processes.pop() {
            process.stop();
        }
        self.description.processes.clear();
        self.description.supervisor = 0;
        if description_path(&self.dir).exists() {
            let _ = save(&self.dir, &self.description);
        }
    }
}

fn port_of(url: &str) -> Option<u16> {
    url.rsplit(':').next()?.trim_end_matches('/').parse().ok()
}

fn plan(dir: &Path, options: &Options) -> CommandResult<Description> {
    if options.validators == 0 || options.validators > 100 {
        return Err(CommandError::usage("--validators must be 1 to 100", "plasma devnet up"));
    }
    // All are bound at once, so that no port is handed out twice.
    let mut bound = Vec::new();
    let mut port = |usual: u16| -> CommandResult<u16> {
        if !options.free_ports {
            return Ok(usual);
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        bound.push(listener);
        Ok(port)
    };
    let mut description = Description {
        ethereum: format!("http://127.0.0.1:{}", port(ANVIL_PORT)?),
        ..Description::default()
    };
    for i in 0..options.validators {
        let home = dir.join(format!("node{i}"));
        let rpc_port = port(RPC_PORT + 10 * i as u16)?;
        let p2p_port = port(P2P_PORT + 10 * i as u16)?;
        let socket = home.join("data/plasma.sock");
        if socket.as_os_str().len() > 107 {
            let message = format!("{} is too long for a socket", socket.display());
            return Err(CommandError::usage(message, "plasma devnet up --dir SHORTER"));
        }
        let rpc = format!("http://127.0.0.1:{rpc_port}");
        description.nodes.push(NodeDescription { home, rpc, socket, rpc_port, p2p_port });
    }
    Ok(description)
}

/// A new random key.
pub fn new_key() -> CommandResult<SigningKey> {
    // Fewer than one in 2^127 draws is no key.
    for _ in 0..4 {
        let bytes: [u8; 32] = rand::random();
        if let Ok(key) = SigningKey::from_bytes(bytes) {
            return Ok(key);
        }
    }
    Err(failed("the system's random numbers make no key"))
}
