//! The pure tree and its proofs: a naive recursion as oracle, every mutation, every toy path.

use std::collections::BTreeMap;

use plasma_store::Commitment;
use plasma_store::commitment::{Anchor, Committed, Later, StateProof};
use plasma_store::hash::{Blake3, Domain, EMPTY, Hash, Hasher, Sha2};
use plasma_store::proof::{Proof, Terminal, prove, value_hash};
use plasma_store::range::{Range, path};
use plasma_store::tree::{DEPTH_MAX, Leaf, Path, bit, root};

fn value(i: u64) -> Hash {
    value_hash::<Blake3>(&i.to_le_bytes())
}

/// A path with these leading bits, the rest zero.
fn toy(bits: u16, length: u16) -> Path {
    let mut path = [0; 32];
    path[..2].copy_from_slice(&(bits << (16 - length)).to_be_bytes());
    path
}

/// Random paths of which the first `shared` bits agree.
fn paths(count: u64, shared: usize) -> Vec<Path> {
    let mut all: Vec<Path> = (0..count)
        .map(|i| {
            let mut path = Blake3::hash(Domain::Path, &[&i.to_le_bytes()]);
            for level in 0..shared {
                path[level / 8] &= !(1 << (7 - level % 8));
            }
            path
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn leaves(paths: &[Path]) -> Vec<Leaf> {
    (0..).zip(paths).map(|(i, path)| Leaf { path: *path, value: value(i) }).collect()
}

/// The definition, without the shortcuts of the crate: filter by bits, level by level.
fn naive(leaves: &[Leaf], level: usize) -> Hash {
    if leaves.len() == 1 {
        return Blake3::hash(Domain::Leaf, &[&leaves[0].path, &leaves[0].value]);
    }
    if leaves.is_empty() {
        return [0; 32];
    }
    let side = |right: bool| -> Vec<Leaf> {
        leaves.iter().filter(|leaf| bit(&leaf.path, level) == right).copied().collect()
    };
    let (left, right) = (naive(&side(false), level + 1), naive(&side(true), level + 1));
    Blake3::hash(Domain::Node, &[&left, &right])
}

#[test]
fn roots_equal_the_naive_recursion() {
    for count in 0..=200 {
        let leaves = leaves(&paths(count, 0));
        assert_eq!(root::<Blake3>(&leaves), naive(&leaves, 0), "{count} leaves");
    }
    for shared in 0..=255 {
        let leaves = leaves(&paths(5, shared));
        assert_eq!(root::<Blake3>(&leaves), naive(&leaves, 0), "{shared} shared bits");
        for leaf in &leaves {
            let proof = prove::<Blake3>(&leaves, &leaf.path);
            if proof.siblings.len() > DEPTH_MAX {
                assert!(proof.root::<Blake3>(&leaf.path, Some(leaf.value)).is_err());
                continue;
            }
            let bytes = proof.encode();
            assert!(Proof::decode(&bytes) == Ok((proof.clone(), &[][..])));
            assert_eq!(proof.root::<Blake3>(&leaf.path, Some(leaf.value)), Ok(naive(&leaves, 0)));
        }
    }
}

/// Every subset of some 12-bit paths, every path asked: exactly one of inclusion and exclusion
/// verifies, by a proof of its own and by no other path's.
#[test]
fn toy_paths_are_exhaustively_in_or_out() {
    let chosen = [0, 1, 2, 0x7ff, 0x800, 0x801, 0xc00, 0xfff].map(|bits| toy(bits, 12));
    for subset in 0u32..256 {
        let kept: Vec<Path> =
            (0..8).filter(|i| subset >> i & 1 == 1).map(|i| chosen[i as usize]).collect();
        let leaves = leaves(&kept);
        let root = root::<Blake3>(&leaves);
        for bits in (0..1 << 12).step_by(if subset % 16 == 15 { 1 } else { 5 }) {
            let path = toy(bits, 12);
            let proof = prove::<Blake3>(&leaves, &path);
            let leaf = leaves.iter().find(|leaf| leaf.path == path);
            let holds = |path: &Path, value| proof.root::<Blake3>(path, value) == Ok(root);
            assert!(holds(&path, leaf.map(|leaf| leaf.value)));
            match leaf {
                Some(leaf) => {
                    assert!(!holds(&path, None));
                    assert!(!holds(&path, Some(value(99))));
                    let other = chosen.iter().find(|other| **other != path).unwrap();
                    assert!(!holds(other, Some(leaf.value)));
                }
                None => assert!(!holds(&path, Some(value(0)))),
            }
        }
    }
}

/// A proof that one leaf of `count` has its value, at a version before the newest.
fn state_proof(count: u64) -> (StateProof, Commitment, Path, Vec<u8>) {
    let stored: BTreeMap<Path, u64> =
        paths(count, 0).into_iter().enumerate().map(|(i, path)| (path, i as u64)).collect();
    let leaves: Vec<Leaf> =
        stored.iter().map(|(path, i)| Leaf { path: *path, value: value(*i) }).collect();
    let (path, number) = stored.iter().nth(count as usize / 2).unwrap();
    let earlier = [Hash::from([1; 32]), [2; 32], [3; 32], [4; 32], [5; 32]];
    let mut range = Range::default();
    for commitment in &earlier[..3] {
        range.push::<Blake3>(*commitment);
    }
    let tree_root = root::<Blake3>(&leaves);
    let at = Committed { version: 30, earlier: 3, root: tree_root, range: range.root::<Blake3>() };
    let all: Vec<Hash> =
        earlier[..3].iter().copied().chain([at.commitment::<Blake3>().0, earlier[4]]).collect();
    for commitment in &all[3..] {
        range.push::<Blake3>(*commitment);
    }
    let join = |l: Hash, r: Hash| Blake3::hash(Domain::Range, &[&l, &r]);
    let perfect = |level, i: u64| {
        let start = (i << level) as usize;
        Ok::<Hash, ()>(match level {
            0 => all[start],
            1 => join(all[start], all[start + 1]),
            _ => join(join(all[0], all[1]), join(all[2], all[3])),
        })
    };
    let siblings = path_of(3, 5, perfect);
    let newest =
        Committed { version: 50, earlier: 5, root: [9; 32], range: range.root::<Blake3>() };
    let proof = StateProof {
        tree: prove::<Blake3>(&leaves, path),
        anchor: Anchor {
            at,
            later: Some(Later { siblings, version: 50, earlier: 5, root: [9; 32] }),
        },
    };
    (proof, newest.commitment::<Blake3>(), *path, number.to_le_bytes().to_vec())
}

fn path_of(index: u64, count: u64, perfect: impl FnMut(u32, u64) -> Result<Hash, ()>) -> Vec<Hash> {
    path::<Blake3, ()>(index, count, perfect).unwrap()
}

fn holds(bytes: &[u8], commitment: Commitment, path: &Path, value: Option<&[u8]>) -> bool {
    StateProof::decode(bytes)
        .is_ok_and(|proof| proof.verify::<Blake3>(commitment, path, value) == Ok(30))
}

#[test]
fn every_mutation_of_a_proof_is_refused() {
    for count in [1, 2, 3, 40] {
        let (proof, commitment, path, value) = state_proof(count);
        let bytes = proof.encode();
        assert!(holds(&bytes, commitment, &path, Some(&value)));
        assert!(!holds(&bytes, commitment, &path, None));
        assert!(!holds(&bytes, commitment, &path, Some(b"other")));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(!holds(&flipped, commitment, &path, Some(&value)), "bit {bit} of {at}");
            }
            let cut = [&bytes[..at], &bytes[at + 1..]].concat();
            assert!(!holds(&cut, commitment, &path, Some(&value)), "without byte {at}");
            assert!(!holds(&bytes[..at], commitment, &path, Some(&value)), "the first {at}");
            let longer = [&bytes[..at], &[0], &bytes[at..]].concat();
            assert!(!holds(&longer, commitment, &path, Some(&value)), "a byte before {at}");
        }
        assert!(!holds(&[&bytes[..], &[0]].concat(), commitment, &path, Some(&value)));
        for bit in 0..256 {
            let mut other = path;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!holds(&bytes, commitment, &other, Some(&value)), "bit {bit} of the path");
        }
        let mut swapped = proof.clone();
        if swapped.tree.siblings.len() > 1 {
            swapped.tree.siblings.swap(0, 1);
            assert!(!holds(&swapped.encode(), commitment, &path, Some(&value)));
        }
        let mut deeper = proof;
        deeper.tree.siblings.push([7; 32]);
        assert!(!holds(&deeper.encode(), commitment, &path, Some(&value)));
        let sha = StateProof::decode(&bytes).unwrap();
        assert!(sha.verify::<Sha2>(commitment, &path, Some(&value)).is_err());
    }
}

#[test]
fn only_one_encoding_of_a_proof_is_read() {
    let empty_last = Proof { siblings: vec![[1; 32], EMPTY], terminal: Terminal::Empty };
    assert!(Proof::decode(&empty_last.encode()).is_err());
    let spare = [1, 1, 0b1100_0000].into_iter().chain([1; 32]).chain([0]).collect::<Vec<u8>>();
    assert!(Proof::decode(&spare).is_err());
    let zero = [1, 1, 0b1000_0000].into_iter().chain([0; 32]).chain([0]).collect::<Vec<u8>>();
    assert!(Proof::decode(&zero).is_err());
    let own = Leaf { path: toy(1, 1), value: value(1) };
    let other = Proof { siblings: vec![], terminal: Terminal::Other(own) };
    assert!(other.root::<Blake3>(&own.path, None).is_err(), "the path's own leaf as another");
    assert!(other.root::<Blake3>(&toy(0, 1), None).is_ok());
    let deep = Proof { siblings: vec![[1; 32]], terminal: Terminal::Other(own) };
    assert!(deep.root::<Blake3>(&toy(0, 1), None).is_err(), "a leaf of another subtree");
}
