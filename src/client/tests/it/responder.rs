//! A node in the test: answers JSON-RPC over HTTP as the test says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use plasma_client::rpc::NodeClient;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Time limit of the tests' calls: never reached except where a test wants it.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// A node that is served until the runtime ends.
pub struct Node {
    pub url: String,
    /// The requests' bodies, in order.
    pub requests: Arc<Mutex<Vec<Value>>>,
}

impl Node {
    /// Answers every request's body by `answer`: the whole bytes of the HTTP body.
    pub async fn raw(answer: impl Fn(&Value) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (requests.clone(), Arc::new(answer));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (seen, answer) = (seen.clone(), answer.clone());
                tokio::spawn(async move {
                    let (mut stream, body) = request(stream).await;
                    seen.lock().unwrap().push(body.clone());
                    let body = answer(&body);
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    // The client may hang up on an answer that is too long.
                    let _ = stream.write_all(head.as_bytes()).await;
                    let _ = stream.write_all(&body).await;
                });
            }
        });
        Self { url, requests }
    }

    /// Answers every request by a JSON-RPC result.
    pub async fn result(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        Self::raw(move |request| {
            json!({"jsonrpc": "2.0", "id": 1, "result": answer(request)}).to_string().into_bytes()
        })
        .await
    }

    /// Answers `abci_query` by (code, key, value) of the path and the data.
    pub async fn queries(
        answer: impl Fn(&str, &str) -> (u32, Vec<u8>, Vec<u8>) + Send + Sync + 'static,
    ) -> Self {
        use base64::Engine;
        let base64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        Self::result(move |request| {
            let parameter = |name: &str| request["params"][name].as_str().unwrap().to_owned();
            let (code, key, value) = answer(&parameter("path"), &parameter("data"));
            json!({"response": {"code": code, "log": "said the node", "info": "", "index": "0",
                "key": base64(&key), "value": base64(&value), "proofOps": null, "height": "9",
                "codespace": ""}})
        })
        .await
    }

    pub fn client(&self) -> NodeClient {
        NodeClient::new(&self.url, DEADLINE).unwrap()
    }
}

/// Reads one request and its JSON body.
async fn request(mut stream: TcpStream) -> (TcpStream, Value) {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.unwrap();
        assert_ne!(count, 0, "the request ends early");
        bytes.extend_from_slice(&chunk[..count]);
        let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
        let body = &bytes[end + 4..];
        if body.len() == length.trim().parse::<usize>().unwrap() {
            let json = serde_json::from_slice(body).unwrap();
            return (stream, json);
        }
    }
}
