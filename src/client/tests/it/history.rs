//! What a receiver must notice in a coin's history.

use plasma_client::history::{HistoryError, Verified, verify};
use plasma_client::history_file::{FileError, HistoryFile};
use plasma_client::queries::CoinProof;
use plasma_core::coin::CoinState;
use plasma_core::smt::ProofError;
use plasma_core::transfer::ChildError;
use plasma_core::{Address, B256};

use crate::chain::{COIN, Chain, DEPOSIT_BLOCK, address, domain, good, pay, start};
use crate::responder::Node;

fn file(chain: &Chain) -> HistoryFile {
    let proofs = chain.proofs.values().cloned().collect();
    HistoryFile { domain: domain(), coin: COIN, after: DEPOSIT_BLOCK, proofs }
}

fn check(chain: &Chain) -> Result<Verified, HistoryError> {
    let from = Verified::deposit(start());
    file(chain).verify(from, chain.newest(), &domain(), |n| chain.root(n))
}

/// The state after a transfer that alice signs over to bob in block 3.
fn after_first(chain: &mut Chain) -> CoinState {
    let transfer = pay(&start(), "alice", "bob", 10);
    let block = chain.block(Some(transfer));
    transfer.child_of(&start(), block, &domain()).unwrap()
}

#[test]
fn a_good_history_ends_in_the_last_owner() {
    let (chain, state) = good();
    let verified = check(&chain).unwrap();
    assert_eq!(verified, Verified { checked: 6, state, moved: vec![4, 6] });
    assert_eq!(verified.state.owner, address("carol"));
}

#[test]
fn a_verified_state_is_continued() {
    let (mut chain, _) = good();
    let half = file(&chain).verify(Verified::deposit(start()), 4, &domain(), |n| chain.root(n));
    let half = half.unwrap();
    assert_eq!((half.checked, half.state.owner), (4, address("bob")));
    // What was verified is not looked at again.
    chain.proofs.get_mut(&3).unwrap().transfer = chain.proofs[&4].transfer;
    let whole = file(&chain).verify(half, 6, &domain(), |n| chain.root(n)).unwrap();
    assert_eq!((whole.state.owner, whole.moved), (address("carol"), vec![4, 6]));
}

#[test]
fn every_missing_block_and_root_is_named() {
    for missing in 3..=6 {
        let (chain, _) = good();
        let mut short = file(&chain);
        short.proofs.truncate((missing - 3) as usize);
        let found = short.verify(Verified::deposit(start()), 6, &domain(), |n| chain.root(n));
        assert!(matches!(found, Err(HistoryError::Missing(n)) if n == missing), "{found:?}");
        let root = |n| chain.root(n).filter(|_| n != missing);
        let found = file(&chain).verify(Verified::deposit(start()), 6, &domain(), root);
        assert!(matches!(found, Err(HistoryError::NoRoot(n)) if n == missing), "{found:?}");
    }
}

#[test]
fn a_wrong_root_is_named() {
    for wrong in 3..=6 {
        let (mut chain, _) = good();
        chain.roots.insert(wrong, B256::repeat_byte(9));
        let found = check(&chain);
        let expected = B256::repeat_byte(9);
        assert!(
            matches!(found, Err(HistoryError::Proof {
                block, source: ProofError::Root { expected: root, .. }
            }) if block == wrong && root == expected),
            "{found:?}"
        );
    }
}

#[test]
fn a_hidden_transfer_is_found() {
    // The node says of block 4, in which the coin moved, that it did not move.
    let (mut chain, _) = good();
    chain.proofs.get_mut(&4).unwrap().transfer = None;
    let found = check(&chain);
    assert!(
        matches!(found, Err(HistoryError::Proof { block: 4, source: ProofError::Kind })),
        "{found:?}"
    );
    // And that by another block's proof of exclusion.
    chain.proofs.insert(4, chain.proofs[&5].clone());
    let found = check(&chain);
    assert!(
        matches!(found, Err(HistoryError::Proof { block: 4, source: ProofError::Root { .. } })),
        "{found:?}"
    );
}

