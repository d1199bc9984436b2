//! Proofs served from the archive file, whole and damaged.

use std::collections::BTreeSet;

use plasma_core::archive::{ArchiveError, BlockTree, leaves, prove};
use plasma_core::smt::{self, Proof};
use plasma_core::{B256, CoinId};
use proptest::prelude::*;

use crate::samples::{self, leaf};
use crate::trees::{asked, coins};

const NUMBER: u64 = 12;
/// 64 entries of 48 bytes, or fewer bytes of leaves.
const READ_MAX: usize = 3_072;

#[derive(Debug, PartialEq)]
struct PastEnd;

/// Reads like a file: nothing past its end.
fn read(file: &[u8]) -> impl FnMut(u64, usize) -> Result<Vec<u8>, PastEnd> + '_ {
    |offset, length| {
        let end = offset.checked_add(length as u64).ok_or(PastEnd)?;
        file.get(offset as usize..end as usize).map(<[u8]>::to_vec).ok_or(PastEnd)
    }
}

fn proof(file: &[u8], coin: CoinId) -> Result<Proof, ArchiveError<PastEnd>> {
    let mut read = read(file);
    prove(NUMBER, coin, |offset, length| {
        assert!(length <= READ_MAX, "a read of {length} bytes");
        read(offset, length)
    })
}

/// Every asked coin's proof from the file is the tree's.
fn check(coins: &BTreeSet<CoinId>, each: usize) {
    let tree = BlockTree::build_serial(samples::leaves(coins.iter().copied()));
    let file = tree.encode(NUMBER);
    for coin in asked(coins, each, 5) {
        let served = proof(&file, coin).unwrap();
        assert_eq!(served, smt::prove(tree.leaves(), coin), "coin {coin} of {}", coins.len());
    }
    for coin in coins {
        let served = proof(&file, *coin).unwrap();
        assert!(served.verify(tree.root(), *coin, Some(leaf(*coin).hash)).is_ok(), "coin {coin}");
    }
    assert_eq!(leaves(read(&file)).unwrap(), tree.leaves());
}

#[test]
fn around_the_size_of_a_bucket() {
    for count in [0, 1, 2, 63, 64, 65, 128, 129] {
        check(&(1..=count).collect(), 200);
        check(&(1..=count).map(|i| i << 20).collect(), 200);
        check(&samples::random_ids(count).into_iter().collect(), 200);
    }
}

