//! A chain whose state is a map: heights are executed and their writes applied.

use std::collections::BTreeMap;

use plasma_core::certificate::{Certificate, attestation_digest};
use plasma_core::coin::{CoinState, Deposit, asset};
use plasma_core::event::{RootEvent, event_hash, observation_digest};
use plasma_core::proposal::{Observed, Proposal};
use plasma_core::smt::Leaf;
use plasma_core::state::{BlockRecord, Params, TIP_KEY, Tip, block_key};
use plasma_core::transfer::SignedTransfer;
use plasma_core::validators::{Validator, ValidatorSet};
use plasma_core::{Address, B256, CoinId, U256};
use plasma_ledger::{
    Chain, DepositIndex, Execution, Outcome, ReadError, Refusal, SerialHasher, SerialVerifier,
    View, execute, find_coin,
};
use plasma_testkit::{key, sign};

/// The state at the last height.
#[derive(Default)]
pub struct MapView {
    pub map: BTreeMap<Vec<u8>, Vec<u8>>,
    deposits: DepositIndex,
}

impl View for MapView {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        Ok(self.map.get(key).cloned())
    }

    fn deposit_below(&self, coin: CoinId) -> Option<u64> {
        self.deposits.find(coin)
    }
}

/// A chain of three validators of powers 4, 3 and 2: the first two are a quorum, the first and
/// the last have exactly two thirds.
pub struct Ledger {
    pub chain: Chain,
    pub view: MapView,
    open_leaves: Vec<Leaf>,
    deposits: (u64, CoinId),
}

pub const LIMITS: Params = Params {
    chain_id: 1,
    root_chain: Address::repeat_byte(0xcc),
    max_transfers: 1_000,
    max_height_transfers: 1_000,
    max_heights: 2,
    extension_pad_bytes: 0,
    scheme: String::new(),
};

const POWERS: [u64; 3] = [4, 3, 2];

impl Ledger {
    pub fn new(params: Params) -> Self {
        let validators = POWERS.iter().enumerate().map(|(i, power)| Validator {
            root_key: key(100 + i as u64).address(),
            power: *power,
            consensus_key: [i as u8; 32],
        });
        let set = ValidatorSet::new(1, validators.collect()).unwrap();
        let chain = Chain::new(params, set);
        let mut view = MapView::default();
        for (key, value) in chain.genesis_writes() {
            view.map.insert(key, value.unwrap());
        }
        Self { chain, view, open_leaves: Vec::new(), deposits: (1, 1) }
    }

    pub fn tip(&self) -> Tip {
        Tip::decode(&self.view.map[&TIP_KEY[..]]).unwrap()
    }

    pub fn coin(&self, coin: CoinId) -> CoinState {
        let found = find_coin(&self.view, &self.chain.domain, coin).unwrap().unwrap();
        found.record.state(coin)
    }

    /// A valid transfer of a coin of `owner`'s to `to`, both seeds.
    pub fn transfer(&self, coin: CoinId, owner: u64, to: u64) -> SignedTransfer {
        sign(&self.coin(coin), key(to).address(), 1_000_000, &key(owner), &self.chain.domain)
    }

    /// The contract's next deposit.
    pub fn deposit(&mut self, owner: Address, count: u16) -> Deposit {
        let (deposit_id, first_coin) = self.deposits;
        self.deposits = (deposit_id + 1, first_coin + u64::from(count));
        Deposit {
            deposit_id,
            first_coin,
            count,
            owner,
            asset_kind: asset::ETH,
            token: Address::ZERO,
            token_id: U256::ZERO,
            value: U256::from(1),
            deposit_block: 0,
        }
    }

    /// A proposal with `events`, which the validators have read as far as `counts` says (events
    /// after the cursor; 0 = none).
    pub fn observed(&self, events: &[Vec<u8>], counts: [usize; 3]) -> Proposal {
        let tip = self.tip();
        let mut hashes = vec![tip.event_hash];
        for e in events {
            hashes.push(event_hash(hashes[hashes.len() - 1], e));
        }
        let observed = |(validator, count): (usize, usize)| {
            let event_count = tip.event_count + count as u64;
            let digest = observation_digest(&self.chain.domain, event_count, hashes[count]);
            let signature = key(100 + validator as u64).sign(digest);
            Observed { validator, event_count, signature }
        };
        let counts = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
        let observations = counts.map(observed).collect();
        Proposal { observations, events: events.to_vec(), ..Proposal::default() }
    }

    /// A proposal whose events everybody has read.
    pub fn events(&self, events: &[RootEvent]) -> Proposal {
        let bytes: Vec<_> = events.iter().map(RootEvent::encode).collect();
        self.observed(&bytes, [bytes.len(); 3])
    }

    /// A certificate of a closed block by the validators given.
    pub fn certificate(&self, number: u64, signers: &[usize]) -> Certificate {
        let record = BlockRecord::decode(&self.view.map[&block_key(number)[..]]).unwrap();
        let digest = attestation_digest(&self.chain.domain, number, record.chain_hash, 1);
        let signed: Vec<_> =
            signers.iter().map(|i| (*i, key(100 + *i as u64).sign(digest))).collect();
        Certificate::new(number, 3, &signed)
    }

    /// Judges the next height without applying it.
    pub fn judge(&self, proposal: &Proposal, txs: &[Vec<u8>]) -> Result<Outcome, Refusal> {
        let mut block = vec![proposal.encode()];
        block.extend_from_slice(txs);
        let (height, open) = (self.tip().height + 1, &self.open_leaves);
        let (verifier, hasher) = (&SerialVerifier, &SerialHasher);
        execute(&self.chain, &self.view, verifier, hasher, height, &block, open)
    }

    /// Completes a proposal with the root that the height closes with, if it closes.
    pub fn close(&self, mut proposal: Proposal, txs: &[Vec<u8>]) -> Proposal {
        let Err(Refusal::Closing { expected: Some(number), .. }) = self.judge(&proposal, txs)
        else {
            return proposal;
        };
        proposal.closing = Some((number, B256::ZERO));
        if let Err(Refusal::Root { expected, .. }) = self.judge(&proposal, txs) {
            proposal.closing = Some((number, expected));
        }
        proposal
    }

    /// Runs a height, which must be valid.
    pub fn run(&mut self, proposal: Proposal, txs: &[Vec<u8>]) -> Outcome {
        let proposal = self.close(proposal, txs);
        let outcome = self.judge(&proposal, txs).unwrap();
        for (key, value) in &outcome.writes {
            match value {
                Some(value) => self.view.map.insert(key.clone(), value.clone()),
                None => self.view.map.remove(key),
            };
        }
        outcome.deposits.iter().for_each(|deposit| self.view.deposits.push(deposit));
        match outcome.closed {
            Some(_) => self.open_leaves.clear(),
            None => self.open_leaves.extend_from_slice(&outcome.leaves),
        }
        assert_eq!(outcome.tip, self.tip());
        outcome
    }

    /// Makes coins of the key `owner`.
    pub fn credit(&mut self, owner: u64, count: u16) {
        let deposit = self.deposit(key(owner).address(), count);
        self.run(self.events(&[RootEvent::Deposited(deposit)]), &[]);
    }

    /// The next height in the making, as a proposer sees it.
    pub fn execution(&self) -> Execution<'_, MapView, SerialVerifier> {
        let height = self.tip().height + 1;
        Execution::new(&self.chain, &self.view, &SerialVerifier, height).unwrap()
    }
}
