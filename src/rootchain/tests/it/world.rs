//! A contract on an anvil, plasma blocks with leaves of the test's choice, certified by the
//! validators' own keys, and a node that shows of them what the test lets it show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use plasma_client::challenge::Inclusion;
use plasma_client::queries::CoinProof;
use plasma_client::rpc::NodeClient;
use plasma_client::wallet::devnet_key;
use plasma_core::block::{chain_hash, chain_hash_genesis};
use plasma_core::certificate::{Certificate, attestation_digest};
use plasma_core::coin::{CoinState, Deposit, asset};
use plasma_core::domain::Domain;
use plasma_core::signature::SigningKey;
use plasma_core::smt::{Leaf, prove, root_of};
use plasma_core::transfer::{SignedTransfer, Transfer};
use plasma_core::wire::put_varint;
use plasma_core::{Address, B256, BlockNumber, CoinId, U256};
use plasma_rootchain::contract::{ExitParams, ExitStart, RootChainContract, Submission, deploy};
use plasma_rootchain::ethereum::{At, Sender};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::anvil::Anvil;
use crate::chain::validators;
use crate::node::whole_request;

/// Longer than what the watcher calls urgent, and a bond that one notices.
pub const PERIOD_S: u64 = 100_000;
pub const HOLD_S: u64 = 50_000;
pub const BOND: u128 = 1_000_000_000_000_000_000;

pub fn key(name: &str) -> SigningKey {
    devnet_key(name).unwrap()
}

pub fn address(name: &str) -> Address {
    key(name).address()
}

/// The child chain.
pub struct Child {
    domain: Domain,
    roots: Vec<B256>,
    chain_hash: B256,
    /// Of each block from 1 on.
    pub transfers: Vec<BTreeMap<CoinId, SignedTransfer>>,
    /// Blocks that the node does not show.
    pub withheld: BTreeSet<BlockNumber>,
    /// Blocks of which the node shows signatures of zeros.
    pub spoiled: BTreeSet<BlockNumber>,
    /// Coins that the node names of an owner.
    pub named: BTreeMap<Address, Vec<CoinId>>,
    /// Proofs that were made before, as a node's archive makes them quickly.
    pub prepared: BTreeMap<(CoinId, BlockNumber), Vec<u8>>,
}

impl Child {
    pub fn leaves(&self, block: BlockNumber) -> Option<Vec<Leaf>> {
        let transfers = self.transfers.get(usize::try_from(block).ok()?.checked_sub(1)?)?;
        let mut leaves: Vec<Leaf> = transfers
            .iter()
            .map(|(coin, t)| Leaf { coin: *coin, hash: t.transfer.digest(&self.domain) })
            .collect();
        leaves.sort_unstable_by_key(Leaf::path);
        Some(leaves)
    }

    pub fn proof(&self, coin: CoinId, block: BlockNumber) -> Option<CoinProof> {
        let proof = prove(&self.leaves(block)?, coin);
        let mut transfer = self.transfers[block as usize - 1].get(&coin).copied();
        if let Some(transfer) = transfer.as_mut().filter(|_| self.spoiled.contains(&block)) {
            transfer.signature.0 = [0; 64];
        }
        Some(CoinProof { transfer, proof })
    }

    fn answer(&self, path: &str, data: &str) -> Option<Vec<u8>> {
        let words: Vec<&str> = path.split('/').skip(1).collect();
        match words[..] {
            ["coin", coin, "proofs", from, to] => {
                let (from, to): (u64, u64) = (from.parse().unwrap(), to.parse().unwrap());
                let mut proofs = Vec::new();
                for block in from..=to {
                    if self.withheld.contains(&block) {
                        break;
                    }
                    let coin = coin.parse().unwrap();
                    proofs.push(match self.prepared.get(&(coin, block)) {
                        Some(proof) => proof.clone(),
                        None => self.proof(coin, block)?.encode(),
                    });
                }
                let mut out = Vec::new();
                put_varint(&mut out, proofs.len() as u64);
                for proof in proofs {
                    put_varint(&mut out, proof.len() as u64);
                    out.extend(proof);
                }
                Some(out)
            }
            ["coin", coin, "proof", block] => {
                let block = block.parse().unwrap();
                let shown = self.proof(coin.parse().unwrap(), block)?;
                (!self.withheld.contains(&block)).then(|| shown.encode())
            }
            ["account", owner, "coins"] => {
                let after = u64::from_str_radix(data.trim_start_matches("0x"), 16).unwrap();
                let coins = self.named.get(&owner.parse::<Address>().unwrap())?;
                let runs: Vec<_> = coins.iter().filter(|coin| **coin > after).collect();
                let mut out = Vec::new();
                put_varint(&mut out, runs.len() as u64);
                for coin in runs {
                    out.extend(coin.to_be_bytes());
                    out.extend(1u64.to_be_bytes());
                }
                Some(out)
            }
            _ => None,
        }
    }
}

