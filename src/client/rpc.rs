//! CometBFT v0.38's JSON-RPC over HTTP.
//!
//! Every call has a time limit and every answer a limit of bytes and of JSON values; an answer that
//! is not what its form says, or that is about something else than was asked, is an error, never a
//! panic.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::transfer::tx_hash;

/// What an answer may hold. A value in memory takes up to 91 times its text, so both are limited.
struct AnswerMax {
    bytes: usize,
    values: usize,
}

/// Of an answer that holds a block: ours have at most 32 MiB, a third more in base64, and at most
/// 250,000 transfers.
const BLOCK_ANSWER_MAX: AnswerMax = AnswerMax { bytes: 64 << 20, values: 1_000_000 };
/// Of any other answer: the longest is a coin's history, 10,000 transfers in base64; most values
/// has a bundle of 5,000 transfers with an event for each.
const ANSWER_MAX: AnswerMax = AnswerMax { bytes: 8 << 20, values: 200_000 };

impl AnswerMax {
    /// Checks a whole answer before it is parsed: no value comes without one of these bytes.
    fn check(&self, answer: &[u8]) -> Result<(), String> {
        let values = answer.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
        if values > self.values {
            return Err(format!("more than {} values", self.values));
        }
        Ok(())
    }
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// No connection, or no answer in time.
    #[error("node {url}: {}", innermost(.source))]
    Unreachable {
        /// The node.
        url: String,
        /// Why.
        source: reqwest::Error,
    },
    /// The answer is not what its form says.
    #[error("node {url}: malformed answer: {what}")]
    Malformed {
        /// The node.
        url: String,
        /// What is wrong.
        what: String,
    },
    /// CometBFT's own error.
    #[error("CometBFT: {message}: {data}")]
    Comet {
        /// Short text.
        message: String,
        /// Details.
        data: String,
    },
    /// The application refused a query.
    #[error("query refused with code {code}: {log}")]
    Query {
        /// The application's code.
        code: u32,
        /// The application's words.
        log: String,
    },
}

/// The text of the error at the root: reqwest's own says only that sending failed.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// How long broadcast waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broadcast {
    /// For nothing.
    Async,
    /// For CheckTx.
    Sync,
    /// For the block.
    Commit,
}

/// What CheckTx, or a block, said of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxVerdict {
    /// 0 or one of the application's codes.
    pub code: u32,
    /// The application's words.
    pub log: String,
    /// SHA-256 of the transaction, hex, checked.
    pub hash: String,
}

/// A committed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxResult {
    /// Its height.
    pub height: u64,
    /// Its code.
    pub code: u32,
    /// Its result data.
    pub data: Vec<u8>,
    /// Its bytes.
    pub tx: Vec<u8>,
}

/// What the application says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppInfo {
    /// Its last committed height.
    pub height: u64,
    /// The app hash after it.
    pub app_hash: Vec<u8>,
}

/// A block of CometBFT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CometBlock {
    /// Its height.
    pub height: u64,
    /// The app hash in its header: that after the height before it.
    pub app_hash: Vec<u8>,
    /// Its transactions, the `proposal` first.
    pub txs: Vec<Vec<u8>>,
}

/// One operation of a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofOp {
    /// `plasma/<scheme>`.
    pub kind: String,
    /// The state key.
    pub key: Vec<u8>,
    /// The scheme's proof.
    pub data: Vec<u8>,
}

/// The answer of `abci_query`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryAnswer {
    /// 0 or why there is no value.
    pub code: u32,
    /// The application's words.
    pub log: String,
    /// The state key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// The height whose state was read.
    pub height: u64,
    /// Proof against the app hash of the header of height + 1.
    pub proof: Vec<ProofOp>,
}

impl QueryAnswer {
    /// Reads the `response` object, or a whole JSON-RPC answer that holds it.
    pub fn parse(json: &Value) -> Result<Self, String> {
        let response = [json.pointer("/result/response"), json.get("response")]
            .into_iter()
            .flatten()
            .next()
            .unwrap_or(json);
        let mut proof = Vec::new();
        for op in response.pointer("/proofOps/ops").and_then(Value::as_array).into_iter().flatten()
        {
            proof.push(ProofOp {
                kind: text(op, "type")?,
                key: bytes(op, "key")?,
                data: bytes(op, "data")?,
            });
        }
        Ok(Self {
            code: code(response)?,
            log: text(response, "log")?,
            key: bytes(response, "key")?,
            value: bytes(response, "value")?,
            height: number(response, "height")?,
            proof,
        })
    }
}

