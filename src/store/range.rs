//! The earlier commitments: a Merkle mountain range, so that a newest commitment answers for
//! every one before it.
//!
//! Peaks are perfect trees of descending size, bagged from the right; over n commitments this is
//! the tree of RFC 6962, and so a proof has at most ceil(log2 n) siblings. `M_n` is 32 zero bytes
//! for n = 0, else H_range(n:8 LE || bagged peaks).

use crate::hash::{Domain, EMPTY, Hash, Hasher};

/// The peaks over the commitments so far: all that is needed to add the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Range {
    count: u64,
    /// One a set bit of `count`, largest first.
    peaks: Vec<Hash>,
}

impl Range {
    /// A range from its parts; none if the number of peaks does not fit.
    pub fn from_parts(count: u64, peaks: Vec<Hash>) -> Option<Self> {
        (peaks.len() == count.count_ones() as usize).then_some(Self { count, peaks })
    }

    /// Number of commitments.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The peaks, largest first.
    pub fn peaks(&self) -> &[Hash] {
        &self.peaks
    }

    /// Adds a commitment and returns the inner nodes that it completes, lowest first.
    pub fn push<H: Hasher>(&mut self, commitment: Hash) -> Vec<Hash> {
        let mut made = Vec::new();
        let mut hash = commitment;
        for _ in 0..self.count.trailing_ones() {
            let Some(left) = self.peaks.pop() else { break };
            hash = join::<H>(left, hash);
            made.push(hash);
        }
        self.peaks.push(hash);
        self.count += 1;
        made
    }

    /// `M`.
    pub fn root<H: Hasher>(&self) -> Hash {
        let bagged = self.peaks.iter().rev().copied().reduce(|right, left| join::<H>(left, right));
        bagged.map_or(EMPTY, |bagged| total::<H>(self.count, bagged))
    }
}

fn join<H: Hasher>(left: Hash, right: Hash) -> Hash {
    H::hash(Domain::Range, &[&left, &right])
}

fn total<H: Hasher>(count: u64, bagged: Hash) -> Hash {
    H::hash(Domain::Range, &[&count.to_le_bytes(), &bagged])
}

/// The siblings of commitment `index` among `count`, its own level first. `perfect(level, i)` is
/// the perfect tree over the commitments `i * 2^level ..` of that size.
pub fn path<H: Hasher, E>(
    index: u64,
    count: u64,
    mut perfect: impl FnMut(u32, u64) -> Result<Hash, E>,
) -> Result<Vec<Hash>, E> {
    let mut siblings = Vec::new();
    let (mut start, mut size) = (0, count);
    // From the top: the left part of a tree of `size` is the largest perfect tree below it.
    while size > 1 {
        let left = largest_perfect_below(size);
        let (other, length) = if index < start + left {
            let other = (start + left, size - left);
            size = left;
            other
        } else {
            let other = (start, left);
            (start, size) = (start + left, size - left);
            other
        };
        siblings.push(bag::<H, E>(other, length, &mut perfect)?);
    }
    siblings.reverse();
    Ok(siblings)
}

/// Root of the commitments `start .. start + length`; every start is a multiple of its tree's size.
fn bag<H: Hasher, E>(
    start: u64,
    length: u64,
    perfect: &mut impl FnMut(u32, u64) -> Result<Hash, E>,
) -> Result<Hash, E> {
    if length.is_power_of_two() {
        let level = length.trailing_zeros();
        return perfect(level, start >> level);
    }
    let left = largest_perfect_below(length);
    let hash = bag::<H, E>(start, left, perfect)?;
    Ok(join::<H>(hash, bag::<H, E>(start + left, length - left, perfect)?))
}

/// The largest power of two below `size`, which is above 1.
fn largest_perfect_below(size: u64) -> u64 {
    1 << (63 - (size - 1).leading_zeros())
}

/// `M` over `count` commitments, of which `commitment` is number `index`; none if the path has
/// another length than these numbers demand.
pub fn root_of<H: Hasher>(
    commitment: Hash,
    index: u64,
    count: u64,
    siblings: &[Hash],
) -> Option<Hash> {
    if index >= count {
        return None;
    }
    let mut hash = commitment;
    let mut siblings = siblings.iter();
    let (mut node, mut last) = (index, count - 1);
    // RFC 9162, section 2.1.3.2.
    while last > 0 {
        if node & 1 == 1 || node == last {
            hash = join::<H>(*siblings.next()?, hash);
            while node & 1 == 0 && node > 0 {
                (node, last) = (node >> 1, last >> 1);
            }
        } else {
            hash = join::<H>(hash, *siblings.next()?);
        }
        (node, last) = (node >> 1, last >> 1);
    }
    siblings.next().is_none().then(|| total::<H>(count, hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Blake3, Sha2};

    fn leaf(i: u64) -> Hash {
        Sha2::hash(Domain::Commit, &[&i.to_le_bytes()])
    }

    /// RFC 6962's definition.
    fn naive(leaves: &[Hash]) -> Hash {
        match leaves {
            [one] => *one,
            _ => {
                let middle = (leaves.len().next_power_of_two()) / 2;
                join::<Blake3>(naive(&leaves[..middle]), naive(&leaves[middle..]))
            }
        }
    }

    #[test]
    fn every_commitment_of_every_length_is_proven() {
        let leaves: Vec<Hash> = (0..70).map(leaf).collect();
        let mut range = Range::default();
        assert_eq!(range.root::<Blake3>(), EMPTY);
        for count in 1..=leaves.len() as u64 {
            range.push::<Blake3>(leaves[count as usize - 1]);
            let all = &leaves[..count as usize];
            assert_eq!(range.root::<Blake3>(), total::<Blake3>(count, naive(all)));
            assert_eq!(Range::from_parts(count, range.peaks().to_vec()).as_ref(), Some(&range));
            for index in 0..count {
                let perfect = |level: u32, i: u64| {
                    let start = (i << level) as usize;
                    Ok::<Hash, ()>(naive(&leaves[start..start + (1 << level)]))
                };
                let siblings = path::<Blake3, ()>(index, count, perfect).unwrap();
                assert!(siblings.len() as u32 <= count.next_power_of_two().trailing_zeros());
                let own = leaves[index as usize];
                let root = root_of::<Blake3>(own, index, count, &siblings);
                assert_eq!(root, Some(range.root::<Blake3>()), "{index} of {count}");
                for other in (0..count + 2).filter(|other| *other != index) {
                    assert_ne!(root_of::<Blake3>(own, other, count, &siblings), root);
                }
                assert_ne!(root_of::<Blake3>(own, index, count + 1, &siblings), root);
                assert_eq!(
                    root_of::<Blake3>(own, index, count, &[&siblings[..], &[own]].concat()),
                    None
                );
                if let [_, rest @ ..] = &siblings[..] {
                    assert_ne!(root_of::<Blake3>(own, index, count, rest), root);
                }
            }
        }
        assert_eq!(Range::from_parts(3, vec![EMPTY]), None);
    }

    #[test]
    fn a_push_returns_the_nodes_it_completes() {
        let mut range = Range::default();
        let made: Vec<usize> = (0..8).map(|i| range.push::<Blake3>(leaf(i)).len()).collect();
        assert_eq!(made, [0, 1, 0, 2, 0, 1, 0, 3]);
    }
}