/// Contract, child chain and node.
pub struct World {
    pub anvil: Anvil,
    pub contract: RootChainContract,
    pub deployed_at: u64,
    pub domain: Domain,
    pub child: Arc<Mutex<Child>>,
    pub url: String,
}

impl World {
    pub async fn new() -> Self {
        let anvil = Anvil::start();
        let (set, _) = validators();
        let params = ExitParams {
            exit_period_s: PERIOD_S,
            hold_period_s: HOLD_S,
            bond: BOND,
            burn_bps: 5_000,
        };
        let operator = anvil.sender("operator").await;
        let (root_chain, deployed_at) = deploy(&operator, &set, params).await.unwrap();
        anvil.mine(2).await;
        let contract = RootChainContract { ethereum: anvil.ethereum(), address: root_chain };
        let domain = Domain::new(31_337, root_chain);
        let child = Arc::new(Mutex::new(Child {
            domain,
            roots: Vec::new(),
            chain_hash: chain_hash_genesis(&domain),
            transfers: Vec::new(),
            withheld: BTreeSet::new(),
            spoiled: BTreeSet::new(),
            named: BTreeMap::new(),
            prepared: BTreeMap::new(),
        }));
        let url = serve(Arc::clone(&child)).await;
        Self { anvil, contract, deployed_at, domain, child, url }
    }

    pub fn node(&self) -> NodeClient {
        NodeClient::new(&self.url, Duration::from_secs(20)).unwrap()
    }

    /// Coins of an owner; the deposit of the first.
    pub async fn deposit(&self, owner: &str, count: u16) -> Deposit {
        let sender = self.anvil.sender(owner).await;
        let eth = (Address::ZERO, U256::ZERO);
        let value = U256::from(1_000);
        let made = self.contract.make_deposit(&sender, asset::ETH, eth, value, count).await;
        let (first, _) = made.unwrap();
        self.anvil.mine(2).await;
        self.contract.deposit_of(first, At::Latest).await.unwrap().unwrap()
    }

    /// The next plasma block, certified and in the contract, with these leaves.
    pub async fn block(&self, leaves: &[(CoinId, SignedTransfer)]) -> BlockNumber {
        let submission = {
            let mut child = self.child.lock().unwrap();
            // A block is never empty.
            let filler = Transfer {
                coin: u64::MAX,
                prev_block: 0,
                prev_hash: B256::ZERO,
                new_owner: Address::repeat_byte(7),
                max_block: child.roots.len() as u64,
            };
            let filler = filler.sign(&key("operator"), &self.domain);
            let transfers = leaves.iter().copied().chain([(u64::MAX, filler)]).collect();
            child.transfers.push(transfers);
            let number = child.transfers.len() as u64;
            let root = root_of(&child.leaves(number).unwrap());
            child.roots.push(root);
            child.chain_hash = chain_hash(child.chain_hash, number, root);
            let (set, keys) = validators();
            let digest = attestation_digest(&self.domain, number, child.chain_hash, set.id());
            let signed: Vec<_> =
                keys.iter().enumerate().map(|(i, key)| (i, key.sign(digest))).collect();
            let certificate = Certificate::new(number, set.len(), &signed);
            Submission { first: number, roots: vec![root], set: set.encode(), certificate }
        };
        let relayer = self.anvil.sender("relayer").await;
        relayer.send(self.contract.submission(&submission)).await.unwrap();
        self.anvil.mine(2).await;
        submission.first
    }