#[test]
fn around_two_levels() {
    for count in [4_095, 4_096, 4_097] {
        check(&(1..=count).collect(), 3);
    }
    check(&samples::random_ids(5_000).into_iter().collect(), 3);
    // Groups of more than 64 leaves below depth 54, beside lone leaves at every level.
    check(&(1..=200).map(|i| i << 54).chain(0..300).chain((0..64).map(|b| 1 << b)).collect(), 3);
    check(&(0..1_024).map(|i| i << 54 | 77).collect(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn any_coins(coins in coins(150)) {
        check(&coins, 8);
    }

    #[test]
    fn arbitrary_files(
        body in prop::collection::vec(any::<u8>(), 0..6_000),
        counts in prop::collection::vec(0..100u64, 11),
        coin in any::<u64>(),
    ) {
        let mut file = BlockTree::build_serial(Vec::new()).encode(NUMBER);
        for (i, count) in counts.iter().enumerate() {
            file[48 + i * 8..56 + i * 8].copy_from_slice(&count.to_le_bytes());
        }
        file.extend(body);
        let _ = proof(&file, coin);
    }
}

/// A damaged file yields an error, or a proof that fails, or one that holds all the same.
fn damaged(file: &[u8], root: B256, coins: &BTreeSet<CoinId>, asked: &[CoinId]) {
    for coin in asked {
        if let Ok(served) = proof(file, *coin) {
            let transfer = coins.contains(coin).then(|| leaf(*coin).hash);
            if served.verify(root, *coin, None).is_ok() {
                assert_eq!(transfer, None);
            }
        }
    }
    let bounded = |offset: u64, length: usize| read(file)(offset, length);
    if let Ok(all) = leaves(bounded) {
        assert!(all.len() * 40 <= file.len());
    }
}

#[test]
fn damaged_bytes() {
    // Two stored levels, then ten of them.
    for coins in [
        (1..=70).chain((1..=70).map(|i| i << 9)).collect::<BTreeSet<CoinId>>(),
        (0..70).map(|i| i << 54).collect(),
    ] {
        let tree = BlockTree::build_serial(samples::leaves(coins.iter().copied()));
        let file = tree.encode(NUMBER);
        let some: Vec<CoinId> = coins.iter().copied().step_by(40).chain([9 << 9 | 4]).collect();
        for at in (0..136).chain((136..file.len()).step_by(7)) {
            for value in [0, 0xff, file[at] ^ 1, file[at] ^ 0x80] {
                let mut bad = file.clone();
                bad[at] = value;
                damaged(&bad, tree.root(), &coins, &some);
            }
        }
        for len in (0..file.len()).step_by(29) {
            damaged(&file[..len], tree.root(), &coins, &some);
        }
    }
}

#[test]
fn a_changed_hash_is_noticed_by_the_verifier() {
    let coins: BTreeSet<CoinId> = (1..=100).collect();
    let tree = BlockTree::build_serial(samples::leaves(coins));
    let mut file = tree.encode(NUMBER);
    assert_ne!(proof(&file, 5).unwrap(), proof(&file, 6).unwrap());
    let last = file.len() - 1;
    file[last] ^= 1;
    let failing = (1..=100)
        .filter(|coin| {
            let served = proof(&file, *coin).unwrap();
            served.verify(tree.root(), *coin, Some(leaf(*coin).hash)).is_err()
        })
        .count();
    // Every coin outside the last group needs that group's hash.
    assert_eq!(failing, 99);
}

#[test]
fn files_that_are_refused() {
    let tree = BlockTree::build_serial(samples::leaves(1..=100));
    let file = tree.encode(NUMBER);
    let why = |file: &[u8]| match proof(file, 5) {
        Err(ArchiveError::Damaged(why)) => why,
        other => panic!("{other:?}"),
    };
    let changed = |at: usize, value: u8| {
        let mut bad = file.clone();
        bad[at] = value;
        bad
    };
    assert_eq!(why(&changed(0, 0)), "wrong magic");
    assert_eq!(why(&tree.encode(NUMBER + 1)), "the file is another block's");
    assert_eq!(why(&changed(56, 101)), "a level with more entries than leaves");
    assert_eq!(why(&changed(56, 0)), "a bucket has more than 64 leaves");
    assert!(matches!(proof(&file[..file.len() - 1], 5), Err(ArchiveError::Read(PastEnd))));
}

/// Ten stored levels whose last group still claims more leaves than ids can differ below it.
#[test]
fn the_last_level_bounds_a_bucket_too() {
    let coins: Vec<CoinId> = (0..70).map(|i| i << 54).collect();
    let mut file = BlockTree::build_serial(samples::leaves(coins)).encode(NUMBER);
    // Every stored level but one entry, the leaves many more than there are.
    file[48..56].copy_from_slice(&4_000_000_000u64.to_le_bytes());
    for level in 0..10 {
        file[56 + level * 8..64 + level * 8].copy_from_slice(&1u64.to_le_bytes());
    }
    assert!(proof(&file, 0).is_err());
    // The same with a real body: one entry a level that starts at leaf 0.
    let mut crafted = file[..136].to_vec();
    crafted[48..56].copy_from_slice(&70u64.to_le_bytes());
    crafted.extend_from_slice(&file[136..136 + 70 * 40]);
    crafted.resize(crafted.len() + 10 * 48, 0);
    assert!(matches!(
        proof(&crafted, 0),
        Err(ArchiveError::Damaged("a bucket has more than 64 leaves"))
    ));
}
