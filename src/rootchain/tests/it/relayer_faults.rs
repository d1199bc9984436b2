//! Sending fails in every way, and the roots arrive once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use plasma_rootchain::ethereum::EthError;
use plasma_rootchain::journal::Journal;
use plasma_rootchain::relayer::{Policy, RelayError};
use serde_json::json;

use crate::anvil::{DEADLINE, wait_for};
use crate::gate::{Gate, Verdict};
use crate::relayer::Fixture;

const SEND: &str = "eth_sendRawTransaction";
/// Replaces what was not mined at the next step.
const HASTY: Policy = Policy { resubmit_after: Duration::ZERO, max_fee_wei: 500_000_000_000 };

/// A fixture with work to do.
async fn with_work() -> (Fixture, Gate) {
    let f = Fixture::new().await;
    f.chain.close(3);
    f.chain.certify();
    let gate = Gate::before(&f.anvil);
    (f, gate)
}

#[tokio::test]
async fn a_nonce_whose_send_failed_is_used_again() {
    let (f, gate) = with_work().await;
    let mut relayer = f.patient(gate.ethereum()).await;
    for refusal in [|| Verdict::Status(429), || Verdict::Error("txpool is full")] {
        gate.on(SEND, refusal);
        let failed = relayer.step().await;
        assert!(matches!(failed, Err(RelayError::Ethereum(EthError::Rpc(_)))), "{failed:?}");
    }
    gate.open();
    relayer.step().await.unwrap();
    f.check(3).await;
    assert_eq!((f.nonce("relayer").await, gate.calls(SEND).len()), (1, 3));
    // None of them had to outbid what nobody has.
    let attempts = Journal::new(&f.journal("relayer")).last_attempts();
    assert_eq!(attempts.len(), 3);
    assert!(attempts.iter().all(|a| a.nonce == 0 && a.tip_wei == attempts[0].tip_wei));
}

#[tokio::test]
async fn a_send_whose_answer_was_lost_is_not_repeated() {
    let (f, gate) = with_work().await;
    let mut relayer = f.patient(gate.ethereum()).await;
    f.anvil.automine(false).await;
    gate.on(SEND, || Verdict::LoseAnswer);
    let lost = relayer.step().await;
    assert!(matches!(lost, Err(RelayError::Ethereum(EthError::Unreachable { .. }))), "{lost:?}");
    gate.open();
    relayer.step().await.unwrap();
    f.anvil.mine(1).await;
    relayer.step().await.unwrap();
    f.check(3).await;
    assert_eq!((f.nonce("relayer").await, gate.calls(SEND).len()), (1, 1));
}

#[tokio::test]
async fn killed_between_journal_and_send() {
    let (f, gate) = with_work().await;
    gate.on(SEND, || Verdict::Hold);
    let mut killed = f.patient(gate.ethereum()).await;
    let task = tokio::spawn(async move { killed.step().await });
    wait_for("the send", async || (gate.calls(SEND).len() == 1).then_some(())).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(Journal::new(&f.journal("relayer")).last_attempts().len(), 1);
    gate.open();
    let mut restarted = f.patient(gate.ethereum()).await;
    restarted.step().await.unwrap();
    f.check(3).await;
    assert_eq!(f.nonce("relayer").await, 1);
}

#[tokio::test]
async fn killed_between_send_and_receipt() {
    let (f, gate) = with_work().await;
    f.anvil.automine(false).await;
    f.patient(gate.ethereum()).await.step().await.unwrap();
    let mut restarted = f.patient(gate.ethereum()).await;
    for _ in 0..3 {
        restarted.step().await.unwrap();
    }
    assert_eq!(gate.calls(SEND).len(), 1);
    f.anvil.mine(1).await;
    // And once more, after it was mined.
    let mut again = f.patient(gate.ethereum()).await;
    for relayer in [&mut restarted, &mut again] {
        relayer.step().await.unwrap();
        assert_eq!(relayer.progress.latest, 3);
    }
    f.check(3).await;
    assert_eq!((f.nonce("relayer").await, gate.calls(SEND).len()), (1, 1));
}

#[tokio::test]
async fn a_dropped_transaction_is_sent_again() {
    let (f, gate) = with_work().await;
    f.anvil.automine(false).await;
    let mut relayer = f.patient(gate.ethereum()).await;
    relayer.step().await.unwrap();
    let hash = Journal::new(&f.journal("relayer")).last_attempts()[0].hash;
    f.anvil.call("anvil_dropTransaction", json!([hash])).await;
    relayer.step().await.unwrap();
    f.anvil.mine(1).await;
    f.check(3).await;
    assert_eq!(f.nonce("relayer").await, 1);
}

