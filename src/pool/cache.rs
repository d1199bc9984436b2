//! Signatures that were verified: (digest, signature) to signer.
//!
//! The key is the digest, which is computed from the coin's state each time, and never the wire
//! bytes: an old transfer's bytes mean another message once the coin has come back to its sender.
//! Memory is bounded by two generations: when the young one is full it becomes the old one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::thread;

use plasma_core::signature::Signature;
use plasma_core::{Address, B256};
use plasma_ledger::Verifier;

/// Fewest signatures for which another thread pays (a recovery takes some 40 us).
const PARALLEL_MIN: usize = 16;

type Key = (B256, Signature);
type Signer = Option<Address>;

#[derive(Default)]
struct Generations {
    young: HashMap<Key, Signer>,
    old: HashMap<Key, Signer>,
}

/// Remembers signers, at most twice `capacity` of them.
pub struct SignatureCache {
    generations: Mutex<Generations>,
    capacity: usize,
    workers: usize,
}

impl SignatureCache {
    /// A cache that recovers on `workers` threads.
    pub fn new(capacity: usize, workers: usize) -> Self {
        Self { generations: Mutex::default(), capacity, workers: workers.max(1) }
    }

    fn recover_missing(&self, missing: &[Key]) -> Vec<Signer> {
        let recover = |(digest, signature): &Key| signature.recover(*digest).ok();
        if self.workers == 1 || missing.len() < PARALLEL_MIN {
            return missing.iter().map(recover).collect();
        }
        let share = missing.len().div_ceil(self.workers);
        thread::scope(|scope| {
            let threads: Vec<_> = missing
                .chunks(share)
                .map(|part| scope.spawn(move || part.iter().map(recover).collect::<Vec<_>>()))
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
                .collect()
        })
    }
}

impl Verifier for SignatureCache {
    fn recover_all(&self, signed: &[Key]) -> Vec<Signer> {
        let mut signers = vec![None; signed.len()];
        let mut missing = Vec::new();
        {
            let generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
            for (i, key) in signed.iter().enumerate() {
                match generations.young.get(key).or_else(|| generations.old.get(key)) {
                    Some(signer) => signers[i] = *signer,
                    None => missing.push((i, *key)),
                }
            }
        }
        if missing.is_empty() {
            return signers;
        }
        let keys: Vec<Key> = missing.iter().map(|(_, key)| *key).collect();
        let recovered = self.recover_missing(&keys);
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        for ((i, key), signer) in missing.into_iter().zip(recovered) {
            signers[i] = signer;
            if generations.young.len() >= self.capacity {
                generations.old = std::mem::take(&mut generations.young);
            }
            generations.young.insert(key, signer);
        }
        signers
    }
}
