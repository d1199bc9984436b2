//! A real anvil on a free port, with RootChain deployed.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plasma_client::wallet::devnet_key;
use plasma_core::signature::SigningKey;
use plasma_core::validators::{Validator, ValidatorSet};
use plasma_rootchain::contract::{ExitParams, RootChainContract, deploy};
use plasma_rootchain::ethereum::{Ethereum, Sender};
use serde_json::json;

/// Waits until a condition holds.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition().await {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The key of validator `i`.
pub fn root_key(i: u8) -> SigningKey {
    SigningKey::from_bytes([i + 1; 32]).unwrap()
}

/// Four validators of power 10, in set order, with the index of each one's key.
pub fn validators() -> (ValidatorSet, Vec<SigningKey>) {
    let mut keys: Vec<SigningKey> = (0..4).map(root_key).collect();
    keys.sort_by_key(SigningKey::address);
    let member = |(i, key): (usize, &SigningKey)| Validator {
        root_key: key.address(),
        power: 10,
        consensus_key: [i as u8; 32],
    };
    (ValidatorSet::new(1, keys.iter().enumerate().map(member).collect()).unwrap(), keys)
}

/// A running anvil; it ends when this is dropped.
pub struct Anvil {
    child: Child,
    /// Its URL.
    pub url: String,
    /// A client of it.
    pub ethereum: Ethereum,
    /// The contract.
    pub contract: RootChainContract,
    /// Block of its deployment.
    pub deployed_at: u64,
}

impl Drop for Anvil {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Anvil {
    /// Starts anvil, which mines a block for each transaction and calls a block final that is two
    /// below the latest.
    pub async fn start() -> Self {
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let program = std::env::var("PLASMA_ANVIL").unwrap();
        let child = Command::new(program)
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .args(["--slots-in-an-epoch", "1", "--silent"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let url = format!("http://127.0.0.1:{port}");
        let ethereum = Ethereum::new(&url).unwrap();
        until("anvil answers", async || ethereum.chain_id().await.is_ok()).await;
        let key = devnet_key("operator").unwrap();
        let operator = Sender::new(ethereum.clone(), &key).await.unwrap();
        let params =
            ExitParams { exit_period_s: 100, hold_period_s: 50, bond: 10, burn_bps: 5_000 };
        let (address, deployed_at) = deploy(&operator, &validators().0, params).await.unwrap();
        let contract = RootChainContract { ethereum: ethereum.clone(), address };
        let anvil = Self { child, url, ethereum, contract, deployed_at };
        anvil.mine(3).await;
        anvil
    }

    /// Mines blocks; an event is final two blocks later.
    pub async fn mine(&self, blocks: u64) {
        self.rpc("anvil_mine", vec![json!(format!("{blocks:#x}"))]).await;
    }

    /// Calls a method.
    pub async fn rpc(
        &self,
        method: &'static str,
        params: Vec<serde_json::Value>,
    ) -> serde_json::Value {
        self.ethereum.anvil(method, params).await.unwrap()
    }

    /// Sends as a devnet account.
    pub async fn sender(&self, name: &str) -> Sender {
        Sender::new(self.ethereum.clone(), &devnet_key(name).unwrap()).await.unwrap()
    }
}
