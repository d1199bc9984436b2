//! Ethereum's JSON-RPC: reading at a block, and sending with a nonce of our own.
//!
//! alloy's nonce filler does not resync after a failed send and its pending-transaction futures
//! can hang, so the nonce is read before each send and receipts are polled here.

use std::time::{Duration, Instant};

use alloy::consensus::TxEnvelope;
use alloy::eips::eip2718::Encodable2718;
use alloy::eips::{BlockId, BlockNumberOrTag};
use alloy::network::{EthereumWallet, NetworkTransactionBuilder, TransactionBuilder};
use alloy::primitives::{Address, B256, Bytes, U256};
use alloy::providers::{DynProvider, Provider, ProviderBuilder};
use alloy::rpc::client::RpcClient;
use alloy::rpc::types::{Filter, Log, Topic, TransactionReceipt, TransactionRequest};
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::SolCall;
use alloy::transports::{RpcError, TransportErrorKind};
use plasma_core::signature::SigningKey;

use crate::contract::error_name;
use crate::transport::Transport;

/// How long a receipt is awaited.
const RECEIPT_TIMEOUT: Duration = Duration::from_secs(120);
/// Between two looks for a receipt.
const RECEIPT_POLL: Duration = Duration::from_millis(200);
/// Most gas of a transaction (EIP-7825).
const TX_GAS_MAX: u64 = 16_777_216;
/// Tip of our transactions, wei a gas.
pub const TIP_WEI: u128 = 1_000_000_000;

/// Why Ethereum did not do it.
#[derive(Debug, thiserror::Error)]
pub enum EthError {
    /// No connection, or no answer in time.
    #[error("Ethereum at {url}: {cause}")]
    Unreachable {
        /// The endpoint.
        url: String,
        /// Why.
        cause: String,
    },
    /// The node's own error.
    #[error("Ethereum: {0}")]
    Rpc(String),
    /// The contract refused; the typed error's name.
    #[error("the contract refused: {0}")]
    Reverted(String),
    /// An answer that is not what it must be.
    #[error("unexpected answer of Ethereum: {0}")]
    Answer(String),
    /// A URL that is none.
    #[error("{0:?} is no URL")]
    Url(String),
    /// The transaction was not mined in time.
    #[error("transaction {0} was not mined within {RECEIPT_TIMEOUT:?}")]
    NotMined(B256),
}

/// The block whose state is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The latest block.
    Latest,
    /// Ethereum's finalized block.
    Finalized,
    /// A block by number.
    Number(u64),
}

impl From<At> for BlockId {
    fn from(at: At) -> Self {
        match at {
            At::Latest => Self::latest(),
            At::Finalized => Self::finalized(),
            At::Number(number) => Self::number(number),
        }
    }
}

/// A block's number, hash and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Number.
    pub number: u64,
    /// Hash.
    pub hash: B256,
    /// Unix seconds.
    pub timestamp: u64,
    /// Wei a gas.
    pub base_fee: u64,
}

/// One endpoint.
#[derive(Debug, Clone)]
pub struct Ethereum {
    provider: DynProvider,
    url: String,
}

impl Ethereum {
    /// An endpoint by its URL; connects on the first call.
    pub fn new(url: &str) -> Result<Self, EthError> {
        let parsed = url.parse().map_err(|_| EthError::Url(url.to_owned()))?;
        let transport = Transport::new(parsed).map_err(|error| EthError::Unreachable {
            url: url.to_owned(),
            cause: innermost(&error),
        })?;
        let provider = ProviderBuilder::default().connect_client(RpcClient::new(transport, false));
        let provider = provider.erased();
        Ok(Self { provider, url: url.to_owned() })
    }

