//! The compact sparse Merkle tree of a plasma block (protocol.md section 3).
//!
//! The path of a coin is its id's bits from the least significant upward: bit i decides at depth
//! i. An empty subtree is 32 zero bytes, a subtree with exactly one leaf is that leaf's hash,
//! `leaf = keccak(0x00 || coin:8 || transferHash:32)`, `node = keccak(0x01 || left || right)`.
//!
//! | field of a proof | bytes |
//! |---|---|
//! | depth of the terminal | 1, at most 64 |
//! | bitmap, bit i = the sibling at depth i is not empty | 8, big-endian |
//! | non-empty siblings, i ascending | 32 each |
//! | terminal | `0` own leaf, `1` empty, or `2 || coin:8 || transferHash:32` another leaf |
//!
//! Every proof has one encoding; path bits come from the coin id, never from the proof.

use alloy_primitives::{B256, keccak256};

use crate::CoinId;
use crate::keccak::keccak256_many;
use crate::wire::{Reader, WireError};

/// Depth of the tree: bits of a coin id.
pub const DEPTH_MAX: u8 = 64;

/// A transfer's place in a block's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// The coin.
    pub coin: CoinId,
    /// The digest of its transfer.
    pub hash: B256,
}

impl Leaf {
    /// Sort key: leaves in the order of their paths.
    pub fn path(&self) -> u64 {
        self.coin.reverse_bits()
    }

    fn message(&self) -> [u8; 41] {
        let mut message = [0u8; 41];
        message[1..9].copy_from_slice(&self.coin.to_be_bytes());
        message[9..].copy_from_slice(self.hash.as_slice());
        message
    }

    /// The leaf's hash in the tree.
    pub fn node(&self) -> B256 {
        keccak256(self.message())
    }
}

fn node_message(left: B256, right: B256) -> [u8; 65] {
    let mut message = [1u8; 65];
    message[1..33].copy_from_slice(left.as_slice());
    message[33..].copy_from_slice(right.as_slice());
    message
}

fn node(left: B256, right: B256) -> B256 {
    keccak256(node_message(left, right))
}

/// Whether the path of `coin` goes right at `depth`.
fn bit(coin: CoinId, depth: u8) -> bool {
    coin >> depth & 1 == 1
}

/// The root of a subtree, or what stands for it where its parent is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subtree {
    /// No leaf.
    Empty,
    /// Exactly one leaf, which is lifted unhashed.
    Leaf(B256),
    /// Two leaves or more.
    Node(B256),
}

impl Subtree {
    /// The 32 bytes that stand for it in its parent.
    pub fn hash(self) -> B256 {
        match self {
            Self::Empty => B256::ZERO,
            Self::Leaf(hash) | Self::Node(hash) => hash,
        }
    }

    /// The parent of two subtrees.
    pub fn join(left: Self, right: Self) -> Self {
        match (left, right) {
            (Self::Empty, Self::Empty) => Self::Empty,
            (Self::Leaf(hash), Self::Empty) | (Self::Empty, Self::Leaf(hash)) => Self::Leaf(hash),
            _ => Self::Node(node(left.hash(), right.hash())),
        }
    }
}

/// A subtree hash at a stored level: the group of leaves that starts at index `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelEntry {
    /// Index of the group's first leaf in path order.
    pub start: u64,
    /// The group's subtree hash (a lone leaf's own hash).
    pub hash: B256,
}

/// What hashing a run of leaves yields: its root and the asked interior levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashed {
    /// Root of the run at the asked depth.
    pub root: Subtree,
    /// One list per asked level, each ascending by `start`.
    pub levels: Vec<Vec<LevelEntry>>,
}

/// One hash to compute: into slot `left`, from it and its sibling.
#[derive(Clone, Copy)]
struct Step {
    left: u32,
    right: u32,
}

/// In `Step::right`: the sibling is empty and stands on the right (`left` is a left child).
const EMPTY_RIGHT: u32 = u32::MAX;
/// In `Step::right`: the sibling is empty and stands on the left.
const EMPTY_LEFT: u32 = u32::MAX - 1;

/// Most leaves of one call of [`hash_leaves`].
pub const LEAVES_MAX: usize = EMPTY_LEFT as usize;

