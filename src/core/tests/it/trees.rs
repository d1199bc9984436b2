//! Properties of the tree and its proofs against the naive reference.

use plasma_core::archive::{BlockTree, Job};
use plasma_core::smt::{Leaf, Proof, ProofError, Verified, hash_leaves, prove, root_of};
use plasma_core::wire::WireError;
use plasma_core::{B256, CoinId};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use std::collections::BTreeSet;

use crate::reference::{self, RawProof};
use crate::samples::{self, leaf};

/// Sets of up to `most` ids: random, close together, or alike in many low bits.
pub fn coins(most: usize) -> impl Strategy<Value = BTreeSet<CoinId>> {
    let high_bits = (0..64u32, any::<u64>(), btree_set(any::<u64>(), 1..=most));
    prop_oneof![
        btree_set(any::<u64>(), 0..=most),
        btree_set(0..2 * most as u64, 0..=most),
        (any::<u64>(), 0..=most as u64)
            .prop_map(|(first, count)| (0..count).map(|i| first.wrapping_add(i)).collect()),
        high_bits.prop_map(|(bits, base, ids)| {
            let low = (1u64 << bits) - 1;
            ids.into_iter().map(|id| (base & low) | (id & !low)).collect()
        }),
        (0..58u32, btree_set(0..64u64, 1..=40), btree_set(any::<u64>(), 0..=most)).prop_map(
            |(bits, crafted, mut ids)| {
                ids.extend(crafted.into_iter().map(|id| id << bits));
                ids
            }
        ),
    ]
}

fn sorted(coins: &BTreeSet<CoinId>) -> Vec<Leaf> {
    let mut leaves = samples::leaves(coins.iter().copied());
    leaves.sort_by_key(Leaf::path);
    leaves
}

/// Some present coins, and absent ones beside them and anywhere.
pub fn asked(coins: &BTreeSet<CoinId>, each: usize, seed: u64) -> Vec<CoinId> {
    let step = (coins.len() / each).max(1);
    let mut asked: Vec<CoinId> = coins.iter().copied().step_by(step).collect();
    for (coin, i) in asked.clone().into_iter().zip(seed..) {
        asked.extend([coin ^ 1 << (i % 64), coin ^ 1 << (i / 64 % 64), coin.wrapping_add(1)]);
    }
    asked.extend([0, 1, 1 << 63, u64::MAX, seed]);
    asked
}

fn transfer_in(coins: &BTreeSet<CoinId>, coin: CoinId) -> Option<B256> {
    coins.contains(&coin).then(|| leaf(coin).hash)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn proofs_are_the_references_and_verify(coins in coins(200), seed in any::<u64>()) {
        let leaves = sorted(&coins);
        let root = reference::root(&leaves, 0);
        prop_assert_eq!(root_of(&leaves), root);
        for coin in asked(&coins, 6, seed) {
            let proof = prove(&leaves, coin);
            let bytes = proof.encode();
            prop_assert_eq!(&bytes, &reference::proof(&leaves, coin).encode());
            prop_assert_eq!(Proof::decode(&bytes).unwrap(), proof.clone());
            let transfer = transfer_in(&coins, coin);
            let expected = transfer.map_or(Verified::Excluded, |_| Verified::Included);
            prop_assert_eq!(proof.verify(root, coin, transfer), Ok(expected));
            // Never both: the same proof shows nothing of the other kind.
            let opposite = if transfer.is_some() { None } else { Some(leaf(coin).hash) };
            prop_assert_eq!(proof.verify(root, coin, opposite), Err(ProofError::Kind));
        }
    }

    #[test]
    fn any_single_mutation_fails(coins in coins(60), seed in any::<u64>()) {
        let leaves = sorted(&coins);
        let root = reference::root(&leaves, 0);
        let all = asked(&coins, 3, seed);
        for i in [0, 1, 2] {
            let coin = all[(seed as usize).wrapping_add(i * 7) % all.len()];
            let transfer = transfer_in(&coins, coin);
            let proof = prove(&leaves, coin);
            mutate_proof(&proof.encode(), root, coin, transfer)?;
            mutate_statement(&proof, &coins, root, coin)?;
        }
    }

    /// No proof that is made of a tree's own nodes shows what is not so, about any coin.
    #[test]
    fn shown_is_true(
        coins in coins(40),
        depth in 0..66u8,
        bitmap in any::<u64>(),
        sparse in any::<u64>(),
        picks in vec(any::<prop::sample::Index>(), 64),
        seed in any::<u64>(),
    ) {
        let leaves = sorted(&coins);
        let root = reference::root(&leaves, 0);
        let asked = asked(&coins, 8, seed);
        let proofs: Vec<Proof> = asked.iter().map(|coin| prove(&leaves, *coin)).collect();
        let nodes: Vec<B256> = leaves
            .iter()
            .map(Leaf::node)
            .chain(asked.iter().flat_map(|c| reference::proof(&leaves, *c).siblings))
            .chain([root, B256::ZERO])
            .collect();
        let bitmap = bitmap & sparse & 1u64.checked_shl(depth.into()).map_or(u64::MAX, |b| b - 1);
        let siblings = picks[..bitmap.count_ones() as usize].iter().map(|p| *p.get(&nodes));
        let siblings: Vec<B256> = siblings.collect();
        let terminals = leaves.iter().take(4).map(|l| reference::other(*l));
        let crafted = terminals.chain([vec![0], vec![1]]).filter_map(|terminal| {
            let siblings = siblings.clone();
            Proof::decode(&RawProof { depth, bitmap, siblings, terminal }.encode()).ok()
        });
        for proof in proofs.into_iter().chain(crafted) {
            for coin in &asked {
                if proof.verify(root, *coin, None).is_ok() {
                    prop_assert!(!coins.contains(coin));
                }
                if proof.verify(root, *coin, Some(leaf(*coin).hash)).is_ok() {
                    prop_assert!(coins.contains(coin));
                }
            }
        }
    }

    #[test]
    fn parts_make_the_same_tree(coins in coins(300)) {
        let leaves = sorted(&coins);
        let whole = BlockTree::build_serial(leaves.clone());
        prop_assert_eq!(whole.root(), reference::root(&leaves, 0));
        for top in 0..=5u8 {
            let mut unsorted = leaves.clone();
            unsorted.reverse();
            let parts = BlockTree::build(unsorted, top, |jobs| {
                assert_eq!(jobs.len(), 1 << top);
                jobs.iter().map(Job::run).collect()
            });
            prop_assert!(parts == whole, "top {top}");
        }
    }

    #[test]
    fn levels_are_the_subtrees_of_a_depth(coins in coins(150), depths in btree_set(0..64u8, 1..4)) {
        let leaves = sorted(&coins);
        let depths: Vec<u8> = depths.into_iter().collect();
        let hashed = hash_leaves(&leaves, 0, &depths);
        for (depth, level) in depths.iter().zip(&hashed.levels) {
            let mask = (1u64 << depth) - 1;
            let groups: Vec<&[Leaf]> =
                leaves.chunk_by(|a, b| a.coin & mask == b.coin & mask).collect();
            prop_assert_eq!(level.len(), groups.len());
            let mut start = 0;
            for (entry, group) in level.iter().zip(groups) {
                prop_assert_eq!(entry.start, start);
                prop_assert_eq!(entry.hash, reference::root(group, (*depth).into()));
                start += group.len() as u64;
            }
        }
    }

    #[test]
    fn arbitrary_bytes_are_no_proof_or_one_encoding(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(proof) = Proof::decode(&bytes) {
            prop_assert_eq!(proof.encode(), bytes);
        }
    }
}