    /// The endpoint's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn error(&self, error: RpcError<TransportErrorKind>) -> EthError {
        if let Some(payload) = error.as_error_resp() {
            if let Some(data) = payload.as_revert_data() {
                return EthError::Reverted(error_name(&data));
            }
            return EthError::Rpc(payload.message.to_string());
        }
        match error {
            RpcError::Transport(kind) => match kind.as_http_error() {
                Some(http) => EthError::Rpc(format!("HTTP status {}", http.status)),
                None => EthError::Unreachable { url: self.url.clone(), cause: innermost(&kind) },
            },
            other => EthError::Answer(other.to_string()),
        }
    }

    /// Reads a view function.
    pub async fn read<C: SolCall>(
        &self,
        to: Address,
        call: C,
        at: At,
    ) -> Result<C::Return, EthError> {
        let input = Bytes::from(call.abi_encode());
        let tx = TransactionRequest::default().to(to).input(input.into());
        let answer = self.provider.call(tx).block(at.into()).await.map_err(|e| self.error(e))?;
        C::abi_decode_returns(&answer).map_err(|error| EthError::Answer(error.to_string()))
    }

    /// A block's head; none if there is no such block.
    pub async fn head(&self, at: At) -> Result<Option<Head>, EthError> {
        let block = self.provider.get_block(at.into()).await.map_err(|e| self.error(e))?;
        Ok(block.map(|block| Head {
            number: block.header.number,
            hash: block.header.hash,
            timestamp: block.header.timestamp,
            base_fee: block.header.base_fee_per_gas.unwrap_or(0),
        }))
    }

    /// Ethereum's chain id.
    pub async fn chain_id(&self) -> Result<u64, EthError> {
        self.provider.get_chain_id().await.map_err(|e| self.error(e))
    }

    /// Whether the endpoint is still syncing.
    pub async fn syncing(&self) -> Result<bool, EthError> {
        let status = self.provider.syncing().await.map_err(|e| self.error(e))?;
        Ok(!matches!(status, alloy::rpc::types::SyncStatus::None))
    }

    /// Logs of one event of a contract, or of several, in a range of blocks.
    pub async fn logs(
        &self,
        address: Address,
        events: impl Into<Topic>,
        from: u64,
        to: u64,
    ) -> Result<Vec<Log>, EthError> {
        self.logs_about(address, events, Topic::default(), from, to).await
    }

    /// The same, with one of these values as the event's first indexed field; empty: any.
    pub async fn logs_about(
        &self,
        address: Address,
        events: impl Into<Topic>,
        first: impl Into<Topic>,
        from: u64,
        to: u64,
    ) -> Result<Vec<Log>, EthError> {
        let filter = Filter::new()
            .address(address)
            .event_signature(events)
            .topic1(first)
            .from_block(BlockNumberOrTag::Number(from))
            .to_block(BlockNumberOrTag::Number(to));
        self.provider.get_logs(&filter).await.map_err(|e| self.error(e))
    }

    /// Wei of an account.
    pub async fn balance(&self, account: Address) -> Result<U256, EthError> {
        self.provider.get_balance(account).await.map_err(|e| self.error(e))
    }

    /// Transactions that an account has in the chain at its latest block: its next nonce.
    pub async fn nonce(&self, account: Address) -> Result<u64, EthError> {
        let latest = BlockId::latest();
        let count = self.provider.get_transaction_count(account).block_id(latest).await;
        count.map_err(|e| self.error(e))
    }

    /// Gas that a transaction takes on top of the latest block; a revert is named. Not of the
    /// pending block: it may hold the very transaction that this one replaces.
    pub async fn estimate(&self, tx: TransactionRequest) -> Result<u64, EthError> {
        let gas = self.provider.estimate_gas(tx).block(BlockId::latest()).await;
        gas.map_err(|e| self.error(e))
    }

    /// Broadcasts signed bytes.
    pub async fn broadcast(&self, raw: &[u8]) -> Result<(), EthError> {
        self.provider.send_raw_transaction(raw).await.map(drop).map_err(|e| self.error(e))
    }

    /// A transaction's receipt; none while it is not mined.
    pub async fn receipt(&self, hash: B256) -> Result<Option<TransactionReceipt>, EthError> {
        self.provider.get_transaction_receipt(hash).await.map_err(|e| self.error(e))
    }

    /// Whether the node knows a transaction, mined or waiting.
    pub async fn knows(&self, hash: B256) -> Result<bool, EthError> {
        let found = self.provider.get_transaction_by_hash(hash).await;
        Ok(found.map_err(|e| self.error(e))?.is_some())
    }

    /// A method of anvil.
    pub async fn anvil(
        &self,
        method: &'static str,
        params: Vec<serde_json::Value>,
    ) -> Result<serde_json::Value, EthError> {
        self.provider.raw_request(method.into(), params).await.map_err(|e| self.error(e))
    }
}