#[test]
fn every_tampered_byte_is_noticed() {
    let (chain, _) = good();
    let bytes = chain.proofs[&4].encode();
    for at in 0..bytes.len() {
        let mut tampered = bytes.clone();
        tampered[at] ^= 1;
        let Ok(shown) = CoinProof::decode(&tampered) else { continue };
        let mut verified = Verified { checked: 3, ..Verified::deposit(start()) };
        let before = verified.clone();
        let found = verified.extend(chain.root(4), &shown, &domain());
        assert!(found.is_err(), "byte {at}");
        assert_eq!(verified, before, "byte {at}: a refused block changed the state");
    }
}

#[test]
fn garbage_is_refused_at_its_block() {
    let mallory = pay(&start(), "mallory", "mallory", 10);
    let mut elsewhere = start();
    elsewhere.hash = B256::repeat_byte(1);
    let unknown_parent = pay(&elsewhere, "alice", "mallory", 10);
    let mut other_coin = start();
    other_coin.coin = COIN + 1;
    let other_coin = pay(&other_coin, "alice", "bob", 10);
    let expired = pay(&start(), "alice", "bob", 2);
    let mut burnt = pay(&start(), "alice", "bob", 10);
    burnt.transfer.new_owner = Address::ZERO;
    for (transfer, expected) in [
        (mallory, ChildError::BadSignature),
        (unknown_parent, ChildError::NotChild),
        (other_coin, ChildError::WrongCoin { expected: COIN, found: COIN + 1 }),
        (expired, ChildError::Expired { block: 3, max_block: 2 }),
        (burnt, ChildError::NotChild),
    ] {
        let mut chain = Chain::default();
        chain.block(Some(transfer));
        match check(&chain) {
            Err(HistoryError::Garbage { block: 3, source }) => assert_eq!(source, expected),
            other => panic!("{other:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn a_replayed_transfer_is_garbage() {
    let mut chain = Chain::default();
    let state = after_first(&mut chain);
    // Bob pays alice, so that she owns the coin again; the first transfer must not count twice.
    let back = pay(&state, "bob", "alice", 10);
    chain.block(Some(back));
    chain.block(chain.proofs[&3].transfer);
    let found = check(&chain);
    assert!(
        matches!(found, Err(HistoryError::Garbage { block: 5, source: ChildError::NotChild })),
        "{found:?}"
    );
}

#[test]
fn a_foreign_chain_proves_nothing() {
    let (chain, _) = good();
    let foreign = plasma_core::domain::Domain::new(1, domain().root_chain);
    let found = file(&chain).verify(Verified::deposit(start()), 6, &foreign, |n| chain.root(n));
    assert!(matches!(found, Err(HistoryError::Proof { block: 4, .. })), "{found:?}");
}

#[tokio::test]
async fn a_node_is_asked_for_every_block() {
    let (chain, state) = good();
    let proofs = chain.proofs.clone();
    let node = Node::queries(move |path, _| {
        let block = path.strip_prefix("/coin/7/proof/").unwrap().parse().unwrap();
        match proofs.get(&block) {
            Some(proof) => (0, Vec::new(), proof.encode()),
            None => (2, Vec::new(), Vec::new()),
        }
    })
    .await;
    let client = node.client();
    let from = Verified::deposit(start());
    let verified = verify(&client, from.clone(), 6, &domain(), |n| chain.root(n)).await.unwrap();
    assert_eq!((verified.checked, verified.state), (6, state));
    let found = verify(&client, from, 7, &domain(), |_| Some(B256::ZERO)).await;
    assert!(matches!(found, Err(HistoryError::Proof { block: 3, .. })), "{found:?}");
    let found = verify(&client, verified, 7, &domain(), |n| chain.root(n)).await;
    assert!(matches!(found, Err(HistoryError::Missing(7))), "{found:?}");
}

#[tokio::test]
async fn an_answer_that_is_no_proof_names_its_block() {
    let (chain, _) = good();
    let proofs = chain.proofs.clone();
    let node = Node::queries(move |path, _| {
        match path.strip_prefix("/coin/7/proof/").unwrap().parse().unwrap() {
            4 => (0, Vec::new(), b"garbage".to_vec()),
            block => (0, Vec::new(), proofs[&block].encode()),
        }
    })
    .await;
    let client = node.client();
    let from = Verified::deposit(start());
    let found = verify(&client, from.clone(), 6, &domain(), |n| chain.root(n)).await;
    assert!(matches!(found, Err(HistoryError::Malformed { block: 4, .. })), "{found:?}");
    let found = HistoryFile::fetch(&client, domain(), COIN, DEPOSIT_BLOCK, 6).await;
    assert!(matches!(found, Err(HistoryError::Malformed { block: 4, .. })), "{found:?}");
    drop(node);
    let nobody =
        plasma_client::rpc::NodeClient::new("http://127.0.0.1:1", crate::responder::DEADLINE);
    let found = verify(&nobody.unwrap(), from, 6, &domain(), |n| chain.root(n)).await;
    assert!(matches!(found, Err(HistoryError::Rpc(_))), "{found:?}");
}

#[tokio::test]
async fn a_fetched_file_is_the_nodes_answers() {
    let (chain, state) = good();
    let proofs = chain.proofs.clone();
    let node = Node::queries(move |path, _| {
        let block = path.strip_prefix("/coin/7/proof/").unwrap().parse().unwrap();
        match proofs.get(&block) {
            Some(proof) => (0, Vec::new(), proof.encode()),
            None => (2, Vec::new(), Vec::new()),
        }
    })
    .await;
    let fetched = HistoryFile::fetch(&node.client(), domain(), COIN, DEPOSIT_BLOCK, 6).await;
    let fetched = fetched.unwrap();
    assert_eq!(fetched, file(&chain));
    let found = fetched.verify(Verified::deposit(start()), 6, &domain(), |n| chain.root(n));
    assert_eq!(found.unwrap().state, state);
    let found = HistoryFile::fetch(&node.client(), domain(), COIN, DEPOSIT_BLOCK, 7).await;
    assert!(matches!(found, Err(HistoryError::Missing(7))), "{found:?}");
    let none = HistoryFile::fetch(&node.client(), domain(), COIN, u64::MAX, 6).await.unwrap();
    assert_eq!(none.proofs, []);
}

#[test]
fn there_is_no_block_above_the_last_number() {
    let (chain, _) = good();
    let mut verified = Verified { checked: u64::MAX, ..Verified::deposit(start()) };
    let found = verified.extend(chain.root(u64::MAX), &chain.proofs[&3], &domain());
    assert!(matches!(found, Err(HistoryError::NoRoot(u64::MAX))), "{found:?}");
}

#[test]
fn files_round_trip_and_refuse_damage() {
    let (chain, _) = good();
    let whole = file(&chain);
    let text = whole.to_json();
    assert_eq!(HistoryFile::from_json(text.as_bytes()).unwrap(), whole);
    for (from, to, field) in [
        ("plasma-history/1", "plasma-history/2", "format"),
        ("\"coin\": 7", "\"coin\": \"7\"", "coin"),
        ("\"coin\": 7", "\"coin\": -7", "coin"),
        ("\"after\"", "\"behind\"", "after"),
        ("\"root_chain\": \"0x", "\"root_chain\": \"0xzz", "root_chain"),
        ("\"proofs\"", "\"proof\"", "proofs"),
    ] {
        let damaged = text.replacen(from, to, 1);
        assert_ne!(damaged, text, "{from} is not in the file");
        match HistoryFile::from_json(damaged.as_bytes()) {
            Err(FileError::Field(found)) => assert_eq!(found, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    let damaged = text.replacen(&hex::encode(whole.proofs[1].encode()), "0200", 1);
    let found = HistoryFile::from_json(damaged.as_bytes());
    assert!(matches!(found, Err(FileError::Proof { block: 4, .. })), "{found:?}");
    assert!(matches!(HistoryFile::from_json(b"{"), Err(FileError::Json(_))));
}

#[test]
fn a_file_far_away_or_of_another_coin_misses_the_block() {
    let (chain, _) = good();
    let from = Verified::deposit(start());
    let mut far = file(&chain);
    far.after = u64::MAX;
    let text = far.to_json();
    let far = HistoryFile::from_json(text.as_bytes()).unwrap();
    let found = far.verify(from.clone(), 6, &domain(), |n| chain.root(n));
    assert!(matches!(found, Err(HistoryError::Missing(3))), "{found:?}");
    let mut other = file(&chain);
    other.coin = 8;
    let found = other.verify(from, 6, &domain(), |n| chain.root(n));
    assert!(matches!(found, Err(HistoryError::OtherCoin { expected: 7, found: 8 })), "{found:?}");
}
