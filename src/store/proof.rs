//! Proof that a path has a value hash, or none, in the tree of a root.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | format, 1 |
//! | 1 | depth d: levels from the root to the terminal, at most 255 |
//! | ceil(d / 8) | bit i (most significant first): sibling i is not empty; spare bits 0 |
//! | 32 each | the siblings that are not empty, root first |
//! | 1 | terminal: 0 the path's own leaf, 1 another leaf, 2 empty |
//! | 64 | only for another leaf: its path and value hash |
//!
//! One encoding a proof: the deepest sibling is not empty (else the terminal would stand higher),
//! another leaf shares its first d bits with the path and differs from it, nothing follows.

use crate::ProofError;
use crate::bytes::take_array;
use crate::hash::{Domain, EMPTY, Hash, Hasher};
use crate::tree::{self, DEPTH_MAX, Leaf, Path, bit, common_bits};

const FORMAT: u8 = 1;

/// Where the walk along a path ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// At the path's own leaf.
    Own,
    /// At the only leaf of a subtree, which is another's.
    Other(Leaf),
    /// At an empty subtree.
    Empty,
}

/// The way from the root to where a path ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Sibling subtrees, root first; [`EMPTY`] for empty ones.
    pub siblings: Vec<Hash>,
    /// The end.
    pub terminal: Terminal,
}

impl Proof {
    /// Its only encoding.
    pub fn encode(&self) -> Vec<u8> {
        let depth = self.siblings.len();
        let mut bitmap = vec![0u8; depth.div_ceil(8)];
        let mut out = vec![FORMAT, depth as u8];
        for (level, _) in self.siblings.iter().enumerate().filter(|(_, s)| **s != EMPTY) {
            if let Some(byte) = bitmap.get_mut(level / 8) {
                *byte |= 1 << (7 - level % 8);
            }
        }
        out.extend_from_slice(&bitmap);
        for sibling in self.siblings.iter().filter(|sibling| **sibling != EMPTY) {
            out.extend_from_slice(sibling);
        }
        match &self.terminal {
            Terminal::Own => out.push(0),
            Terminal::Other(leaf) => {
                out.push(1);
                out.extend_from_slice(&leaf.path);
                out.extend_from_slice(&leaf.value);
            }
            Terminal::Empty => out.push(2),
        }
        out
    }

    /// Reads a proof from the front of `bytes` and returns the rest.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), ProofError> {
        const SHORT: ProofError = ProofError::Malformed("it ends early");
        let ([format, depth], rest) = bytes.split_first_chunk().ok_or(SHORT)?;
        if *format != FORMAT {
            return Err(ProofError::Malformed("unknown format"));
        }
        let depth = usize::from(*depth);
        let (bitmap, mut rest) = rest.split_at_checked(depth.div_ceil(8)).ok_or(SHORT)?;
        let set =
            |level: usize| bitmap.get(level / 8).is_some_and(|b| b >> (7 - level % 8) & 1 == 1);
        if (depth..bitmap.len() * 8).any(set) {
            return Err(ProofError::Malformed("spare bits are set"));
        }
        let mut siblings = Vec::with_capacity(depth);
        for level in 0..depth {
            siblings.push(if set(level) { take_array(&mut rest).ok_or(SHORT)? } else { EMPTY });
        }
        if (0..depth).any(|level| set(level) && siblings.get(level) == Some(&EMPTY)) {
            return Err(ProofError::Malformed("a sibling is zero"));
        }
        if siblings.last() == Some(&EMPTY) {
            return Err(ProofError::Malformed("the deepest sibling is empty"));
        }
        let (&tag, mut rest) = rest.split_first().ok_or(SHORT)?;
        let terminal = match tag {
            0 => Terminal::Own,
            1 => Terminal::Other(Leaf {
                path: take_array(&mut rest).ok_or(SHORT)?,
                value: take_array(&mut rest).ok_or(SHORT)?,
            }),
            2 => Terminal::Empty,
            _ => return Err(ProofError::Malformed("unknown terminal")),
        };
        Ok((Self { siblings, terminal }, rest))
    }

    /// The root to which the proof leads if `path` has `value` (none: no leaf).
    pub fn root<H: Hasher>(&self, path: &Path, value: Option<Hash>) -> Result<Hash, ProofError> {
        if self.siblings.len() > DEPTH_MAX {
            return Err(ProofError::Malformed("deeper than a proof can be"));
        }
        let mut hash = match (&self.terminal, value) {
            (Terminal::Own, Some(value)) => Leaf { path: *path, value }.hash::<H>(),
            (Terminal::Empty, None) => EMPTY,
            (Terminal::Other(leaf), None) => {
                let shared = common_bits(&leaf.path, path);
                if shared == 256 || shared < self.siblings.len() {
                    return Err(ProofError::Malformed("the other leaf does not stand in the way"));
                }
                leaf.hash::<H>()
            }
            (Terminal::Own, None) => return Err(ProofError::Invalid("it shows a value".into())),
            (_, Some(_)) => return Err(ProofError::Invalid("it shows no value".into())),
        };
        for (level, sibling) in self.siblings.iter().enumerate().rev() {
            let (left, right) = if bit(path, level) { (*sibling, hash) } else { (hash, *sibling) };
            hash = tree::node::<H>(left, right);
        }
        Ok(hash)
    }
}

/// The proof of `path` over sorted leaves: the reference that the engine is compared with.
pub fn prove<H: Hasher>(leaves: &[Leaf], path: &Path) -> Proof {
    let mut siblings = Vec::new();
    let mut below = leaves;
    loop {
        let terminal = match below {
            [] => Terminal::Empty,
            [leaf] if leaf.path == *path => Terminal::Own,
            [leaf] => Terminal::Other(*leaf),
            _ => {
                let level = siblings.len();
                let (left, right) = tree::split(below, level);
                let (own, other) = if bit(path, level) { (right, left) } else { (left, right) };
                siblings.push(tree::subtree::<H>(other, level + 1));
                below = own;
                continue;
            }
        };
        return Proof { siblings, terminal };
    }
}

/// Hash of a value.
pub fn value_hash<H: Hasher>(value: &[u8]) -> Hash {
    H::hash(Domain::Value, &[value])
}
