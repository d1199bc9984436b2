//! Roots come to the contract, once and all of them.

use std::path::PathBuf;
use std::time::Duration;

use plasma_client::rpc::NodeClient;
use plasma_rootchain::contract::{RootChain, RootChainContract};
use plasma_rootchain::ethereum::{At, Ethereum, Sender};
use plasma_rootchain::journal::{Attempt, Journal};
use plasma_rootchain::relayer::{ChildChain, Policy, Relayer};

use crate::anvil::{Anvil, wait_for};
use crate::chain::{TestChain, validators};
use crate::node::serve_node;

/// Never within a test.
const PATIENT: Policy =
    Policy { resubmit_after: Duration::from_secs(3_600), max_fee_wei: 500_000_000_000 };

/// A contract, a child chain and an account.
pub struct Fixture {
    pub anvil: Anvil,
    pub contract: RootChainContract,
    pub chain: TestChain,
}

impl Fixture {
    pub async fn new() -> Self {
        let anvil = Anvil::start();
        let (contract, _) = anvil.deploy(&validators().0).await;
        let chain = TestChain::new(contract.address);
        Self { anvil, contract, chain }
    }

    pub fn journal(&self, name: &str) -> PathBuf {
        self.anvil.dir().join(format!("{name}.journal"))
    }

    /// A relayer by this account's key, with this account's journal, through an endpoint.
    pub async fn relayer_at(
        &self,
        ethereum: Ethereum,
        name: &str,
        policy: Policy,
    ) -> Relayer<TestChain> {
        let key = plasma_client::wallet::devnet_key(name).unwrap();
        let sender = Sender::new(ethereum.clone(), &key).await.unwrap();
        let contract = RootChainContract { ethereum, ..self.contract.clone() };
        Relayer::new(self.chain.clone(), contract, sender, &self.journal(name), policy)
    }

    pub async fn relayer(&self) -> Relayer<TestChain> {
        self.relayer_at(self.anvil.ethereum(), "relayer", PATIENT).await
    }

    pub async fn patient(&self, ethereum: Ethereum) -> Relayer<TestChain> {
        self.relayer_at(ethereum, "relayer", PATIENT).await
    }

    pub async fn last(&self) -> u64 {
        self.contract.last_block(At::Latest).await.unwrap()
    }

    /// Transactions of an account in the chain.
    pub async fn nonce(&self, name: &str) -> u64 {
        let account = plasma_client::wallet::devnet_key(name).unwrap().address();
        self.anvil.ethereum().nonce(account).await.unwrap()
    }

    /// The contract gets every root of the child chain up to `last`, and its chain hash. It waits:
    /// anvil answers a send before it mines it.
    pub async fn check(&self, last: u64) {
        // Anvil may be away for a moment.
        let stored = async || self.contract.last_block(At::Latest).await.ok();
        wait_for("roots", async || (stored().await? >= last).then_some(())).await;
        assert_eq!(self.last().await, last);
        let chain_hash = self.contract.read(RootChain::chainHashCall {}, At::Latest).await.unwrap();
        assert_eq!(chain_hash, self.chain.chain_hash(last));
        for number in (1..=last).step_by(97).chain([last]) {
            let root = self.contract.root(number, At::Latest).await.unwrap();
            assert_eq!(root, self.chain.root(number).await.unwrap(), "block {number}");
        }
        assert_eq!(self.contract.root(last + 1, At::Latest).await.unwrap(), None);
    }
}

#[tokio::test]
async fn certified_roots_are_delivered_and_done_when_final() {
    let f = Fixture::new().await;
    let mut relayer = f.relayer().await;
    f.chain.close(3);
    relayer.step().await.unwrap();
    assert_eq!((relayer.progress.attempts, f.last().await), (0, 0));
    f.chain.certify();
    relayer.step().await.unwrap();
    f.check(3).await;
    relayer.step().await.unwrap();
    let progress = relayer.progress;
    assert_eq!((progress.certified, progress.latest, progress.finalized), (3, 3, 0));
    assert_eq!((progress.attempts, progress.replaced, progress.reverted), (1, 0, 0));
    assert!(progress.fee_paid_wei > 0 && progress.submissions_left > 0);
    f.anvil.mine(2).await;
    relayer.step().await.unwrap();
    assert_eq!(relayer.progress.finalized, 3);
    // Blocks that only are closed stay here.
    f.chain.close(2);
    relayer.step().await.unwrap();
    f.chain.certify();
    relayer.step().await.unwrap();
    f.check(5).await;
    assert_eq!(f.nonce("relayer").await, 2);
}