    /// `from` pays the state on to `to` in the next block; the state that it makes.
    pub async fn pay(&self, state: &CoinState, from: &str, to: &str) -> CoinState {
        let transfer = self.signed(state, from, to);
        let block = self.block(&[(state.coin, transfer)]).await;
        transfer.child_of(state, block, &self.domain).unwrap()
    }

    pub fn signed(&self, state: &CoinState, from: &str, to: &str) -> SignedTransfer {
        Transfer::spending(state, address(to), u64::MAX).sign(&key(from), &self.domain)
    }

    /// Two blocks by which mallory claims a coin: a parent out of nothing that is hers, and its
    /// child.
    pub async fn forge(&self, coin: CoinId) -> ExitStart {
        let nothing = CoinState { coin, owner: address("mallory"), block: 0, hash: B256::ZERO };
        let parent = self.signed(&nothing, "mallory", "mallory");
        let p = self.block(&[(coin, parent)]).await;
        let hash = parent.transfer.digest(&self.domain);
        let state = CoinState { block: p, hash, ..nothing };
        let k = self.block(&[(coin, self.signed(&state, "mallory", "mallory"))]).await;
        self.start(coin, Some(p), Some(k)).await
    }

    /// The exit of the transfer in block `k`, whose parent is in block `p`; none: the deposit.
    pub async fn start(
        &self,
        coin: CoinId,
        p: Option<BlockNumber>,
        k: Option<BlockNumber>,
    ) -> ExitStart {
        let deposit = self.contract.deposit_of(coin, At::Latest).await.unwrap().unwrap();
        let child = self.child.lock().unwrap();
        let shown = |block: BlockNumber| {
            let shown = child.proof(coin, block).unwrap();
            Inclusion { block, transfer: shown.transfer.unwrap(), proof: shown.proof }
        };
        ExitStart {
            coin,
            deposit_id: deposit.deposit_id,
            transfer: k.map(|k| (p.map(shown), shown(k))),
            authorization: None,
            hint: 0,
        }
    }

    /// Opens an exit and waits for its finality.
    pub async fn exit(&self, name: &str, exit: &ExitStart) -> u64 {
        let sender = self.anvil.sender(name).await;
        let id = self.contract.start_exit(&sender, exit).await.unwrap();
        self.anvil.mine(2).await;
        id
    }

    /// Lets time pass.
    pub async fn warp(&self, seconds: u64) {
        self.anvil.call("evm_increaseTime", json!([seconds])).await;
        self.anvil.mine(3).await;
    }

    /// Transactions of an account.
    pub async fn nonce(&self, name: &str) -> u64 {
        self.anvil.ethereum().nonce(address(name)).await.unwrap()
    }

    /// Ids of a coin's open exits, oldest first, and its status.
    pub async fn open(&self, coin: CoinId) -> (u8, Vec<u64>) {
        let deposit = self.contract.deposit_of(coin, At::Latest).await.unwrap().unwrap();
        let coin = self.contract.coin(coin, deposit.deposit_id, At::Latest).await.unwrap();
        (coin.status, coin.open.iter().map(|exit| exit.id).collect())
    }

    pub async fn sender(&self, name: &str) -> Sender {
        self.anvil.sender(name).await
    }
}

/// Serves the child chain until the test's runtime ends; returns the URL.
async fn serve(child: Arc<Mutex<Child>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(connection(stream, Arc::clone(&child)));
        }
    });
    url
}

async fn connection(mut stream: TcpStream, child: Arc<Mutex<Child>>) {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let Ok(read @ 1..) = stream.read(&mut chunk).await else { return };
        bytes.extend_from_slice(&chunk[..read]);
        while let Some((request, length)) = whole_request(&bytes) {
            bytes.drain(..length);
            let text = |name: &str| request["params"][name].as_str().unwrap_or("").to_owned();
            let answer = child.lock().unwrap().answer(&text("path"), &text("data"));
            let response = match answer {
                Some(value) => json!({"code": 0, "value": BASE64.encode(value), "height": "1"}),
                None => json!({"code": 2, "log": "not found", "height": "1"}),
            };
            let body = json!({"jsonrpc": "2.0", "id": 1, "result": {"response": response}});
            let body = body.to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes()).await;
        }
    }
}