/// The text of the error at the root: the outer ones say only that sending failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Signs and sends the transactions of one account, one at a time.
#[derive(Debug, Clone)]
pub struct Sender {
    ethereum: Ethereum,
    wallet: EthereumWallet,
    address: Address,
    chain_id: u64,
}

/// Fees of a transaction, wei a gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fees {
    /// Most that is paid.
    pub max: u128,
    /// Of it, for the proposer.
    pub tip: u128,
}

/// A signed transaction.
#[derive(Debug, Clone)]
pub struct Signed {
    /// Its hash.
    pub hash: B256,
    /// The bytes to broadcast.
    pub raw: Vec<u8>,
}

impl Sender {
    /// Sends as the account of `key`.
    pub async fn new(ethereum: Ethereum, key: &SigningKey) -> Result<Self, EthError> {
        let signer = PrivateKeySigner::from_slice(&key.to_bytes())
            .map_err(|_| EthError::Answer("not a secp256k1 key".into()))?;
        let chain_id = ethereum.chain_id().await?;
        let address = signer.address();
        Ok(Self { ethereum, wallet: EthereumWallet::from(signer), address, chain_id })
    }

    /// The account.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The endpoint.
    pub fn ethereum(&self) -> &Ethereum {
        &self.ethereum
    }

    /// Fees at the current market: twice the base fee and a tip.
    pub async fn market_fees(&self) -> Result<Fees, EthError> {
        let head = self.ethereum.head(At::Latest).await?;
        let base = head.ok_or_else(|| EthError::Answer("no latest block".into()))?.base_fee;
        Ok(Fees { max: 2 * u128::from(base) + TIP_WEI, tip: TIP_WEI })
    }

    /// Estimates the gas and adds a fifth: state may change until the transaction is mined.
    pub async fn gas(&self, tx: &TransactionRequest) -> Result<u64, EthError> {
        let gas = self.ethereum.estimate(tx.clone().from(self.address)).await?;
        Ok((gas + gas / 5).min(TX_GAS_MAX))
    }

    /// Signs a transaction with this nonce.
    pub async fn sign(
        &self,
        tx: TransactionRequest,
        nonce: u64,
        gas: u64,
        fees: Fees,
    ) -> Result<Signed, EthError> {
        let tx = tx
            .from(self.address)
            .with_chain_id(self.chain_id)
            .nonce(nonce)
            .gas_limit(gas)
            .max_fee_per_gas(fees.max)
            .max_priority_fee_per_gas(fees.tip);
        let signed: TxEnvelope =
            tx.build(&self.wallet).await.map_err(|error| EthError::Answer(error.to_string()))?;
        Ok(Signed { hash: *signed.tx_hash(), raw: signed.encoded_2718() })
    }

    /// Sends a transaction and waits until it is mined.
    pub async fn send(&self, tx: TransactionRequest) -> Result<TransactionReceipt, EthError> {
        let gas = self.gas(&tx).await?;
        let nonce = self.ethereum.nonce(self.address).await?;
        let signed = self.sign(tx, nonce, gas, self.market_fees().await?).await?;
        self.ethereum.broadcast(&signed.raw).await?;
        let deadline = Instant::now() + RECEIPT_TIMEOUT;
        while Instant::now() < deadline {
            match self.ethereum.receipt(signed.hash).await {
                Ok(Some(receipt)) if receipt.status() => return Ok(receipt),
                Ok(Some(_)) => {
                    return Err(EthError::Reverted(format!("in transaction {}", signed.hash)));
                }
                // It is sent: a look that fails says nothing of it.
                Ok(None) | Err(EthError::Unreachable { .. } | EthError::Rpc(_)) => {}
                Err(error) => return Err(error),
            }
            tokio::time::sleep(RECEIPT_POLL).await;
        }
        Err(EthError::NotMined(signed.hash))
    }
}
