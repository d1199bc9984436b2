//! Proof that many keys have values, or none, in the tree of one root: each sibling once.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | format, 2 |
//! | | the tree along the paths, a subtree before its halves, left before right; of each: |
//! | 1 | 0 inner node, its halves follow; 1 empty; 2 a path's own leaf; 3 another leaf; |
//! | | 4 empty and 5 not, that no path enters |
//! | 64 | only of another leaf: its path and value hash |
//! | 32 | only of 5: its hash |
//!
//! Then the anchor ([`crate::commitment`]). One encoding a proof, as with one key: an inner node
//! has two halves with leaves or one that is a node, another leaf shares the bits of the way to
//! it, nothing follows.

use crate::ProofError;
use crate::bytes::take_array;
use crate::commitment::Anchor;
use crate::hash::{EMPTY, Hash, Hasher};
use crate::tree::{self, Leaf, Path, bit, common_bits};
use crate::walk::{Step, Walk};

const FORMAT: u8 = 2;
const NODE: u8 = 0;
const NOTHING: u8 = 1;
const OWN: u8 = 2;
const OTHER: u8 = 3;
const SIBLING_EMPTY: u8 = 4;
const SIBLING: u8 = 5;

const SHORT: ProofError = ProofError::Malformed("it ends early");

/// A path and the hash of its value; none if it has no leaf.
pub(crate) type Claim = (Path, Option<Hash>);

/// The proof of a walk.
pub(crate) fn encode(walk: &Walk, anchor: &Anchor) -> Vec<u8> {
    let mut out = vec![FORMAT];
    for step in &walk.steps {
        match step {
            Step::Node => out.push(NODE),
            Step::Empty => out.push(NOTHING),
            Step::Own(_) => out.push(OWN),
            Step::Other(entry) => {
                out.push(OTHER);
                out.extend_from_slice(&entry.path);
                out.extend_from_slice(&entry.value.unwrap_or_default());
            }
            Step::Sibling(_, id) => match walk.hash(*id) {
                EMPTY => out.push(SIBLING_EMPTY),
                hash => {
                    out.push(SIBLING);
                    out.extend_from_slice(&hash);
                }
            },
        }
    }
    anchor.encode(&mut out);
    out
}

/// The root to which a proof leads if ascending claims are true, and its anchor.
pub(crate) fn read<H: Hasher>(
    bytes: &[u8],
    claims: &[Claim],
) -> Result<(Hash, Anchor), ProofError> {
    let mut rest = bytes;
    if take_array(&mut rest) != Some([FORMAT]) {
        return Err(ProofError::Malformed("unknown format"));
    }
    let (_, root) = subtree::<H>(&mut rest, claims, 0)?;
    Ok((root, Anchor::decode(rest)?))
}

/// What half of an inner node is.
#[derive(PartialEq, Eq)]
enum Half {
    Empty,
    Leaf,
    /// An inner node, or what nobody says of a half that no path enters.
    Any,
}

fn subtree<H: Hasher>(
    rest: &mut &[u8],
    claims: &[Claim],
    level: usize,
) -> Result<(Half, Hash), ProofError> {
    let [tag] = take_array(rest).ok_or(SHORT)?;
    let present = claims.iter().find_map(|(path, value)| value.map(|value| (path, value)));
    match (tag, claims) {
        (SIBLING_EMPTY, []) => Ok((Half::Empty, EMPTY)),
        (SIBLING, []) => match take_array(rest).ok_or(SHORT)? {
            EMPTY => Err(ProofError::Malformed("a sibling is zero")),
            hash => Ok((Half::Any, hash)),
        },
        (NODE, [_, ..]) => inner::<H>(rest, claims, level),
        (NOTHING, [_, ..]) if present.is_none() => Ok((Half::Empty, EMPTY)),
        (OTHER, [_, ..]) if present.is_none() => {
            let leaf = Leaf {
                path: take_array(rest).ok_or(SHORT)?,
                value: take_array(rest).ok_or(SHORT)?,
            };
            // All claims here share `level` bits.
            let in_the_way = |(path, _): &Claim| {
                let shared = common_bits(&leaf.path, path);
                shared >= level && shared < 256
            };
            if claims.iter().all(in_the_way) {
                Ok((Half::Leaf, leaf.hash::<H>()))
            } else {
                Err(ProofError::Malformed("the other leaf does not stand in the way"))
            }
        }
        (OWN, [_, ..]) => {
            let Some((path, value)) = present else {
                return Err(ProofError::Invalid("it shows a value".into()));
            };
            if claims.iter().filter(|(_, value)| value.is_some()).count() > 1 {
                return Err(ProofError::Invalid("it shows one value for many".into()));
            }
            Ok((Half::Leaf, Leaf { path: *path, value }.hash::<H>()))
        }
        (NOTHING | OTHER, [_, ..]) => Err(ProofError::Invalid("it shows no value".into())),
        _ => Err(ProofError::Malformed("it is not of these keys")),
    }
}

fn inner<H: Hasher>(
    rest: &mut &[u8],
    claims: &[Claim],
    level: usize,
) -> Result<(Half, Hash), ProofError> {
    if level >= tree::DEPTH_MAX {
        return Err(ProofError::Malformed("deeper than a proof can be"));
    }
    let (below, above) = claims.split_at(claims.partition_point(|(path, _)| !bit(path, level)));
    let (left, left_hash) = subtree::<H>(rest, below, level + 1)?;
    let (right, right_hash) = subtree::<H>(rest, above, level + 1)?;
    if left == Half::Empty && right != Half::Any || right == Half::Empty && left != Half::Any {
        return Err(ProofError::Malformed("an inner node of less than two leaves"));
    }
    Ok((Half::Any, tree::node::<H>(left_hash, right_hash)))
}
