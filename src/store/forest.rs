//! Small trees hashed together, level by level, so that the lanes of the hash function are full.

use crate::hash::{Domain, EMPTY, Hash, Hasher};
use crate::page::{Entry, Sub};
use crate::tree::bit;

/// A subtree in a forest.
#[derive(Debug, Clone, Copy)]
pub struct Id(usize);

/// An inner node that is to be hashed.
struct Node {
    id: usize,
    left: usize,
    right: usize,
}

/// Subtrees, of which those that were joined have no hash yet.
#[derive(Default)]
pub struct Forest {
    subs: Vec<(Sub, usize)>,
    /// Entries that are to be hashed: path and value hash.
    leaves: Vec<(usize, [u8; 64])>,
    /// By height: all of one height have only lower ones below them.
    nodes: Vec<Vec<Node>>,
}

impl Forest {
    /// A subtree whose hash is known.
    pub fn known(&mut self, sub: Sub) -> Id {
        self.subs.push((sub, 0));
        Id(self.subs.len() - 1)
    }

    fn get(&self, id: usize) -> (Sub, usize) {
        self.subs.get(id).copied().unwrap_or((Sub::Empty, 0))
    }

    /// The subtree of two neighbours; a lone leaf rises.
    pub fn join(&mut self, left: Id, right: Id) -> Id {
        let (a, b) = (self.get(left.0), self.get(right.0));
        match (a.0, b.0) {
            (Sub::Empty, Sub::Empty | Sub::Leaf(_)) => right,
            (Sub::Leaf(_), Sub::Empty) => left,
            _ => {
                let below = a.1.max(b.1);
                let id = self.subs.len();
                self.subs.push((Sub::Node(EMPTY), below + 1));
                let node = Node { id, left: left.0, right: right.0 };
                match self.nodes.get_mut(below) {
                    Some(height) => height.push(node),
                    // Heights grow by one: nothing joins higher trees than there are.
                    None => self.nodes.push(vec![node]),
                }
                Id(id)
            }
        }
    }

    /// The subtree of entries, without tombstones, that share `level` bits.
    pub fn entries(&mut self, live: &[&Entry], level: usize) -> Id {
        match live {
            [] => self.known(Sub::Empty),
            [Entry { path, value: Some(value), .. }] => {
                let id = self.known(Sub::Leaf(EMPTY));
                let mut input = [0; 64];
                let (left, right) = input.split_at_mut(32);
                left.copy_from_slice(path);
                right.copy_from_slice(value);
                self.leaves.push((id.0, input));
                id
            }
            [_] => self.known(Sub::Empty),
            _ => {
                let right = live.partition_point(|entry| !bit(&entry.path, level));
                let (left, right) = live.split_at(right);
                let left = self.entries(left, level + 1);
                let right = self.entries(right, level + 1);
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

    /// Hashes all entries and all that was joined.
    pub fn hash<H: Hasher>(&mut self) {
        let leaves = std::mem::take(&mut self.leaves);
        let mut inputs: Vec<[u8; 64]> = leaves.iter().map(|(_, input)| *input).collect();
        let mut hashes: Vec<Hash> = Vec::with_capacity(inputs.len());
        H::hash_many(Domain::Leaf, &inputs, &mut hashes);
        for ((id, _), hash) in leaves.iter().zip(&hashes) {
            if let Some(sub) = self.subs.get_mut(*id) {
                sub.0 = Sub::Leaf(*hash);
            }
        }
        for height in std::mem::take(&mut self.nodes) {
            inputs.clear();
            hashes.clear();
            inputs.extend(height.iter().map(|node| {
                let mut input = [0; 64];
                let (left, right) = input.split_at_mut(32);
                left.copy_from_slice(&self.get(node.left).0.hash());
                right.copy_from_slice(&self.get(node.right).0.hash());
                input
            }));
            H::hash_many(Domain::Node, &inputs, &mut hashes);
            for (node, hash) in height.iter().zip(&hashes) {
                if let Some(sub) = self.subs.get_mut(node.id) {
                    sub.0 = Sub::Node(*hash);
                }
            }
        }
    }

    /// A subtree; after [`Forest::hash`], if it was joined.
    pub fn sub(&self, id: Id) -> Sub {
        self.get(id.0).0
    }
}
