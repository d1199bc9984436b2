//! A child chain without a node: roots and certificates by test keys.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use plasma_client::rpc::RpcError;
use plasma_core::block::{chain_hash, chain_hash_genesis};
use plasma_core::certificate::{ATTESTATION_REACH, Certificate, WINDOW, attestation_digest};
use plasma_core::domain::Domain;
use plasma_core::signature::SigningKey;
use plasma_core::validators::{Validator, ValidatorSet};
use plasma_core::{Address, B256, BlockNumber};
use plasma_rootchain::relayer::ChildChain;

const CHAIN_ID: u64 = 31_337;

/// Four validators of equal power, and their keys in the set's order.
pub fn validators() -> (ValidatorSet, Vec<SigningKey>) {
    let mut keys: Vec<SigningKey> =
        (1..=4).map(|i| SigningKey::from_bytes([i; 32]).unwrap()).collect();
    keys.sort_by_key(SigningKey::address);
    let set = keys.iter().enumerate().map(|(i, key)| Validator {
        root_key: key.address(),
        power: 10,
        consensus_key: [i as u8 + 1; 32],
    });
    (ValidatorSet::new(1, set.collect()).unwrap(), keys)
}

struct State {
    domain: Domain,
    roots: Vec<B256>,
    /// After each block; the first is before block 1.
    chain_hashes: Vec<B256>,
    certificates: BTreeMap<BlockNumber, Certificate>,
}

/// The child chain.
#[derive(Clone)]
pub struct TestChain(Arc<Mutex<State>>);

impl TestChain {
    pub fn new(root_chain: Address) -> Self {
        let domain = Domain::new(CHAIN_ID, root_chain);
        let chain_hashes = vec![chain_hash_genesis(&domain)];
        let certificates = BTreeMap::new();
        Self(Arc::new(Mutex::new(State { domain, roots: Vec::new(), chain_hashes, certificates })))
    }

    /// Closes so many blocks, without certificates.
    pub fn close(&self, blocks: u64) {
        let mut state = self.0.lock().unwrap();
        for _ in 0..blocks {
            let number = state.roots.len() as u64 + 1;
            let root = B256::left_padding_from(&(number + 1_000_000).to_be_bytes());
            let last = state.chain_hashes[state.roots.len()];
            state.chain_hashes.push(chain_hash(last, number, root));
            state.roots.push(root);
        }
    }

    /// Certifies all closed blocks, in the steps that the protocol takes, by three of four.
    pub fn certify(&self) {
        let (set, keys) = validators();
        let mut state = self.0.lock().unwrap();
        let newest = state.roots.len() as u64;
        let mut number = state.certificates.keys().last().copied().unwrap_or(0);
        while number < newest {
            number = newest.min(number + ATTESTATION_REACH);
            let hash = state.chain_hashes[number as usize];
            let digest = attestation_digest(&state.domain, number, hash, set.id());
            let signed: Vec<_> =
                keys.iter().enumerate().skip(1).map(|(i, key)| (i, key.sign(digest))).collect();
            // The highest of each window is kept.
            state.certificates.retain(|n, _| (n - 1) / WINDOW != (number - 1) / WINDOW);
            state.certificates.insert(number, Certificate::new(number, set.len(), &signed));
        }
    }

    pub fn chain_hash(&self, number: BlockNumber) -> B256 {
        self.0.lock().unwrap().chain_hashes[number as usize]
    }
}

impl ChildChain for TestChain {
    async fn last_certified(&self) -> Result<BlockNumber, RpcError> {
        Ok(self.0.lock().unwrap().certificates.keys().last().copied().unwrap_or(0))
    }

    async fn validators(&self) -> Result<ValidatorSet, RpcError> {
        Ok(validators().0)
    }

    async fn certificate_from(
        &self,
        number: BlockNumber,
        validators: usize,
    ) -> Result<Option<Certificate>, RpcError> {
        assert_eq!(validators, 4);
        let state = self.0.lock().unwrap();
        Ok(state.certificates.range(number..).next().map(|(_, certificate)| certificate.clone()))
    }

    async fn root(&self, number: BlockNumber) -> Result<Option<B256>, RpcError> {
        Ok(self.0.lock().unwrap().roots.get(number as usize - 1).copied())
    }
}