#[tokio::test]
async fn eleven_hundred_roots_are_caught_up_in_three_steps() {
    let f = Fixture::new().await;
    let mut relayer = f.relayer().await;
    f.chain.close(1_100);
    f.chain.certify();
    for (transactions, last) in [(1, 512), (2, 1_024), (3, 1_100)] {
        relayer.step().await.unwrap();
        f.check(last).await;
        assert_eq!(f.nonce("relayer").await, transactions);
    }
    relayer.step().await.unwrap();
    assert_eq!((f.nonce("relayer").await, relayer.progress.attempts), (3, 3));
}

#[tokio::test]
async fn the_child_chain_is_read_from_its_node() {
    let f = Fixture::new().await;
    f.chain.close(600);
    f.chain.certify();
    let url = serve_node(f.chain.clone()).await;
    let node = NodeClient::new(&url, Duration::from_secs(60)).unwrap();
    let sender = f.anvil.sender("relayer").await;
    let journal = f.journal("relayer");
    let mut relayer = Relayer::new(node, f.contract.clone(), sender, &journal, PATIENT);
    for last in [512, 600] {
        relayer.step().await.unwrap();
        f.check(last).await;
    }
    relayer.step().await.unwrap();
    assert_eq!((relayer.progress.certified, relayer.progress.attempts), (600, 2));
}

#[tokio::test]
async fn a_restarted_relayer_goes_on_from_the_contract() {
    let f = Fixture::new().await;
    f.chain.close(2);
    f.chain.certify();
    f.relayer().await.step().await.unwrap();
    f.check(2).await;
    f.chain.close(2);
    f.chain.certify();
    // Without the journal too.
    std::fs::remove_file(f.journal("relayer")).unwrap();
    f.relayer().await.step().await.unwrap();
    f.check(4).await;
    // A journal that is ahead of the chain, as after a reorganisation or of another Ethereum.
    let ahead = Attempt {
        nonce: 50,
        hash: plasma_core::B256::repeat_byte(5),
        first: 90,
        last: 99,
        max_fee_wei: u128::MAX,
        tip_wei: u128::MAX,
    };
    Journal::new(&f.journal("relayer")).record(&ahead).unwrap();
    f.chain.close(2);
    f.chain.certify();
    f.relayer().await.step().await.unwrap();
    f.check(6).await;
    assert_eq!(f.nonce("relayer").await, 3);
}

#[tokio::test]
async fn a_reorganised_submission_is_sent_again() {
    let f = Fixture::new().await;
    let mut relayer = f.relayer().await;
    f.chain.close(4);
    f.chain.certify();
    relayer.step().await.unwrap();
    f.check(4).await;
    relayer.step().await.unwrap();
    assert_eq!(relayer.progress.latest, 4);
    f.anvil.roll_back(1).await;
    assert_eq!(f.last().await, 0);
    relayer.step().await.unwrap();
    f.check(4).await;
    assert_eq!((relayer.progress.reorgs, relayer.progress.attempts), (1, 2));
    // The same while it is restarted.
    f.anvil.roll_back(1).await;
    f.relayer().await.step().await.unwrap();
    f.check(4).await;
}

#[tokio::test]
async fn the_loser_of_a_race_goes_on() {
    let f = Fixture::new().await;
    let mut relayers = Vec::new();
    for name in ["relayer", "bob", "carol"] {
        relayers.push(f.relayer_at(f.anvil.ethereum(), name, PATIENT).await);
    }
    f.chain.close(3);
    f.chain.certify();
    f.anvil.automine(false).await;
    for relayer in &mut relayers {
        relayer.step().await.unwrap();
    }
    f.anvil.mine(1).await;
    f.check(3).await;
    let mut reverted = 0;
    for relayer in &mut relayers {
        relayer.step().await.unwrap();
        reverted += relayer.progress.reverted;
    }
    assert_eq!(reverted, 2);
    f.anvil.automine(true).await;
    f.chain.close(3);
    f.chain.certify();
    for relayer in &mut relayers {
        relayer.step().await.unwrap();
        f.check(6).await;
    }
    let total: u64 = relayers.iter().map(|relayer| relayer.progress.attempts).sum();
    assert_eq!(total, 4);
}

#[tokio::test]
async fn ethereum_is_away_while_the_child_chain_goes_on() {
    let mut f = Fixture::new().await;
    f.chain.close(2);
    f.chain.certify();
    let task = tokio::spawn(f.relayer().await.run());
    f.check(2).await;
    f.anvil.stop();
    f.chain.close(700);
    f.chain.certify();
    f.anvil.resume();
    f.check(702).await;
    task.abort();
}
