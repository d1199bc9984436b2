//! The relayer submits every root once, whatever happens in between.

use std::path::Path;
use std::time::Duration;

use plasma_client::rpc::NodeClient;
use plasma_core::domain::Domain;
use plasma_rootchain::ethereum::At;
use plasma_rootchain::relayer::{Policy, Relayer};
use serde_json::json;

use crate::anvil::{Anvil, until};
use crate::node::FakeNode;

struct Setup {
    anvil: Anvil,
    node: FakeNode,
    dir: tempfile::TempDir,
}

impl Setup {
    async fn new() -> Self {
        let anvil = Anvil::start().await;
        let node = FakeNode::start(Domain::new(31_337, anvil.contract.address)).await;
        Self { anvil, node, dir: tempfile::tempdir().unwrap() }
    }

    fn journal(&self) -> std::path::PathBuf {
        self.dir.path().join("journal")
    }

    async fn relayer_with(&self, resubmit_after: Duration) -> Relayer<NodeClient> {
        let node = NodeClient::new(&self.node.url, Duration::from_secs(10)).unwrap();
        let sender = self.anvil.sender("relayer").await;
        let policy = Policy { resubmit_after, max_fee_wei: 1_000_000_000_000 };
        Relayer::new(node, self.anvil.contract.clone(), sender, &self.journal(), policy)
    }

    async fn relayer(&self) -> Relayer<NodeClient> {
        self.relayer_with(Duration::from_secs(600)).await
    }

    async fn last_block(&self) -> u64 {
        self.anvil.contract.last_block(At::Latest).await.unwrap()
    }

    async fn nonce(&self) -> u64 {
        let sender = self.anvil.sender("relayer").await;
        self.anvil.ethereum.nonce(sender.address()).await.unwrap()
    }
}

fn lines(journal: &Path) -> usize {
    std::fs::read_to_string(journal).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn a_backlog_goes_in_steps_of_at_most_512_roots() {
    let setup = Setup::new().await;
    setup.node.close(1_100);
    let mut relayer = setup.relayer().await;
    let mut steps = Vec::new();
    while setup.last_block().await < 1_100 {
        relayer.step().await.unwrap();
        steps.push(setup.last_block().await);
        assert!(steps.len() < 10, "{steps:?}");
    }
    steps.dedup();
    // The highest kept certificates within 512 blocks: the ends of windows, then the newest.
    assert_eq!(steps, [512, 1_024, 1_100]);
    assert_eq!(setup.nonce().await, 3);
    setup.anvil.mine(3).await;
    relayer.step().await.unwrap();
    assert_eq!((relayer.progress.finalized, relayer.progress.attempts), (1_100, 3));
    setup.node.close(1);
    until("the next root arrives", async || {
        relayer.step().await.unwrap();
        setup.last_block().await == 1_101
    })
    .await;
}

#[tokio::test]
async fn killed_between_send_and_receipt_it_sends_nothing_twice() {
    let setup = Setup::new().await;
    setup.anvil.rpc("evm_setAutomine", vec![json!(false)]).await;
    setup.node.close(2);
    let mut relayer = setup.relayer().await;
    relayer.step().await.unwrap();
    assert_eq!(lines(&setup.journal()), 1);
    drop(relayer);
    let mut restarted = setup.relayer().await;
    for _ in 0..3 {
        restarted.step().await.unwrap();
    }
    assert_eq!(lines(&setup.journal()), 1, "it waits for the attempt in its journal");
    setup.anvil.mine(1).await;
    restarted.step().await.unwrap();
    assert_eq!((setup.last_block().await, setup.nonce().await), (2, 1));
}

#[tokio::test]
async fn killed_between_journal_and_send_it_uses_the_nonce_again() {
    let setup = Setup::new().await;
    setup.node.close(1);
    let mut relayer = setup.relayer().await;
    setup.anvil.rpc("evm_setAutomine", vec![json!(false)]).await;
    relayer.step().await.unwrap();
    let line = std::fs::read_to_string(setup.journal()).unwrap();
    let attempt: serde_json::Value = serde_json::from_str(line.trim()).unwrap();
    // As if it had never been broadcast.
    setup.anvil.rpc("anvil_dropTransaction", vec![attempt["hash"].clone()]).await;
    setup.anvil.rpc("evm_setAutomine", vec![json!(true)]).await;
    let mut restarted = setup.relayer().await;
    restarted.step().await.unwrap();
    restarted.step().await.unwrap();
    assert_eq!((setup.last_block().await, setup.nonce().await), (1, 1));
}

#[tokio::test]
async fn a_stuck_transaction_is_replaced() {
    let setup = Setup::new().await;
    setup.anvil.rpc("evm_setAutomine", vec![json!(false)]).await;
    setup.node.close(1);
    let mut relayer = setup.relayer_with(Duration::ZERO).await;
    relayer.step().await.unwrap();
    relayer.step().await.unwrap();
    assert_eq!((relayer.progress.attempts, relayer.progress.replaced), (2, 1));
    let text = std::fs::read_to_string(setup.journal()).unwrap();
    let attempts: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(attempts[0]["nonce"], attempts[1]["nonce"]);
    for fee in ["max_fee_wei", "tip_wei"] {
        let of = |i: usize| attempts[i][fee].as_u64().unwrap();
        assert!(of(1) * 10 >= of(0) * 11, "{fee} is raised by a tenth");
    }
    setup.anvil.mine(1).await;
    assert_eq!(setup.last_block().await, 1);
}

#[tokio::test]
async fn somebody_else_may_deliver() {
    let setup = Setup::new().await;
    setup.node.close(3);
    let mut first = setup.relayer().await;
    let mut second = setup.relayer().await;
    first.step().await.unwrap();
    second.step().await.unwrap();
    assert_eq!((setup.last_block().await, setup.nonce().await), (3, 1));
}

#[tokio::test]
async fn a_submission_that_is_reorged_out_is_sent_again() {
    let setup = Setup::new().await;
    setup.node.close(2);
    let mut relayer = setup.relayer().await;
    let snapshot = setup.anvil.rpc("evm_snapshot", vec![]).await;
    relayer.step().await.unwrap();
    relayer.step().await.unwrap();
    assert_eq!(setup.last_block().await, 2);
    setup.anvil.rpc("evm_revert", vec![snapshot]).await;
    assert_eq!(setup.last_block().await, 0);
    until("it is sent again", async || {
        relayer.step().await.unwrap();
        setup.last_block().await == 2
    })
    .await;
}