/// Hashes `leaves`, sorted by path and all below the same subtree root at depth `top`; keeps the
/// levels at the given depths (each above `top`), ascending.
///
/// All nodes of one depth are hashed in one batch, deepest first.
///
/// # Panics
/// If the leaves are not strictly ascending by path, or too many (a programmer's error).
pub fn hash_leaves(leaves: &[Leaf], top: u8, levels: &[u8]) -> Hashed {
    assert!(leaves.len() < LEAVES_MAX, "too many leaves");
    let mut slots = vec![B256::ZERO; leaves.len()];
    let mut messages = [[0u8; 41]; BATCH];
    for (batch, digests) in leaves.chunks(BATCH).zip(slots.chunks_mut(BATCH)) {
        for (leaf, message) in batch.iter().zip(&mut messages) {
            *message = leaf.message();
        }
        keccak256_many(&messages[..batch.len()], digests);
    }
    let steps = plan(leaves, top);
    let mut kept = vec![Vec::new(); levels.len()];
    for depth in (top..DEPTH_MAX).rev() {
        run_steps(&steps[usize::from(depth)], &mut slots);
        if let Some(index) = levels.iter().position(|level| *level == depth) {
            kept[index] = level_entries(leaves, &slots, depth);
        }
    }
    let root = match leaves.len() {
        0 => Subtree::Empty,
        1 => Subtree::Leaf(slots[0]),
        _ => Subtree::Node(slots[0]),
    };
    Hashed { root, levels: kept }
}

/// Depth at which the paths of two neighbours part.
fn split_depth(a: &Leaf, b: &Leaf) -> u8 {
    (a.path() ^ b.path()).leading_zeros() as u8
}

fn level_entries(leaves: &[Leaf], slots: &[B256], depth: u8) -> Vec<LevelEntry> {
    (0..leaves.len())
        .filter(|&i| i == 0 || split_depth(&leaves[i - 1], &leaves[i]) < depth)
        .map(|i| LevelEntry { start: i as u64, hash: slots[i] })
        .collect()
}

/// The steps of every depth. A subtree's hash lives in the slot of its first leaf.
fn plan(leaves: &[Leaf], top: u8) -> Vec<Vec<Step>> {
    let mut steps = vec![Vec::new(); usize::from(DEPTH_MAX)];
    // Open nodes from the root down: (depth of the split, first leaf).
    let mut open: Vec<(u8, u32)> = Vec::new();
    // The subtree that ends at the previous leaf: (depth of its hash, first leaf).
    let mut done = (DEPTH_MAX, 0u32);
    for i in 1..leaves.len() {
        assert!(leaves[i - 1].path() < leaves[i].path(), "leaves must ascend by path");
        let split = split_depth(&leaves[i - 1], &leaves[i]);
        assert!(split >= top, "leaves must share the subtree at depth {top}");
        close(&mut open, &mut done, split, leaves, &mut steps);
        lift(done, split + 1, leaves, &mut steps);
        open.push((split, done.1));
        done = (DEPTH_MAX, i as u32);
    }
    close(&mut open, &mut done, top, leaves, &mut steps);
    lift(done, top, leaves, &mut steps);
    steps
}

/// Ends every open node at or below `floor` with the subtree `done` as its right child.
fn close(
    open: &mut Vec<(u8, u32)>,
    done: &mut (u8, u32),
    floor: u8,
    leaves: &[Leaf],
    steps: &mut [Vec<Step>],
) {
    while let Some(&(split, first)) = open.last() {
        if split < floor {
            break;
        }
        open.pop();
        lift(*done, split + 1, leaves, steps);
        steps[usize::from(split)].push(Step { left: first, right: done.1 });
        *done = (split, first);
    }
}

/// Hashes a subtree of two leaves or more upward to `depth` beside empty siblings.
fn lift(done: (u8, u32), depth: u8, leaves: &[Leaf], steps: &mut [Vec<Step>]) {
    let (from, slot) = done;
    if from == DEPTH_MAX {
        return;
    }
    for level in depth..from {
        let right = bit(leaves[slot as usize].coin, level);
        let empty = if right { EMPTY_LEFT } else { EMPTY_RIGHT };
        steps[usize::from(level)].push(Step { left: slot, right: empty });
    }
}

/// Messages that are gathered before one batch of hashes: small enough for the L1 cache.
const BATCH: usize = 128;

fn run_steps(steps: &[Step], slots: &mut [B256]) {
    let mut messages = [[0u8; 65]; BATCH];
    let mut digests = [B256::ZERO; BATCH];
    for batch in steps.chunks(BATCH) {
        for (step, message) in batch.iter().zip(&mut messages) {
            let own = slots[step.left as usize];
            *message = match step.right {
                EMPTY_RIGHT => node_message(own, B256::ZERO),
                EMPTY_LEFT => node_message(B256::ZERO, own),
                right => node_message(own, slots[right as usize]),
            };
        }
        keccak256_many(&messages[..batch.len()], &mut digests[..batch.len()]);
        for (step, digest) in batch.iter().zip(&digests) {
            slots[step.left as usize] = *digest;
        }
    }
}

/// A subtree as an item of a small tree: a lone leaf, or the hash of two leaves or more.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// Any coin below the item: gives its path.
    pub coin: CoinId,
    /// Its hash; never empty.
    pub subtree: Subtree,
}

