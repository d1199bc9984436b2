//! A fake of the child chain's node: answers `abci_query` from a list of certified blocks.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use plasma_core::B256;
use plasma_core::block::{chain_hash, chain_hash_genesis};
use plasma_core::certificate::{Certificate, WINDOW, attestation_digest};
use plasma_core::domain::Domain;
use plasma_core::state::{BlockRecord, Tip, encode_validators};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::anvil::validators;

/// The chain that the fake serves.
#[derive(Default)]
struct Chain {
    blocks: Vec<BlockRecord>,
    certificates: Vec<Certificate>,
}

/// A node; it ends with the test's runtime.
pub struct FakeNode {
    /// Its URL.
    pub url: String,
    domain: Domain,
    chain: Arc<Mutex<Chain>>,
}

impl FakeNode {
    /// Serves an empty chain.
    pub async fn start(domain: Domain) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let chain = Arc::new(Mutex::new(Chain::default()));
        let served = Arc::clone(&chain);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&served)));
            }
        });
        Self { url, domain, chain }
    }

    /// Closes `count` blocks; the state keeps the highest certificate of each window, as the
    /// application does.
    pub fn close(&self, count: u64) {
        let (set, keys) = validators();
        let mut chain = self.chain.lock().unwrap();
        for _ in 0..count {
            let number = chain.blocks.len() as u64 + 1;
            let previous = chain
                .blocks
                .last()
                .map_or_else(|| chain_hash_genesis(&self.domain), |block| block.chain_hash);
            let root = B256::with_last_byte((number % 255) as u8 + 1);
            let chain_hash = chain_hash(previous, number, root);
            chain.blocks.push(BlockRecord { root, chain_hash, height: number });
            let digest = attestation_digest(&self.domain, number, chain_hash, 1);
            let signed: Vec<_> = (0..3).map(|i| (i, keys[i].sign(digest))).collect();
            let certificate = Certificate::new(number, set.len(), &signed);
            let window = |n: u64| (n - 1) / WINDOW;
            if chain.certificates.last().is_some_and(|c| window(c.number) == window(number)) {
                chain.certificates.pop();
            }
            chain.certificates.push(certificate);
        }
    }
}

fn answer(chain: &Chain, path: &str) -> Option<Vec<u8>> {
    let (noun, number) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    let number: u64 = number.parse().unwrap_or(0);
    match noun {
        "block" => Some(chain.blocks.get(number.checked_sub(1)? as usize)?.encode()),
        "certificate" => {
            let mut out = Vec::new();
            chain.certificates.iter().find(|c| c.number >= number)?.encode(&mut out);
            Some(out)
        }
        "events" => {
            let last = chain.blocks.len() as u64;
            let tip = Tip { last_closed: last, last_certified: last, ..Tip::default() };
            Some(tip.encode())
        }
        _ => Some(encode_validators(&validators().0)),
    }
}

async fn serve(mut stream: TcpStream, chain: Arc<Mutex<Chain>>) {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let Ok(read @ 1..) = stream.read(&mut chunk).await else { return };
        bytes.extend_from_slice(&chunk[..read]);
        while let Some((request, length)) = whole_request(&bytes) {
            bytes.drain(..length);
            let path = request["params"]["path"].as_str().unwrap_or_default().to_owned();
            let response = match answer(&chain.lock().unwrap(), &path) {
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

/// The first whole request in the buffer, with its length.
fn whole_request(bytes: &[u8]) -> Option<(Value, usize)> {
    let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_lowercase();
    let length = head.split("content-length:").nth(1)?.split("\r\n").next()?.trim();
    let end = head_end + length.parse::<usize>().ok()?;
    let body = bytes.get(head_end..end)?;
    Some((serde_json::from_slice(body).ok()?, end))
}