#[tokio::test]
async fn a_transaction_below_the_market_is_replaced() {
    let (f, gate) = with_work().await;
    f.anvil.automine(false).await;
    let mut relayer = f.relayer_at(gate.ethereum(), "relayer", HASTY).await;
    relayer.step().await.unwrap();
    let first = Journal::new(&f.journal("relayer")).last_attempts()[0].clone();
    // The base fee rises to ten times what it offers, in a block that has no room for it.
    let base = format!("{:#x}", first.max_fee_wei * 10);
    f.anvil.call("evm_setBlockGasLimit", json!(["0x7530"])).await;
    f.anvil.call("anvil_setNextBlockBaseFeePerGas", json!([base])).await;
    f.anvil.mine(1).await;
    f.anvil.call("evm_setBlockGasLimit", json!(["0x1c9c380"])).await;
    assert!(f.anvil.ethereum().knows(first.hash).await.unwrap());
    assert_eq!(f.nonce("relayer").await, 0);
    // More work has come: the replacement takes it along.
    f.chain.close(2);
    f.chain.certify();
    relayer.step().await.unwrap();
    f.anvil.mine(1).await;
    f.check(5).await;
    relayer.step().await.unwrap();
    assert_eq!((relayer.progress.attempts, relayer.progress.replaced), (2, 1));
    let attempts = Journal::new(&f.journal("relayer")).last_attempts();
    assert_eq!((attempts[1].nonce, attempts[1].last), (first.nonce, 5));
    assert!(attempts[1].max_fee_wei > first.max_fee_wei * 10);
    assert!(attempts[1].tip_wei * 10 >= first.tip_wei * 11);
}

#[tokio::test]
async fn a_replacement_that_is_refused_is_raised_further_at_once() {
    let (f, gate) = with_work().await;
    f.anvil.automine(false).await;
    let policy = Policy { resubmit_after: Duration::from_secs(2), ..HASTY };
    let mut relayer = f.relayer_at(gate.ethereum(), "relayer", policy).await;
    relayer.step().await.unwrap();
    let refusals = AtomicUsize::new(0);
    gate.on(SEND, move || match refusals.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Verdict::Error("replacement transaction underpriced"),
        _ => Verdict::Pass,
    });
    let deadline = Instant::now() + DEADLINE;
    let refused = loop {
        if let Err(error) = relayer.step().await {
            break error;
        }
        assert!(Instant::now() < deadline, "it is never replaced");
    };
    assert!(matches!(refused, RelayError::Ethereum(EthError::Rpc(_))), "{refused:?}");
    // What is stuck has waited long enough.
    assert!(relayer.step().await.is_err());
    relayer.step().await.unwrap();
    f.anvil.mine(1).await;
    f.check(3).await;
    let attempts = Journal::new(&f.journal("relayer")).last_attempts();
    assert_eq!((attempts.len(), f.nonce("relayer").await), (4, 1));
    assert!(attempts.windows(2).all(|pair| {
        pair[1].nonce == pair[0].nonce && pair[1].tip_wei * 10 >= pair[0].tip_wei * 11
    }));
}

#[tokio::test]
async fn an_earlier_attempt_is_mined_while_a_later_is_sent() {
    let (f, gate) = with_work().await;
    f.anvil.automine(false).await;
    let mut relayer = f.relayer_at(gate.ethereum(), "relayer", HASTY).await;
    relayer.step().await.unwrap();
    // The replacement does not get through, and the first is mined.
    gate.on(SEND, || Verdict::Status(503));
    assert!(relayer.step().await.is_err());
    f.anvil.mine(1).await;
    gate.open();
    relayer.step().await.unwrap();
    f.check(3).await;
    let progress = relayer.progress;
    assert_eq!((progress.attempts, progress.reverted, f.nonce("relayer").await), (2, 0, 1));
    assert!(progress.fee_paid_wei > 0);
}

#[tokio::test]
async fn more_than_the_policy_allows_is_not_offered() {
    let (f, gate) = with_work().await;
    let mean = Policy { max_fee_wei: 1, ..HASTY };
    let mut relayer = f.relayer_at(gate.ethereum(), "relayer", mean).await;
    let refused = relayer.step().await;
    assert!(matches!(refused, Err(RelayError::FeeLimit { limit: 1, .. })), "{refused:?}");
    assert_eq!(gate.calls(SEND).len(), 0);
    f.relayer().await.step().await.unwrap();
    f.check(3).await;
}

#[tokio::test]
async fn an_account_without_money_sends_when_it_is_funded() {
    let (f, gate) = with_work().await;
    let account = plasma_client::wallet::devnet_key("relayer").unwrap().address();
    f.anvil.call("anvil_setBalance", json!([account, "0x0"])).await;
    let mut relayer = f.patient(gate.ethereum()).await;
    for _ in 0..2 {
        assert!(relayer.step().await.is_err());
    }
    f.anvil.call("anvil_setBalance", json!([account, "0xde0b6b3a7640000"])).await;
    relayer.step().await.unwrap();
    f.check(3).await;
    assert_eq!(f.nonce("relayer").await, 1);
}

#[tokio::test]
async fn nothing_is_sent_while_the_journal_cannot_be_written() {
    let (f, gate) = with_work().await;
    std::fs::create_dir(f.journal("relayer")).unwrap();
    let mut relayer = f.patient(gate.ethereum()).await;
    let failed = relayer.step().await;
    assert!(matches!(failed, Err(RelayError::Journal(_))), "{failed:?}");
    assert_eq!(gate.calls(SEND).len(), 0);
}
