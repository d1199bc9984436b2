//! A fake of the child chain's node: answers `abci_query` from a child chain.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use plasma_core::state::{BlockRecord, Tip, encode_validators};
use plasma_rootchain::relayer::ChildChain;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::chain::{TestChain, validators};

/// Serves a chain until the test's runtime ends; returns the URL.
pub async fn serve_node(chain: TestChain) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(stream, chain.clone()));
        }
    });
    url
}

async fn answer(chain: &TestChain, path: &str) -> Option<Vec<u8>> {
    let (noun, number) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    let number: u64 = number.parse().unwrap_or(0);
    match noun {
        "block" => {
            let root = chain.root(number).await.unwrap()?;
            let chain_hash = chain.chain_hash(number);
            Some(BlockRecord { root, chain_hash, height: number }.encode())
        }
        "certificate" => {
            let mut out = Vec::new();
            chain.certificate_from(number, 4).await.unwrap()?.encode(&mut out);
            Some(out)
        }
        "events" => {
            let last_certified = chain.last_certified().await.unwrap();
            Some(Tip { last_certified, ..Tip::default() }.encode())
        }
        _ => Some(encode_validators(&validators().0)),
    }
}

async fn serve(mut stream: TcpStream, chain: TestChain) {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let Ok(read @ 1..) = stream.read(&mut chunk).await else { return };
        bytes.extend_from_slice(&chunk[..read]);
        while let Some((request, length)) = whole_request(&bytes) {
            bytes.drain(..length);
            let path = request["params"]["path"].as_str().unwrap_or_default().to_owned();
            let response = match answer(&chain, &path).await {
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
pub fn whole_request(bytes: &[u8]) -> Option<(Value, usize)> {
    let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_lowercase();
    let length = head.split("content-length:").nth(1)?.split("\r\n").next()?.trim();
    let end = head_end + length.parse::<usize>().ok()?;
    let body = bytes.get(head_end..end)?;
    Some((serde_json::from_slice(body).ok()?, end))
}
