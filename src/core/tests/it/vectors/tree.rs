//! Leaves, roots, proofs of both kinds, proofs that must be refused, and the chain of roots.

use plasma_core::block::{block_root, chain_hash, chain_hash_genesis};
use plasma_core::smt::{Leaf, Proof, Verified, prove, root_of};
use plasma_core::{B256, CoinId};
use serde_json::{Value, json};

use super::{decimal, hash, hex};
use crate::reference::{self, RawProof, other};
use crate::samples::{self, leaf};

/// The sets of coins whose trees the vectors show.
fn sets() -> Vec<(&'static str, Vec<CoinId>)> {
    vec![
        ("one coin", vec![7]),
        ("two coins that part at depth 0", vec![1, 2]),
        ("two coins that part at depth 63", vec![5, 5 | 1 << 63]),
        ("three coins", vec![1, 2, 3]),
        ("multiples of 2^20", (1..=5).map(|i| i << 20).collect()),
        ("100 consecutive coins", (1..=100).collect()),
        ("100 random coins", samples::random_ids(100)),
    ]
}

pub fn tree() -> Value {
    let leaves: Vec<Value> = [0, 1, 258, u64::MAX]
        .iter()
        .map(|coin| {
            let leaf = leaf(*coin);
            json!({
                "coin": decimal(coin),
                "leaf": hash(leaf.node()),
                "transfer_hash": hash(leaf.hash),
            })
        })
        .collect();
    let nodes: Vec<Value> = [(0, 1), (1, 0), (2, 3)]
        .iter()
        .map(|(left, right)| {
            let side = |i| if i == 0 { B256::ZERO } else { samples::hash("side", i) };
            json!({
                "left": hash(side(*left)),
                "node": hash(reference::node(side(*left), side(*right))),
                "right": hash(side(*right)),
            })
        })
        .collect();
    let roots: Vec<Value> = sets()
        .iter()
        .map(|(name, coins)| {
            let leaves = samples::leaves(coins.clone());
            json!({
                "coins": coins.iter().map(decimal).collect::<Vec<_>>(),
                "name": name,
                "root": hash(block_root(root_of(&leaves))),
                "transfer_hashes": leaves.iter().map(|l| hash(l.hash)).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "leaves": leaves, "nodes": nodes, "roots": roots })
}

fn row(name: &str, root: B256, coin: CoinId, transfer: Option<B256>, proof: &[u8]) -> Value {
    json!({
        "coin": decimal(coin),
        "inclusion": transfer.is_some(),
        "name": name,
        "proof": hex(proof),
        "root": hash(root),
        "transfer_hash": hash(transfer.unwrap_or_default()),
    })
}

pub fn proofs() -> Value {
    let mut valid = Vec::new();
    for (name, coins) in sets() {
        let mut leaves = samples::leaves(coins.clone());
        leaves.sort_by_key(Leaf::path);
        let root = root_of(&leaves);
        let absent = [0, 4, 6, 1 << 63, coins[0] ^ 1, coins[0] ^ 1 << 40, u64::MAX];
        let mut asked: Vec<CoinId> = coins.iter().copied().step_by(9).collect();
        asked.extend(absent.iter().filter(|coin| !coins.contains(coin)));
        for coin in asked {
            let transfer = coins.contains(&coin).then(|| leaf(coin).hash);
            let proof = prove(&leaves, coin);
            let shown = proof.verify(root, coin, transfer).unwrap();
            assert_eq!(shown == Verified::Included, transfer.is_some());
            valid.push(row(name, root, coin, transfer, &proof.encode()));
        }
    }
    let invalid: Vec<Value> = invalid()
        .into_iter()
        .map(|(name, root, coin, transfer, proof)| {
            let shown = Proof::decode(&proof).and_then(|p| p.verify(root, coin, transfer));
            assert!(shown.is_err(), "{name} must be refused");
            row(name, root, coin, transfer, &proof)
        })
        .collect();
    json!({ "invalid": invalid, "valid": valid })
}

type Case = (&'static str, B256, CoinId, Option<B256>, Vec<u8>);

/// Where possible the root is the one that a verifier without the check would compute.
fn invalid() -> Vec<Case> {
    let mut cases = wrong_shapes();
    cases.extend(wrong_terminals());
    let leaves = samples::leaves(1..=100);
    let root = reference::root(&leaves, 0);
    let included = reference::proof(&leaves, 9).encode();
    let transfer = Some(leaf(9).hash);
    let cut = |by| included[..included.len() - by].to_vec();
    let longer = [&included[..], &[0]].concat();
    let swapped = {
        let mut raw = reference::proof(&leaves, 9);
        raw.siblings.swap(0, 1);
        raw.encode()
    };
    cases.extend([
        ("no bytes", root, 9, transfer, Vec::new()),
        ("terminal is missing", root, 9, transfer, cut(1)),
        ("a sibling is cut", root, 9, transfer, cut(2)),
        ("trailing byte", root, 9, transfer, longer),
        ("siblings swapped", root, 9, transfer, swapped),
        ("other transfer", root, 9, Some(leaf(8).hash), included.clone()),
        ("other coin", root, 73, transfer, included.clone()),
        ("other root", samples::hash("root", 0), 9, transfer, included.clone()),
        ("inclusion proof shown as exclusion", root, 9, None, included),
    ]);
    cases
}

fn wrong_shapes() -> Vec<Case> {
    let (own, sibling) = (leaf(2), samples::hash("side", 1));
    let (hash_of_own, transfer) = (reference::leaf(own), Some(own.hash));
    let two = reference::node(hash_of_own, sibling);
    let raw = |depth, bitmap, siblings: &[B256]| {
        RawProof { depth, bitmap, siblings: siblings.to_vec(), terminal: vec![0] }.encode()
    };
    // Coin 2 goes right at depth 1.
    let lone = reference::node(hash_of_own, B256::ZERO);
    let below = reference::node(reference::node(B256::ZERO, hash_of_own), sibling);
    let deepest = raw(65, 1 << 63 | 1, &[sibling, sibling]);
    vec![
        ("depth 65", two, 2, transfer, deepest),
        ("depth 255", two, 2, transfer, raw(255, 1, &[sibling])),
        ("bitmap bit at depth", two, 2, transfer, raw(1, 3, &[sibling, sibling])),
        ("bitmap bit at depth, sibling left out", two, 2, transfer, raw(1, 3, &[sibling])),
        ("bitmap bit 63 above depth", two, 2, transfer, raw(1, 1 | 1 << 63, &[sibling, sibling])),
        ("depth 0 with a bitmap bit", hash_of_own, 2, transfer, raw(0, 1, &[sibling])),
        ("lone leaf below an empty sibling", lone, 2, transfer, raw(1, 0, &[])),
        ("depth without bit depth - 1", below, 2, transfer, raw(2, 1, &[sibling])),
        ("zero sibling", lone, 2, transfer, raw(1, 1, &[B256::ZERO])),
    ]
}

fn wrong_terminals() -> Vec<Case> {
    let own = leaf(2);
    let sibling = samples::hash("side", 1);
    let two = reference::node(reference::leaf(own), sibling);
    let raw = |terminal| RawProof { depth: 1, bitmap: 1, siblings: vec![sibling], terminal };
    let alone = |terminal| RawProof { terminal, ..RawProof::default() };
    let odd = leaf(3);
    let beside = reference::node(reference::leaf(odd), sibling);
    let empty = reference::node(B256::ZERO, sibling);
    vec![
        ("own leaf shown as another", two, 2, None, raw(other(own)).encode()),
        (
            "own lone leaf shown as another",
            reference::leaf(own),
            2,
            None,
            alone(other(own)).encode(),
        ),
        ("other leaf is not on the path", beside, 2, None, raw(other(odd)).encode()),
        ("unknown terminal", empty, 2, None, raw(vec![3]).encode()),
        (
            "exclusion by an empty place shown as inclusion",
            empty,
            2,
            Some(B256::ZERO),
            raw(vec![1]).encode(),
        ),
        (
            "exclusion by another leaf shown as inclusion",
            two,
            4,
            Some(own.hash),
            raw(other(own)).encode(),
        ),
        ("other leaf's hash is cut", two, 4, None, raw(other(own)[..40].to_vec()).encode()),
    ]
}

pub fn chain() -> Value {
    let mut previous = chain_hash_genesis(&samples::domain());
    let blocks: Vec<Value> = (1..=5)
        .map(|number| {
            let root = samples::hash("root", number);
            previous = chain_hash(previous, number, root);
            json!({ "chain_hash": hash(previous), "number": decimal(number), "root": hash(root) })
        })
        .collect();
    json!({ "blocks": blocks })
}
