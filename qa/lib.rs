//! Load for a child chain: signs transfers of coins that never moved, sends them and counts what
//! is committed (qa.md's way of counting; its full method comes later).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plasma_client::rpc::{Broadcast, NodeClient, RpcError};
use plasma_client::transfer::sign;
use plasma_core::signature::SigningKey;
use plasma_core::transfer::SignedTransfer;
use plasma_core::tx::Tx;
use plasma_core::{Address, CoinId};

/// How long committed blocks are awaited after the last send.
const DRAIN_MAX: Duration = Duration::from_secs(120);
/// Between two looks at the chain.
const POLL: Duration = Duration::from_millis(200);

/// What a run did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Report {
    /// Transactions sent.
    pub sent: u64,
    /// Transactions that CheckTx refused.
    pub refused: u64,
    /// Transfers committed.
    pub committed: u64,
    /// Seconds from the first send until every transaction had been answered.
    pub send_s: f64,
    /// Seconds from the first send until the last block with one of them was seen.
    pub total_s: f64,
    /// Blocks that held them.
    pub blocks: u64,
}

/// Transactions with one transfer each, or bundles, of up to `most` of `owner`'s coins that never
/// moved.
pub async fn make_txs(
    node: &NodeClient,
    owner: &SigningKey,
    to: Address,
    most: usize,
    bundle: usize,
) -> Result<Vec<Vec<u8>>, RpcError> {
    let domain = node.params().await?.domain();
    let tip = node.tip().await?;
    let max_block = tip.next_block() + 1_000;
    let runs = node.account_coins(owner.address()).await?;
    let owned =
        |coin: CoinId| runs.iter().any(|(first, length)| coin >= *first && coin - first < *length);
    let mut signed: Vec<SignedTransfer> = Vec::new();
    for id in (1..=tip.last_deposit).rev() {
        let Some(deposit) = node.deposit(id).await? else { continue };
        if deposit.owner != owner.address() {
            continue;
        }
        let coins = (0..u64::from(deposit.count)).map(|i| deposit.first_coin + i);
        for coin in coins.filter(|coin| owned(*coin)) {
            signed.push(sign(&deposit.state(coin, &domain), to, max_block, owner, &domain));
        }
        if signed.len() >= most {
            break;
        }
    }
    signed.truncate(most);
    signed.sort_by_key(|transfer| transfer.transfer.coin);
    let encode = |part: &[SignedTransfer]| match part {
        [one] if bundle == 1 => Tx::Transfer(one.wire()).encode(),
        many => Tx::Bundle(many.iter().map(SignedTransfer::wire).collect()).encode(),
    };
    Ok(signed.chunks(bundle.max(1)).map(encode).collect())
}

/// Sends transactions over `connections` as fast as they are answered, and waits until they are
/// committed. `transfers` is their number of transfers.
pub async fn run(
    node: &NodeClient,
    txs: Vec<Vec<u8>>,
    connections: usize,
) -> Result<Report, RpcError> {
    let (mut height, _) = node.status().await?;
    let mut report = Report { sent: txs.len() as u64, ..Report::default() };
    let mut missing: std::collections::HashSet<Vec<u8>> = txs.iter().cloned().collect();
    let queue = Arc::new(Mutex::new(VecDeque::from(txs)));
    let started = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..connections {
        let (queue, node) = (Arc::clone(&queue), node.clone());
        workers.push(tokio::spawn(async move {
            let mut refused = 0;
            loop {
                let next = queue.lock().unwrap_or_else(|e| e.into_inner()).pop_front();
                let Some(tx) = next else { return Ok::<u64, RpcError>(refused) };
                match node.broadcast(&tx, Broadcast::Sync).await {
                    // Still pending from a run before: this run does not count it.
                    Err(RpcError::Comet { .. }) => refused += 1,
                    answer => refused += u64::from(answer?.code != 0),
                }
            }
        }));
    }
    for worker in workers {
        report.refused += worker.await.unwrap_or(Ok(0))?;
    }
    report.send_s = started.elapsed().as_secs_f64();
    let mut last_seen = started;
    let deadline = Instant::now() + DRAIN_MAX;
    while missing.len() as u64 > report.refused && Instant::now() < deadline {
        let (latest, _) = node.status().await?;
        while height < latest {
            height += 1;
            let before = missing.len();
            for tx in node.comet_block(height).await?.txs {
                if missing.remove(&tx) {
                    let decoded = Tx::decode(&tx).map(|tx| tx.transfers().len());
                    report.committed += decoded.unwrap_or(0) as u64;
                }
            }
            if missing.len() < before {
                report.blocks += 1;
                last_seen = Instant::now();
            }
        }
        tokio::time::sleep(POLL).await;
    }
    report.total_s = (last_seen - started).as_secs_f64();
    Ok(report)
}
