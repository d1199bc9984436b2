//! The commitment of a version, and proofs of any kept version against the newest one.
//!
//! `C_V = H_commit(V:8 LE || n:8 LE || root_V:32 || M:32)`; n is the number of earlier
//! commitments and M the root of their range ([`crate::range`]).
//!
//! A state proof is
//!
//! | bytes | field |
//! |---|---|
//! | | the tree proof ([`crate::proof`]) to root_W |
//! | 8 + 8 + 32 + 32 | (W, n_W, root_W, M_W), little-endian numbers |
//! | 1 | 0: W is the commitment in question; 1: an older one, then follows |
//! | 1 + 32 each | number of siblings, the siblings of commitment n_W among n_V |
//! | 8 + 8 + 32 | (V, n_V, root_V) |

use crate::bytes::take_array;
use crate::hash::{Domain, Hash, Hasher};
use crate::proof::{Proof, value_hash};
use crate::range;
use crate::tree::Path;
use crate::{Commitment, ProofError, Version};

const SHORT: ProofError = ProofError::Malformed("it ends early");

/// What a commitment hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The version.
    pub version: Version,
    /// Number of earlier commitments.
    pub earlier: u64,
    /// Root of the tree.
    pub root: Hash,
    /// Root of the range of earlier commitments.
    pub range: Hash,
}

impl Committed {
    /// The commitment.
    pub fn commitment<H: Hasher>(&self) -> Commitment {
        let (version, earlier) = (self.version.to_le_bytes(), self.earlier.to_le_bytes());
        Commitment(H::hash(Domain::Commit, &[&version, &earlier, &self.root, &self.range]))
    }
}

/// The way from an older commitment to a newer one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Later {
    /// The siblings of the older commitment in the newer one's range.
    pub siblings: Vec<Hash>,
    /// The newer version.
    pub version: Version,
    /// Number of commitments before it.
    pub earlier: u64,
    /// Root of its tree.
    pub root: Hash,
}

/// The commitment of a version, and the way from it to a newer one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// The version.
    pub at: Committed,
    /// The newer commitment.
    pub later: Option<Later>,
}

impl Anchor {
    /// Appends its only encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Committed { version, earlier, root, range } = &self.at;
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&earlier.to_le_bytes());
        out.extend_from_slice(root);
        out.extend_from_slice(range);
        out.push(u8::from(self.later.is_some()));
        if let Some(Later { siblings, version, earlier, root }) = &self.later {
            out.push(siblings.len() as u8);
            siblings.iter().for_each(|sibling| out.extend_from_slice(sibling));
            out.extend_from_slice(&version.to_le_bytes());
            out.extend_from_slice(&earlier.to_le_bytes());
            out.extend_from_slice(root);
        }
    }

    /// Reads exactly one.
    pub fn decode(mut rest: &[u8]) -> Result<Self, ProofError> {
        let at = Committed {
            version: number(&mut rest)?,
            earlier: number(&mut rest)?,
            root: take_array(&mut rest).ok_or(SHORT)?,
            range: take_array(&mut rest).ok_or(SHORT)?,
        };
        let later = match byte(&mut rest)? {
            0 => None,
            1 => {
                let count = byte(&mut rest)?;
                let siblings: Option<Vec<Hash>> =
                    (0..count).map(|_| take_array(&mut rest)).collect();
                Some(Later {
                    siblings: siblings.ok_or(SHORT)?,
                    version: number(&mut rest)?,
                    earlier: number(&mut rest)?,
                    root: take_array(&mut rest).ok_or(SHORT)?,
                })
            }
            _ => return Err(ProofError::Malformed("unknown kind of commitment")),
        };
        if rest.is_empty() {
            Ok(Self { at, later })
        } else {
            Err(ProofError::Malformed("trailing bytes"))
        }
    }

    /// Checks that `root` is the tree's root at the anchor's version, which it returns, in the
    /// history that `commitment` ends.
    pub fn verify<H: Hasher>(
        &self,
        commitment: Commitment,
        root: Hash,
    ) -> Result<Version, ProofError> {
        let invalid = |what: &str| Err(ProofError::Invalid(what.to_owned()));
        if root != self.at.root {
            return invalid("it leads to another root");
        }
        let own = self.at.commitment::<H>();
        let newest = match &self.later {
            None => own,
            Some(later) => {
                let index = self.at.earlier;
                let range = range::root_of::<H>(own.0, index, later.earlier, &later.siblings);
                let Some(range) = range else {
                    return Err(ProofError::Malformed("the range path has another length"));
                };
                let (version, earlier, root) = (later.version, later.earlier, later.root);
                Committed { version, earlier, root, range }.commitment::<H>()
            }
        };
        if newest == commitment {
            Ok(self.at.version)
        } else {
            invalid("it leads to another commitment")
        }
    }
}

/// Proof of a key's value, or absence, at a version, against that version's commitment or a newer
/// one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateProof {
    /// In the version's tree.
    pub tree: Proof,
    /// From its root to the commitment.
    pub anchor: Anchor,
}

impl StateProof {
    /// Its only encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.tree.encode();
        self.anchor.encode(&mut out);
        out
    }

    /// Reads exactly one proof.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProofError> {
        let (tree, rest) = Proof::decode(bytes)?;
        Ok(Self { tree, anchor: Anchor::decode(rest)? })
    }

    /// Checks that the key at `path` had `value` (none: was absent) at the proof's version, which
    /// it returns, in the history that `commitment` ends.
    pub fn verify<H: Hasher>(
        &self,
        commitment: Commitment,
        path: &Path,
        value: Option<&[u8]>,
    ) -> Result<Version, ProofError> {
        let root = self.tree.root::<H>(path, value.map(value_hash::<H>))?;
        self.anchor.verify::<H>(commitment, root)
    }
}

fn number(rest: &mut &[u8]) -> Result<u64, ProofError> {
    take_array(rest).map(u64::from_le_bytes).ok_or(SHORT)
}

fn byte(rest: &mut &[u8]) -> Result<u8, ProofError> {
    take_array(rest).map(|[byte]| byte).ok_or(SHORT)
}