/// A string field; empty if it is absent or null.
fn text(value: &Value, field: &str) -> Result<String, String> {
    match &value[field] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        other => Err(format!("{field} is {other}")),
    }
}

/// A base64 field; empty if it is absent or null.
fn bytes(value: &Value, field: &str) -> Result<Vec<u8>, String> {
    BASE64.decode(text(value, field)?).map_err(|error| format!("{field}: {error}"))
}

/// A number that Go's JSON writes as a string.
fn number(value: &Value, field: &str) -> Result<u64, String> {
    match &value[field] {
        Value::String(digits) => digits.parse().map_err(|error| format!("{field}: {error}")),
        other => other.as_u64().ok_or_else(|| format!("{field} is {other}")),
    }
}

/// An ABCI code; CometBFT writes 0 too, so an absent one is never taken for acceptance.
fn code(value: &Value) -> Result<u32, String> {
    u32::try_from(number(value, "code")?).map_err(|error| format!("code: {error}"))
}

/// A hash in hex, as headers have it.
fn hash(value: &Value, field: &str) -> Result<Vec<u8>, String> {
    hex::decode(text(value, field)?).map_err(|error| format!("{field}: {error}"))
}

/// Latest height of the node at `url`, for code without a runtime; none if it does not answer
/// within two seconds.
///
/// # Panics
/// Inside a tokio runtime (a programmer's error).
pub fn blocking_height(url: &str) -> Option<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let node = NodeClient::new(url, Duration::from_secs(2)).ok()?;
    runtime.block_on(node.status()).ok().map(|(height, _)| height)
}

/// A node of the child chain.
#[derive(Debug, Clone)]
pub struct NodeClient {
    http: reqwest::Client,
    url: String,
}

