//! Black-box tests over real processes: a devnet in a temporary directory, driven by the `plasma`
//! program and by plain HTTP.
//!
//! `PLASMA` names the program; default: `target/debug/plasma` of this workspace, built by
//! `cargo build -p plasma-cash`. Only one network runs at a time, also without
//! `--test-threads=1`: two cores do not carry two of them. A network that is dropped is stopped
//! with SIGTERM, and no process of it may be left.
//!
//! Everything here panics on failure: it is part of tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod http;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

pub use http::{Reply, get, post};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How long a network may take to start or stop.
const START_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(60);
/// How long its processes may outlive a killed `devnet up`.
const ORPHAN_MAX: Duration = Duration::from_secs(10);
/// Between two looks at something that is awaited.
const POLL: Duration = Duration::from_millis(100);

/// The program under test.
pub fn plasma() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug/plasma");
    let path = std::env::var_os("PLASMA").map_or(built, PathBuf::from);
    assert!(path.exists(), "{} is missing: cargo build -p plasma-cash", path.display());
    path
}

/// What a command said.
#[derive(Debug)]
pub struct Answer {
    /// Its exit code; -1 if a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Answer {
    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The one error of an answer in JSON.
    pub fn error(&self) -> Value {
        let mut json = self.json();
        let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["data", "errors", "schema", "success", "warnings"]);
        assert_eq!(
            (&json["schema"], &json["success"], &json["data"]),
            (&json!(1), &json!(false), &Value::Null)
        );
        json["errors"][0].take()
    }
}

/// Runs `plasma` with `args`, feeding it `input`.
pub fn run(args: &[&str], input: &str) -> Answer {
    let mut child = Command::new(plasma())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that does not read its input closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap_or(-1);
    Answer { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Waits until `look` sees something.
pub fn wait_for<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "{what}: not within {limit:?}");
        std::thread::sleep(POLL);
    }
}

/// A devnet in a temporary directory.
pub struct Network {
    dir: TempDir,
    args: Vec<String>,
    supervisor: Option<Child>,
    /// Processes that a test started again, by name.
    restarted: Vec<(String, Child)>,
    _one: MutexGuard<'static, ()>,
}

impl Network {
    /// Starts four validators, anvil and a relayer; `args` are those of `devnet up`.
    pub fn start(args: &[&str]) -> Self {
        let one = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let dir = tempfile::Builder::new().prefix("plasma-e2e-").tempdir().unwrap();
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let mut network = Self { dir, args, supervisor: None, restarted: Vec::new(), _one: one };
        network.up();
        network
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts it, again if it was down.
    pub fn up(&mut self) {
        let log = self.dir().join("up.log");
        let out = File::create(&log).unwrap();
        let child = Command::new(plasma())
            .args(["--json", "--home"])
            .arg(self.dir())
            .args(["devnet", "up", "--free-ports", "--record-calls"])
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        self.supervisor = Some(child);
        wait_for("devnet up", START_MAX, || {
            let text = fs::read_to_string(&log).unwrap();
            let ended = self.supervisor.as_mut().unwrap().try_wait().unwrap();
            assert_eq!(ended, None, "devnet up ended: {text}");
            text.contains("\"success\":true").then_some(())
        });
    }

    /// Stops it with SIGTERM; its state is kept.
    pub fn down(&mut self) {
        for (_, mut child) in self.restarted.drain(..) {
            signal(child.id(), Signal::TERM);
            await_end(&mut child);
        }
        if let Some(mut child) = self.supervisor.take() {
            signal(child.id(), Signal::TERM);
            await_end(&mut child);
        }
        let left = self.processes_left();
        for (pid, _) in &left {
            signal(*pid, Signal::KILL);
        }
        assert!(left.is_empty() || std::thread::panicking(), "orphans: {left:?}");
    }

    /// Kills `devnet up` with SIGKILL: everything that it started must end with it.
    pub fn kill_supervisor(&mut self) {
        for (_, mut child) in self.restarted.drain(..) {
            signal(child.id(), Signal::TERM);
            await_end(&mut child);
        }
        let mut child = self.supervisor.take().expect("the network is up");
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for("the end of all processes", ORPHAN_MAX, || {
            self.processes_left().is_empty().then_some(())
        });
    }

    /// Processes whose command line names the network's directory.
    fn processes_left(&self) -> Vec<(u32, String)> {
        let dir = self.dir().to_str().unwrap();
        let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let lines = pids.filter_map(|pid: u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
        });
        lines.filter(|(_, line)| line.contains(dir)).collect()
    }

