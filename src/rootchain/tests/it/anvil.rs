//! An anvil of its own for each test, on a free port, with two blocks of finality lag.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plasma_client::wallet::devnet_key;
use plasma_core::validators::ValidatorSet;
use plasma_rootchain::contract::{ExitParams, RootChainContract, deploy};
use plasma_rootchain::ethereum::{At, Ethereum, Sender};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Exits of the tests: short, and without a bond.
pub const EXITS: ExitParams =
    ExitParams { exit_period_s: 1_000, hold_period_s: 500, bond: 0, burn_bps: 5_000 };

/// A running anvil; ends with this.
pub struct Anvil {
    process: Child,
    dir: TempDir,
    port: u16,
}

impl Anvil {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (process, port) = launch(&dir, 0);
        Self { process, dir, port }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn ethereum(&self) -> Ethereum {
        Ethereum::new(&self.url()).unwrap()
    }

    /// Ends the process, which keeps its state.
    pub fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again with its state on its port.
    pub fn resume(&mut self) {
        (self.process, self.port) = launch(&self.dir, self.port);
    }

    /// A folder for the test's files.
    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub async fn call(&self, method: &'static str, params: Value) -> Value {
        let Value::Array(params) = params else { panic!("parameters are an array") };
        self.ethereum().anvil(method, params).await.unwrap()
    }

    pub async fn mine(&self, blocks: u64) {
        self.call("anvil_mine", json!([format!("{blocks:#x}")])).await;
    }

    /// Removes the newest blocks and what is in them.
    pub async fn roll_back(&self, blocks: u64) {
        self.call("anvil_rollback", json!([blocks])).await;
    }

    pub async fn automine(&self, on: bool) {
        self.call("evm_setAutomine", json!([on])).await;
    }

    pub async fn head(&self, at: At) -> u64 {
        self.ethereum().head(at).await.unwrap().unwrap().number
    }

    pub async fn sender(&self, name: &str) -> Sender {
        Sender::new(self.ethereum(), &devnet_key(name).unwrap()).await.unwrap()
    }

    /// Deploys RootChain for `set` and waits for finality; returns it with its block.
    pub async fn deploy(&self, set: &ValidatorSet) -> (RootChainContract, u64) {
        let (address, block) = deploy(&self.sender("operator").await, set, EXITS).await.unwrap();
        self.mine(2).await;
        (RootChainContract { ethereum: self.ethereum(), address }, block)
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn launch(dir: &TempDir, port: u16) -> (Child, u16) {
    let program = std::env::var("PLASMA_ANVIL").unwrap_or("anvil".into());
    let output = dir.path().join("anvil.out");
    let mut process = Command::new(program)
        .args(["--host", "127.0.0.1", "--slots-in-an-epoch", "1", "--preserve-historical-states"])
        .args(["--port", &port.to_string(), "--state"])
        .arg(dir.path().join("state.json"))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&output).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + DEADLINE;
    loop {
        let text = std::fs::read_to_string(&output).unwrap();
        if let Some((_, rest)) = text.split_once("Listening on 127.0.0.1:")
            && let Some((port, _)) = rest.split_once('\n')
        {
            return (process, port.parse().unwrap());
        }
        assert_eq!(process.try_wait().unwrap(), None, "anvil ended: {text}");
        assert!(Instant::now() < deadline, "anvil does not start: {text}");
        std::thread::yield_now();
    }
}

/// Waits until `condition` gives something.
pub async fn wait_for<T>(what: &str, condition: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
