//! Small trees hashed together, level by level, so that the lanes of the hash function are full.

use crate::hash::{Domain, EMPTY, Hash, Hasher};
use crate::page::Sub;
use crate::tree::Leaf;

/// A subtree in a forest.
#[derive(Debug, Clone, Copy)]
pub struct Id(u32);

/// An inner node that is to be hashed.
struct Node {
    id: Id,
    left: Id,
    right: Id,
}

/// Subtrees, of which those that were joined have no hash yet. Made once, used for many pages.
#[derive(Default)]
pub struct Forest {
    subs: Vec<Sub>,
    heights: Vec<u8>,
    /// Path and value hash of leaves that are to be hashed.
    leaves: Vec<[u8; 64]>,
    leaf_ids: Vec<Id>,
    /// By height: all of one height have only lower ones below them.
    nodes: Vec<Vec<Node>>,
    inputs: Vec<[u8; 64]>,
    hashes: Vec<Hash>,
}

fn input(left: &Hash, right: &Hash) -> [u8; 64] {
    let mut input = [0; 64];
    let (a, b) = input.split_at_mut(32);
    a.copy_from_slice(left);
    b.copy_from_slice(right);
    input
}

impl Forest {
    /// Forgets all subtrees.
    pub fn clear(&mut self) {
        self.subs.clear();
        self.heights.clear();
        self.leaves.clear();
        self.leaf_ids.clear();
    }

    fn push(&mut self, sub: Sub, height: u8) -> Id {
        self.subs.push(sub);
        self.heights.push(height);
        Id(self.subs.len() as u32 - 1)
    }

    /// A subtree whose hash is known.
    pub fn known(&mut self, sub: Sub) -> Id {
        self.push(sub, 0)
    }

    /// A subtree; after [`Forest::hash`], if it was joined.
    pub fn sub(&self, id: Id) -> Sub {
        self.subs.get(id.0 as usize).copied().unwrap_or(Sub::Empty)
    }

    fn height(&self, id: Id) -> u8 {
        self.heights.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// The subtree of two neighbours; a lone leaf rises.
    pub fn join(&mut self, left: Id, right: Id) -> Id {
        match (self.sub(left), self.sub(right)) {
            (Sub::Empty, Sub::Empty | Sub::Leaf(_)) => right,
            (Sub::Leaf(_), Sub::Empty) => left,
            _ => {
                let below = self.height(left).max(self.height(right));
                // A path has 256 bits, a forest joins at most those of a page and its parent.
                let id = self.push(Sub::Node(EMPTY), below.saturating_add(1));
                let node = Node { id, left, right };
                match self.nodes.get_mut(usize::from(below)) {
                    Some(height) => height.push(node),
                    // Heights grow by one: nothing joins higher trees than there are.
                    None => self.nodes.push(vec![node]),
                }
                id
            }
        }
    }

    /// The subtree of leaves by ascending path that share `level` bits.
    pub fn leaves(&mut self, leaves: impl Iterator<Item = Leaf>, level: usize) -> Id {
        let from = self.leaves.len();
        self.leaves.extend(leaves.map(|leaf| input(&leaf.path, &leaf.value)));
        self.below(from, self.leaves.len(), level)
    }

    fn below(&mut self, from: usize, to: usize, level: usize) -> Id {
        match to - from {
            0 => self.known(Sub::Empty),
            1 => {
                let id = self.known(Sub::Leaf(EMPTY));
                self.leaf_ids.push(id);
                id
            }
            _ => {
                let leaves = self.leaves.get(from..to).unwrap_or_default();
                let left = |leaf: &[u8; 64]| {
                    leaf.get(level / 8).is_some_and(|byte| byte >> (7 - level % 8) & 1 == 0)
                };
                let middle = from + leaves.partition_point(left);
                let left = self.below(from, middle, level + 1);
                let right = self.below(middle, to, level + 1);
                self.join(left, right)
            }
        }
    }

    /// The subtree of a run of slots from children that tile it.
    pub fn run(&mut self, children: &[(u8, u8, Id)], slot: u8, bits: u8) -> Id {
        match children {
            [] => self.known(Sub::Empty),
            [(_, own, id)] if *own >= bits => *id,
            _ => {
                let middle = slot + (1u8 << (bits - 1));
                let right = children.partition_point(|(slot, ..)| *slot < middle);
                let (left, right) = children.split_at(right);
                let left = self.run(left, slot, bits - 1);
                let right = self.run(right, middle, bits - 1);
                self.join(left, right)
            }
        }
    }

    fn set(&mut self, id: Id, sub: Sub) {
        if let Some(place) = self.subs.get_mut(id.0 as usize) {
            *place = sub;
        }
    }

    /// Hashes all leaves and all that was joined.
    pub fn hash<H: Hasher>(&mut self) {
        let (mut inputs, mut hashes) =
            (std::mem::take(&mut self.inputs), std::mem::take(&mut self.hashes));
        hashes.clear();
        H::hash_many(Domain::Leaf, &self.leaves, &mut hashes);
        let ids = std::mem::take(&mut self.leaf_ids);
        ids.iter().zip(&hashes).for_each(|(id, hash)| self.set(*id, Sub::Leaf(*hash)));
        self.leaf_ids = ids;
        let mut nodes = std::mem::take(&mut self.nodes);
        for height in &mut nodes {
            inputs.clear();
            hashes.clear();
            inputs.extend(
                height.iter().map(|n| input(&self.sub(n.left).hash(), &self.sub(n.right).hash())),
            );
            H::hash_many(Domain::Node, &inputs, &mut hashes);
            height.iter().zip(&hashes).for_each(|(n, hash)| self.set(n.id, Sub::Node(*hash)));
            height.clear();
        }
        (self.nodes, self.inputs, self.hashes) = (nodes, inputs, hashes);
    }
}