/// Where a walk through items ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// On an empty subtree.
    Empty,
    /// On the lone leaf that is the item of this index.
    Leaf(usize),
    /// At the floor, on the item of this index, below which the walk goes on.
    Node(usize),
}

/// Root at `depth` of items sorted by path whose nodes all stand at depth `floor`.
fn fold(items: &[Item], depth: u8, floor: u8) -> Subtree {
    match items {
        [] => Subtree::Empty,
        [Item { subtree: leaf @ Subtree::Leaf(_), .. }] => *leaf,
        [one] if depth >= floor => one.subtree,
        _ => {
            let (left, right) = items.split_at(middle(items, depth));
            Subtree::join(fold(left, depth + 1, floor), fold(right, depth + 1, floor))
        }
    }
}

/// Index of the first item whose path goes right at `depth`.
fn middle(items: &[Item], depth: u8) -> usize {
    items.partition_point(|item| !bit(item.coin, depth))
}

/// Walks from `depth` towards `coin` through `items`, sorted by path, whose nodes all stand at
/// depth `floor`, and collects the siblings into `proof`.
pub fn descend(
    items: &[Item],
    coin: CoinId,
    depth: u8,
    floor: u8,
    proof: &mut ProofBuilder,
) -> End {
    let (mut from, mut to) = (0, items.len());
    for level in depth..floor {
        match &items[from..to] {
            [] => return End::Empty,
            [Item { subtree: Subtree::Leaf(_), .. }] => return End::Leaf(from),
            _ => {}
        }
        let split = from + middle(&items[from..to], level);
        let (own, other) =
            if bit(coin, level) { (split..to, from..split) } else { (from..split, split..to) };
        proof.sibling(level, fold(&items[other], level + 1, floor).hash());
        (from, to) = (own.start, own.end);
    }
    match &items[from..to] {
        [] => End::Empty,
        [Item { subtree: Subtree::Leaf(_), .. }] => End::Leaf(from),
        _ => End::Node(from),
    }
}

/// Root of leaves in any order (for tests and small blocks; large ones use [`hash_leaves`]).
pub fn root_of(leaves: &[Leaf]) -> B256 {
    let mut sorted = leaves.to_vec();
    sorted.sort_unstable_by_key(Leaf::path);
    hash_leaves(&sorted, 0, &[]).root.hash()
}

/// Where a proof's path ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// The coin's own leaf: inclusion.
    Own,
    /// Nothing: exclusion.
    Empty,
    /// Another coin's leaf: exclusion.
    Other(Leaf),
}

/// Collects a proof from the root downwards.
#[derive(Debug, Default)]
pub struct ProofBuilder {
    depth: u8,
    bitmap: u64,
    siblings: Vec<B256>,
}

impl ProofBuilder {
    fn sibling(&mut self, level: u8, hash: B256) {
        // Empty siblings below the last non-empty one do not occur: a walk ends on a lone leaf or
        // an empty subtree, whose sibling holds two leaves or more.
        self.depth = level + 1;
        if hash != B256::ZERO {
            self.bitmap |= 1 << level;
            self.siblings.push(hash);
        }
    }

    /// The proof for `coin` whose walk ended on `leaf`, or on nothing.
    pub fn finish(self, coin: CoinId, leaf: Option<Leaf>) -> Proof {
        let terminal = match leaf {
            None => Terminal::Empty,
            Some(leaf) if leaf.coin == coin => Terminal::Own,
            Some(leaf) => Terminal::Other(leaf),
        };
        let Self { depth, bitmap, siblings } = self;
        Proof { depth, bitmap, siblings, terminal }
    }
}

/// Proves `coin` in or out of the tree of `leaves`, sorted by path. Hashes them all: for small
/// trees; the block archive serves large ones.
pub fn prove(leaves: &[Leaf], coin: CoinId) -> Proof {
    let items: Vec<Item> = leaves.iter().map(Item::lone).collect();
    let mut builder = ProofBuilder::default();
    let leaf = match descend(&items, coin, 0, DEPTH_MAX, &mut builder) {
        End::Empty => None,
        End::Leaf(index) | End::Node(index) => Some(leaves[index]),
    };
    builder.finish(coin, leaf)
}

impl Item {
    /// The item of one leaf.
    pub fn lone(leaf: &Leaf) -> Self {
        Self { coin: leaf.coin, subtree: Subtree::Leaf(leaf.node()) }
    }
}

/// A decoded proof that a coin is, or is not, in a block. Not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    depth: u8,
    bitmap: u64,
    siblings: Vec<B256>,
    terminal: Terminal,
}

/// What a proof shows about a coin in the tree of one root.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verified {
    /// The coin moved in this block by the transfer that was asked for.
    Included,
    /// The coin did not move in this block.
    Excluded,
}