    /// Runs `plasma --json --home DIR` with `args`.
    pub fn run(&self, args: &[&str]) -> Answer {
        self.run_with(args, "")
    }

    /// The same with standard input.
    pub fn run_with(&self, args: &[&str], input: &str) -> Answer {
        let mut all = vec!["--json", "--home", self.dir().to_str().unwrap()];
        all.extend(args);
        run(&all, input)
    }

    /// Data of a command that must succeed; `line` is split at spaces.
    pub fn ok(&self, line: &str) -> Value {
        let answer = self.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(answer.code, 0, "plasma {line}: {answer:?}");
        answer.json()["data"].take()
    }

    /// Exit code and error code of a command that must fail.
    pub fn fails(&self, line: &str) -> (i32, String) {
        let answer = self.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_ne!(answer.code, 0, "plasma {line}: {answer:?}");
        (answer.code, answer.error()["code"].as_str().unwrap().to_owned())
    }

    /// What `devnet.json` says.
    pub fn description(&self) -> Value {
        let text = fs::read_to_string(self.dir().join("devnet.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Number of validators.
    pub fn size(&self) -> usize {
        self.description()["nodes"].as_array().unwrap().len()
    }

    /// Port of a node's RPC.
    pub fn port(&self, node: usize) -> u16 {
        self.description()["nodes"][node]["rpc_port"].as_u64().unwrap().try_into().unwrap()
    }

    /// GETs a path of a node's RPC: `status`, `block?height=3`.
    pub fn rpc(&self, node: usize, path: &str) -> Value {
        let reply = get(self.port(node), path).unwrap();
        reply.json()["result"].take()
    }

    /// A node's height; none if it does not answer.
    pub fn height(&self, node: usize) -> Option<u64> {
        let json = get(self.port(node), "status").ok()?.json();
        json["result"]["sync_info"]["latest_block_height"].as_str()?.parse().ok()
    }

    /// Waits until a node has made `more` heights from now on.
    pub fn await_heights(&self, node: usize, more: u64, limit: Duration) {
        let from = wait_for("the node's height", limit, || self.height(node));
        wait_for(&format!("{more} heights of node {node} after {from}"), limit, || {
            self.height(node).filter(|height| *height >= from + more)
        });
    }

    /// Deposits `count` coins of alice, until every node has them; the first one's id.
    pub fn deposit(&self, count: u32) -> u64 {
        let made = self.ok(&format!("deposit --from alice --wait --value 1gwei --count {count}"));
        self.await_all_nodes();
        made["first_coin"].as_u64().expect("a coin's id")
    }

    /// Waits until every node has applied the newest height of any of them; that height.
    pub fn await_all_nodes(&self) -> u64 {
        let heights = (0..self.size()).map(|node| self.height(node));
        let newest = heights.max().flatten().expect("a node answers");
        for node in 0..self.size() {
            // A height counts from when its block is stored; the next one is stored after it was
            // applied.
            wait_for(
                &format!("node {node} after height {newest}"),
                Duration::from_secs(60),
                || self.height(node).filter(|height| *height > newest),
            );
        }
        newest
    }

    /// Broadcasts `0x...` bytes to a node by GET; the code of CheckTx.
    pub fn send(&self, node: usize, tx: &str) -> Result<u64, String> {
        let json = get(self.port(node), &format!("broadcast_tx_sync?tx={tx}")).unwrap().json();
        json["result"]["code"].as_u64().ok_or_else(|| json["error"]["data"].to_string())
    }

    /// Bytes of a transfer, not sent.
    pub fn dry_run(&self, line: &str) -> String {
        self.ok(&format!("transfer {line} --dry-run"))["tx"].as_str().unwrap().to_owned()
    }

    /// Waits until the plasma block in which `coin` last moved is closed, certified and final on
    /// Ethereum; its number.
    pub fn await_root(&self, coin: u64) -> u64 {
        let block = self.ok(&format!("coin show {coin}"))["block"].as_u64().unwrap();
        self.await_state(block, "finalized", Duration::from_secs(90));
        block
    }

    /// Waits until a plasma block is in `state`: closed, certified, on Ethereum, finalized.
    pub fn await_state(&self, block: u64, state: &str, limit: Duration) {
        let block = block.to_string();
        wait_for(&format!("plasma block {block} {state}"), limit, || {
            let answer = self.run(&["block", "show", &block]);
            (answer.code == 0 && answer.json()["data"]["state"] == state).then_some(())
        });
    }

    /// Waits until the open plasma block is closed: coins may move again. The newest closed one.
    pub fn await_closed(&self, block: u64) {
        let block = block.to_string();
        wait_for(&format!("the end of plasma block {block}"), Duration::from_secs(60), || {
            let answer = self.run(&["block", "show", &block]);
            (answer.code == 0 && answer.json()["data"]["state"] != "open").then_some(())
        });
    }

    /// Process id of a process of the network.
    pub fn pid(&self, name: &str) -> u32 {
        if let Some((_, child)) = self.restarted.iter().find(|(known, _)| known == name) {
            return child.id();
        }
        let pid = self.description()["processes"][name].as_u64();
        pid.unwrap_or_else(|| panic!("no process {name}")).try_into().unwrap()
    }

    /// Sends a signal to a process of the network.
    pub fn signal(&self, name: &str, what: Signal) {
        assert!(signal(self.pid(name), what), "{name} does not run");
    }

    /// Kills a process of the network with SIGKILL.
    pub fn kill(&mut self, name: &str) {
        let pid = self.pid(name);
        self.signal(name, Signal::KILL);
        if let Some(i) = self.restarted.iter().position(|(known, _)| known == name) {
            self.restarted.remove(i).1.wait().unwrap();
        } else {
            wait_for("the end of a killed process", STOP_MAX, || {
                (!Path::new(&format!("/proc/{pid}")).exists()).then_some(())
            });
        }
    }

    /// Kills a node's CometBFT alone; the node must end with it, for its supervisor to see.
    pub fn kill_cometbft(&mut self, name: &str) {
        let home = format!("cometbft start --home {}/", self.dir().join(name).display());
        let found = self.processes_left().into_iter().find(|(_, line)| line.contains(&home));
        let (pid, _) = found.unwrap_or_else(|| panic!("no CometBFT of {name}"));
        let node = self.pid(name);
        assert!(signal(pid, Signal::KILL), "{name}'s CometBFT does not run");
        wait_for("the end of a node without CometBFT", STOP_MAX, || {
            let children = self.restarted.iter_mut();
            for (_, child) in children.filter(|(known, _)| known == name) {
                // Otherwise it stays a zombie.
                child.try_wait().unwrap();
            }
            (!Path::new(&format!("/proc/{node}")).exists()).then_some(())
        });
        self.restarted.retain(|(known, _)| known != name);
    }

    /// Starts a killed node (`node2`) or the relayer again, as its operator would.
    pub fn restart(&mut self, name: &str) {
        let log = self.dir().join("logs").join(format!("{name}.log"));
        let out = OpenOptions::new().create(true).append(true).open(log).unwrap();
        let child = Command::new(plasma())
            .arg("--home")
            .arg(self.dir().join(name))
            .arg(if name == "relayer" { "relayer" } else { "start" })
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        self.restarted.push((name.to_owned(), child));
    }

    /// Every node has reached the same heights, with the same app hash at each; their number.
    pub fn assert_same_app_hashes(&self) -> u64 {
        let newest = self.await_all_nodes();
        for height in 1..=newest {
            let hash = |node| {
                let mut results = self.rpc(node, &format!("block_results?height={height}"));
                results["app_hash"].take()
            };
            let first = hash(0);
            assert!(first.as_str().is_some_and(|h| !h.is_empty()), "height {height}: {first}");
            for node in 1..self.size() {
                assert_eq!(hash(node), first, "app hash of node {node} at height {height}");
            }
        }
        newest
    }

    /// The recorded calls of every node's lives follow CometBFT's grammar.
    pub fn assert_grammar(&self) {
        for node in 0..self.size() {
            let path = self.dir().join(format!("node{node}/data/calls.log"));
            let text = fs::read_to_string(path).unwrap();
            let lives = plasma_abci::recorder::parse_lives(&text).unwrap();
            assert!(lives.iter().any(|calls| !calls.is_empty()), "node {node} recorded nothing");
            for (i, calls) in lives.iter().enumerate() {
                let checked = plasma_abci::grammar::check(calls);
                assert!(checked.is_ok(), "node {node}, life {i}: {checked:?}");
            }
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What failed is in the logs, which would go with the directory.
            self.dir.disable_cleanup(true);
            eprintln!("the network's directory is kept: {}", self.dir().display());
        }
        self.down();
    }
}

fn signal(pid: u32, what: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, what).is_ok())
}

fn await_end(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + STOP_MAX;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(POLL);
    }
    child.kill().unwrap();
    child.wait().ok()
}