impl NodeClient {
    /// A client of the RPC at `url`; every call ends after `timeout`.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, RpcError> {
        let http = reqwest::Client::builder()
            .timeout(timeout)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|source| RpcError::Unreachable { url: url.into(), source })?;
        Ok(Self { http, url: url.to_owned() })
    }

    /// The node's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn unreachable(&self, source: reqwest::Error) -> RpcError {
        RpcError::Unreachable { url: self.url.clone(), source }
    }

    fn malformed(&self, what: impl ToString) -> RpcError {
        RpcError::Malformed { url: self.url.clone(), what: what.to_string() }
    }

    /// The height of a header; it must be the asked one, unless that is 0.
    fn height_of(&self, header: &Value, asked: u64) -> Result<u64, RpcError> {
        let height = number(header, "height").map_err(|e| self.malformed(e))?;
        if asked != 0 && height != asked {
            return Err(self.malformed(format!("height {height} instead of {asked}")));
        }
        Ok(height)
    }

    /// Calls a method and returns its `result`.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self.http.post(&self.url).json(&body);
        let mut response = request.send().await.map_err(|e| self.unreachable(e))?;
        let most = match method {
            "block" | "block_results" => BLOCK_ANSWER_MAX,
            _ => ANSWER_MAX,
        };
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.unreachable(e))? {
            if answer.len() + chunk.len() > most.bytes {
                return Err(self.malformed(format!("more than {} bytes", most.bytes)));
            }
            answer.extend_from_slice(&chunk);
        }
        most.check(&answer).map_err(|error| self.malformed(error))?;
        let mut json: Value =
            serde_json::from_slice(&answer).map_err(|error| self.malformed(error))?;
        if let Some(error) = json.get("error").filter(|error| !error.is_null()) {
            let word = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
            return Err(RpcError::Comet { message: word("message"), data: word("data") });
        }
        match json.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(self.malformed("no result")),
        }
    }

    /// Latest height and app hash of the node.
    pub async fn status(&self) -> Result<(u64, Vec<u8>), RpcError> {
        let result = self.call("status", json!({})).await?;
        let info = &result["sync_info"];
        let height = number(info, "latest_block_height").map_err(|e| self.malformed(e))?;
        let hash = hash(info, "latest_app_hash").map_err(|e| self.malformed(e))?;
        Ok((height, hash))
    }

    /// The application's last commit, which may be ahead of what the node has stored.
    pub async fn info(&self) -> Result<AppInfo, RpcError> {
        let result = self.call("abci_info", json!({})).await?;
        let response = &result["response"];
        // The one answer from which CometBFT leaves out a height of 0.
        let height = match response.get("last_block_height") {
            None if response.is_object() => 0,
            _ => number(response, "last_block_height").map_err(|e| self.malformed(e))?,
        };
        Ok(AppInfo {
            height,
            app_hash: bytes(response, "last_block_app_hash").map_err(|e| self.malformed(e))?,
        })
    }

    /// A block of CometBFT; `height` 0 is the latest.
    pub async fn comet_block(&self, height: u64) -> Result<CometBlock, RpcError> {
        let params = if height == 0 { json!({}) } else { json!({"height": height.to_string()}) };
        let result = self.call("block", params).await?;
        let block = &result["block"];
        let mut txs = Vec::new();
        for tx in block.pointer("/data/txs").and_then(Value::as_array).into_iter().flatten() {
            let tx = tx.as_str().ok_or_else(|| self.malformed("a transaction is no text"))?;
            txs.push(BASE64.decode(tx).map_err(|e| self.malformed(e))?);
        }
        Ok(CometBlock {
            height: self.height_of(&block["header"], height)?,
            app_hash: hash(&block["header"], "app_hash").map_err(|e| self.malformed(e))?,
            txs,
        })
    }

    /// Codes of a height's transactions, in the block's order.
    pub async fn result_codes(&self, height: u64) -> Result<Vec<u32>, RpcError> {
        let params = json!({"height": height.to_string()});
        let result = self.call("block_results", params).await?;
        let results = result["txs_results"].as_array().into_iter().flatten();
        results.map(|result| code(result).map_err(|e| self.malformed(e))).collect()
    }

    /// The app hash in the header of a height.
    pub async fn app_hash(&self, height: u64) -> Result<Vec<u8>, RpcError> {
        let result = self.call("header", json!({"height": height.to_string()})).await?;
        self.height_of(&result["header"], height)?;
        hash(&result["header"], "app_hash").map_err(|e| self.malformed(e))
    }

    /// Queries the application; `height` 0 is the latest.
    pub async fn query(
        &self,
        path: &str,
        data: &[u8],
        height: u64,
        prove: bool,
    ) -> Result<QueryAnswer, RpcError> {
        let params = json!({"path": path, "data": hex::encode(data),
                            "height": height.to_string(), "prove": prove});
        let result = self.call("abci_query", params).await?;
        let answer = QueryAnswer::parse(&result).map_err(|error| self.malformed(error))?;
        if height != 0 && answer.code == 0 && answer.height != height {
            let what = format!("state of height {} instead of {height}", answer.height);
            return Err(self.malformed(what));
        }
        Ok(answer)
    }

    /// Sends a transaction.
    pub async fn broadcast(&self, tx: &[u8], mode: Broadcast) -> Result<TxVerdict, RpcError> {
        let method = match mode {
            Broadcast::Async => "broadcast_tx_async",
            Broadcast::Sync => "broadcast_tx_sync",
            Broadcast::Commit => "broadcast_tx_commit",
        };
        let result = self.call(method, json!({"tx": BASE64.encode(tx)})).await?;
        let verdict = match mode {
            Broadcast::Commit if code(&result["check_tx"]) != Ok(0) => &result["check_tx"],
            Broadcast::Commit => &result["tx_result"],
            _ => &result,
        };
        let told = hash(&result, "hash").map_err(|e| self.malformed(e))?;
        if told != tx_hash(tx) {
            return Err(self.malformed(format!("about transaction {}", hex::encode(told))));
        }
        Ok(TxVerdict {
            code: code(verdict).map_err(|e| self.malformed(e))?,
            log: text(verdict, "log").map_err(|e| self.malformed(e))?,
            hash: hex::encode_upper(told),
        })
    }

    /// A committed transaction by its SHA-256; none if the node knows none.
    pub async fn tx(&self, hash: &[u8; 32]) -> Result<Option<TxResult>, RpcError> {
        let params = json!({"hash": BASE64.encode(hash), "prove": false});
        let result = match self.call("tx", params).await {
            Err(RpcError::Comet { data, .. }) if data.contains("not found") => return Ok(None),
            other => other?,
        };
        let tx = bytes(&result, "tx").map_err(|e| self.malformed(e))?;
        if tx_hash(&tx) != *hash {
            return Err(self.malformed("another transaction than was asked for"));
        }
        Ok(Some(TxResult {
            height: number(&result, "height").map_err(|e| self.malformed(e))?,
            code: code(&result["tx_result"]).map_err(|e| self.malformed(e))?,
            data: bytes(&result["tx_result"], "data").map_err(|e| self.malformed(e))?,
            tx,
        }))
    }
}