/// Every flipped bit, every cut and a longer proof show nothing, of either kind.
fn mutate_proof(
    bytes: &[u8],
    root: B256,
    coin: CoinId,
    transfer: Option<B256>,
) -> Result<(), TestCaseError> {
    let shows = |bytes: &[u8], transfer| {
        Proof::decode(bytes).and_then(|proof| proof.verify(root, coin, transfer)).is_ok()
    };
    prop_assert!(shows(bytes, transfer));
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!shows(&flipped, transfer), "bit {bit}");
        let opposite = if transfer.is_some() { None } else { Some(leaf(coin).hash) };
        prop_assert!(!shows(&flipped, opposite), "bit {bit}, other kind");
    }
    for len in 0..bytes.len() {
        prop_assert!(Proof::decode(&bytes[..len]).is_err(), "cut to {len}");
    }
    let extra = ProofError::Wire(WireError::Trailing { extra: 1 });
    prop_assert_eq!(Proof::decode(&[bytes, &[0]].concat()), Err(extra));
    Ok(())
}

/// A changed root or transfer fails; a changed coin fails unless it is truly absent as well, on
/// the same path.
fn mutate_statement(
    proof: &Proof,
    coins: &BTreeSet<CoinId>,
    root: B256,
    coin: CoinId,
) -> Result<(), TestCaseError> {
    let transfer = transfer_in(coins, coin);
    for bit in 0..256 {
        let flip = |mut hash: B256| {
            hash.0[bit / 8] ^= 1 << (bit % 8);
            hash
        };
        prop_assert!(proof.verify(flip(root), coin, transfer).is_err());
        if let Some(hash) = transfer {
            prop_assert!(proof.verify(root, coin, Some(flip(hash))).is_err());
        }
    }
    for bit in 0..64 {
        let other = coin ^ 1 << bit;
        let shown = proof.verify(root, other, transfer);
        if transfer.is_some() || bit < u32::from(proof.encode()[0]) {
            prop_assert!(shown.is_err(), "bit {bit} of the coin");
        } else {
            prop_assert_eq!(shown.is_ok(), !coins.contains(&other));
        }
    }
    Ok(())
}

#[test]
fn the_smallest_trees() {
    assert_eq!(root_of(&[]), B256::ZERO);
    assert_eq!(prove(&[], 7).encode(), [&[0u8; 9][..], &[1]].concat());
    let one = leaf(7);
    assert_eq!(root_of(&[one]), one.node());
    assert_eq!(prove(&[one], 7).encode(), [0u8; 10]);
    assert_eq!(prove(&[one], 8).encode(), [&[0u8; 9][..], &reference::other(one)].concat());
}

#[test]
fn ten_thousand_coins() {
    let coins: BTreeSet<CoinId> =
        samples::random_ids(5_000).into_iter().chain((1..=5_000).map(|i| i << 13)).collect();
    let leaves = sorted(&coins);
    assert_eq!(leaves.len(), 10_000);
    let root = reference::root(&leaves, 0);
    let tree = BlockTree::build_serial(leaves.clone());
    assert_eq!(tree.root(), root);
    assert_eq!(tree.leaves(), leaves);
    for coin in asked(&coins, 2, 99) {
        let transfer = transfer_in(&coins, coin);
        assert!(prove(&leaves, coin).verify(root, coin, transfer).is_ok());
    }
}