/// Why a proof shows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The bytes are no proof.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Depth above 64, or a bit of the bitmap at or below the terminal, or none just above it.
    #[error("depth {depth} and bitmap {bitmap:#018x} do not fit")]
    Shape {
        /// The proof's depth.
        depth: u8,
        /// The proof's bitmap.
        bitmap: u64,
    },
    /// A sibling that the bitmap announces is zero.
    #[error("a sibling is zero")]
    ZeroSibling,
    /// The other leaf is the coin's own, or not on its path.
    #[error("leaf of coin {other} is not beside coin {coin} at depth {depth}")]
    NotOther {
        /// The coin asked for.
        coin: CoinId,
        /// The leaf's coin.
        other: CoinId,
        /// The proof's depth.
        depth: u8,
    },
    /// The proof ends at the coin's own leaf, but no transfer was given, or the other way round.
    #[error("the proof is of the other kind")]
    Kind,
    /// The computed root differs.
    #[error("the proof leads to root {computed}, not {expected}")]
    Root {
        /// What the proof computes to.
        computed: B256,
        /// The block's root.
        expected: B256,
    },
}

impl Proof {
    /// The proof's one encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(9 + 32 * self.siblings.len() + 41);
        out.push(self.depth);
        out.extend_from_slice(&self.bitmap.to_be_bytes());
        for sibling in &self.siblings {
            out.extend_from_slice(sibling.as_slice());
        }
        match self.terminal {
            Terminal::Own => out.push(0),
            Terminal::Empty => out.push(1),
            Terminal::Other(leaf) => {
                out.push(2);
                out.extend_from_slice(&leaf.coin.to_be_bytes());
                out.extend_from_slice(leaf.hash.as_slice());
            }
        }
        out
    }

    /// Reads a whole proof; refuses every other encoding of the same proof.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProofError> {
        let mut reader = Reader::new(bytes);
        let proof = Self::read(&mut reader)?;
        reader.finish()?;
        Ok(proof)
    }

    /// Reads a proof that other bytes follow.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, ProofError> {
        let depth = reader.u8()?;
        let bitmap = reader.u64()?;
        let shape = ProofError::Shape { depth, bitmap };
        if depth > DEPTH_MAX
            || (depth < DEPTH_MAX && bitmap >> depth != 0)
            || (depth > 0 && bitmap >> (depth - 1) & 1 == 0)
        {
            return Err(shape);
        }
        let mut siblings = Vec::with_capacity(bitmap.count_ones() as usize);
        for _ in 0..bitmap.count_ones() {
            match reader.hash()? {
                B256::ZERO => return Err(ProofError::ZeroSibling),
                sibling => siblings.push(sibling),
            }
        }
        let terminal = match reader.u8()? {
            0 => Terminal::Own,
            1 => Terminal::Empty,
            2 => Terminal::Other(Leaf { coin: reader.u64()?, hash: reader.hash()? }),
            other => {
                return Err(WireError::Value { what: "terminal", value: other.into() }.into());
            }
        };
        Ok(Self { depth, bitmap, siblings, terminal })
    }

    /// Where the path ends.
    pub fn terminal(&self) -> Terminal {
        self.terminal
    }

    /// Checks the proof for `coin` against `root`; `transfer` is the digest of the coin's transfer
    /// for an inclusion, none for an exclusion.
    pub fn verify(
        &self,
        root: B256,
        coin: CoinId,
        transfer: Option<B256>,
    ) -> Result<Verified, ProofError> {
        let depth = self.depth;
        let (mut hash, verified) = match (self.terminal, transfer) {
            (Terminal::Own, Some(hash)) => (Leaf { coin, hash }.node(), Verified::Included),
            (Terminal::Empty, None) => (B256::ZERO, Verified::Excluded),
            (Terminal::Other(leaf), None) => {
                let differing = coin ^ leaf.coin;
                // Equal in the low `depth` bits and different above; equal ids have 64 zeros.
                if differing == 0 || differing.trailing_zeros() < u32::from(depth) {
                    return Err(ProofError::NotOther { coin, other: leaf.coin, depth });
                }
                (leaf.node(), Verified::Excluded)
            }
            _ => return Err(ProofError::Kind),
        };
        let mut siblings = self.siblings.iter().rev();
        for level in (0..depth).rev() {
            let sibling = if self.bitmap >> level & 1 == 1 {
                siblings.next().copied().unwrap_or_default()
            } else {
                B256::ZERO
            };
            hash = if bit(coin, level) { node(sibling, hash) } else { node(hash, sibling) };
        }
        if hash == root {
            Ok(verified)
        } else {
            Err(ProofError::Root { computed: hash, expected: root })
        }
    }
}
