//! The transition itself: one height over a view (protocol.md section 6, order of effects).

use std::collections::BTreeMap;

use plasma_core::block::{block_root, chain_hash};
use plasma_core::certificate::{ATTESTATION_REACH, Certificate, WINDOW, attestation_digest};
use plasma_core::code::Code;
use plasma_core::coin::Deposit;
use plasma_core::event::{OBSERVATION_REACH, RootEvent, event_hash, observation_digest};
use plasma_core::proposal::{Observed, Proposal};
use plasma_core::smt::Leaf;
use plasma_core::state::{
    BlockRecord, CoinRecord, TIP_KEY, Tip, block_key, certificate_key, coin_key, deposit_key,
    encode_deposit,
};
use plasma_core::transfer::WireTransfer;
use plasma_core::tx::{Tx, executed_bitmap};
use plasma_core::{Address, B256, BlockNumber, CoinId};

use crate::outcome::{Executed, Outcome, Refusal, TxResult};
use crate::view::{
    Authorised, Coin, ReadError, View, chain_hash_at, find_coin, judge, judge_all, record,
};
use crate::{Chain, Hasher, Verifier};

/// Whether a transaction may stand in the block, and what it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TxVerdict {
    /// It executed.
    Done(TxResult),
    /// A single transfer that does not execute; nothing changed.
    Transfer(Code),
    /// A bundle of which fewer than half execute; nothing changed.
    Bundle {
        /// Executable transfers.
        executed: usize,
        /// Listed transfers.
        count: usize,
    },
    /// The height lists too many transfers with it; nothing changed.
    TooMany,
}

/// A height in the making.
pub struct Execution<'a, V, R> {
    chain: &'a Chain,
    view: &'a V,
    verifier: &'a R,
    tip: Tip,
    /// Number of the plasma block that takes this height's transfers.
    block: BlockNumber,
    coins: BTreeMap<CoinId, CoinRecord>,
    deposits: Vec<Deposit>,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    listed: u64,
    leaves: Vec<Leaf>,
    certified: Option<BlockNumber>,
    frozen: Vec<CoinId>,
    thawed: Vec<CoinId>,
    gone: Vec<(CoinId, Address)>,
}

/// The tip of a view.
fn read_tip(view: &impl View) -> Result<Tip, ReadError> {
    record(view, &TIP_KEY, Tip::decode)?.ok_or_else(|| ReadError::Missing { key: TIP_KEY.to_vec() })
}

impl<'a, V: View, R: Verifier> Execution<'a, V, R> {
    /// Starts height `height` over the state of the height before it.
    pub fn new(
        chain: &'a Chain,
        view: &'a V,
        verifier: &'a R,
        height: u64,
    ) -> Result<Self, Refusal> {
        let tip = read_tip(view)?;
        if tip.height + 1 != height {
            return Err(Refusal::Height { height, tip: tip.height });
        }
        Ok(Self {
            chain,
            view,
            verifier,
            tip: Tip { height, ..tip },
            block: tip.next_block(),
            coins: BTreeMap::new(),
            deposits: Vec::new(),
            writes: BTreeMap::new(),
            listed: 0,
            leaves: Vec::new(),
            certified: None,
            frozen: Vec::new(),
            thawed: Vec::new(),
            gone: Vec::new(),
        })
    }

    /// Accepts a certificate. Of each window the state keeps the highest.
    pub fn certificate(&mut self, certificate: &Certificate) -> Result<(), Refusal> {
        let number = certificate.number;
        let (last, closed) = (self.tip.last_certified, self.tip.last_closed);
        if number <= last || number > closed.min(last + ATTESTATION_REACH) {
            return Err(Refusal::CertificateNumber { number, last, closed });
        }
        let set = &self.chain.validators;
        let hash = chain_hash_at(self.view, &self.chain.domain, number)?;
        let digest = attestation_digest(&self.chain.domain, number, hash, set.id());
        let signed: Vec<_> =
            certificate.signatures.iter().map(|signature| (digest, *signature)).collect();
        let mut signers = self.verifier.recover_all(&signed).into_iter();
        certificate
            .verify(set, digest, |_, _| signers.next().flatten())
            .map_err(|source| Refusal::Certificate { number, source })?;

        let mut value = Vec::new();
        certificate.encode(&mut value);
        self.writes.insert(certificate_key(number).to_vec(), Some(value));
        if last != 0 && (last - 1) / WINDOW == (number - 1) / WINDOW {
            self.writes.insert(certificate_key(last).to_vec(), None);
        }
        self.tip.last_certified = number;
        self.certified = Some(number);
        Ok(())
    }

    /// Checks the observations against the listed events and applies those that more than two
    /// thirds of the power observed.
    pub fn events(&mut self, observations: &[Observed], events: &[Vec<u8>]) -> Result<(), Refusal> {
        let cursor = self.tip.event_count;
        for o in observations {
            let count = o.event_count;
            if count <= cursor || count > cursor.saturating_add(OBSERVATION_REACH) {
                return Err(Refusal::ObservationRange { validator: o.validator, count, cursor });
            }
        }
        let highest = observations.iter().map(|o| o.event_count).max().unwrap_or(cursor);
        let (found, expected) = (events.len() as u64, highest - cursor);
        if found != expected {
            return Err(Refusal::EventCount { found, expected });
        }
        if observations.is_empty() {
            return Ok(());
        }
        // hashes[i] is the queue's hash at cursor + i.
        let mut hashes = vec![self.tip.event_hash];
        for e in events {
            hashes.push(event_hash(hashes[hashes.len() - 1], e));
        }
        self.check_observations(observations, &hashes)?;
        let count = self.observed_by_quorum(observations);
        if count == cursor {
            return Err(Refusal::CursorStays { cursor });
        }
        for e in &events[..(count - cursor) as usize] {
            self.apply_event(e)?;
        }
        self.tip.event_count = count;
        self.tip.event_hash = hashes[(count - cursor) as usize];
        Ok(())
    }

    fn check_observations(
        &self,
        observations: &[Observed],
        hashes: &[B256],
    ) -> Result<(), Refusal> {
        let digests: Vec<_> = observations
            .iter()
            .map(|o| {
                let hash = hashes[(o.event_count - self.tip.event_count) as usize];
                (observation_digest(&self.chain.domain, o.event_count, hash), o.signature)
            })
            .collect();
        let signers = self.verifier.recover_all(&digests);
        for (o, signer) in observations.iter().zip(signers) {
            if signer != Some(self.chain.validators.validators()[o.validator].root_key) {
                let (validator, count) = (o.validator, o.event_count);
                return Err(Refusal::Observation { validator, count });
            }
        }
        Ok(())
    }

    /// The largest n such that more than two thirds of the power observed a count >= n; the
    /// cursor if there is none above it.
    fn observed_by_quorum(&self, observations: &[Observed]) -> u64 {
        let mut counts: Vec<(u64, u64)> = observations
            .iter()
            .map(|o| (o.event_count, self.chain.validators.validators()[o.validator].power))
            .collect();
        counts.sort_unstable_by_key(|(count, _)| std::cmp::Reverse(*count));
        let mut power = 0u128;
        for (count, of) in counts {
            power += u128::from(of);
            if self.chain.validators.is_quorum(power) {
                return count;
            }
        }
        self.tip.event_count
    }

    /// Applying an event never fails: one that makes no sense is counted and ignored.
    fn apply_event(&mut self, e: &[u8]) -> Result<(), ReadError> {
        let applied = match RootEvent::decode(e) {
            None => false,
            Some(RootEvent::Deposited(deposit)) => self.apply_deposit(deposit),
            Some(
                event @ (RootEvent::ExitStarted(coin)
                | RootEvent::Thawed(coin)
                | RootEvent::ExitFinalized(coin)),
            ) => self.mark(coin, event)?,
        };
        if !applied {
            self.tip.ignored += 1;
        }
        Ok(())
    }

    fn apply_deposit(&mut self, deposit: Deposit) -> bool {
        let last = deposit.first_coin.checked_add(u64::from(deposit.count) - 1);
        let follows = self.tip.last_deposit.checked_add(1) == Some(deposit.deposit_id)
            && self.tip.last_coin.checked_add(1) == Some(deposit.first_coin);
        let Some(last) = last.filter(|_| follows) else { return false };
        self.writes
            .insert(deposit_key(deposit.deposit_id).to_vec(), Some(encode_deposit(&deposit)));
        self.tip.last_deposit = deposit.deposit_id;
        self.tip.last_coin = last;
        self.deposits.push(deposit);
        true
    }

    /// Changes the flags of a coin; false if it is unknown or gone.
    fn mark(&mut self, coin: CoinId, event: RootEvent) -> Result<bool, ReadError> {
        let Some(Coin { record: before, .. }) = self.coin(coin)? else { return Ok(false) };
        if before.gone {
            return Ok(false);
        }
        let mut record = before;
        match event {
            RootEvent::ExitStarted(_) => record.frozen = true,
            RootEvent::Thawed(_) => record.frozen = false,
            RootEvent::ExitFinalized(_) => record.gone = true,
            RootEvent::Deposited(_) => return Ok(false),
        }
        if record != before {
            self.coins.insert(coin, record);
            match event {
                RootEvent::ExitStarted(_) => self.frozen.push(coin),
                RootEvent::Thawed(_) => self.thawed.push(coin),
                _ => self.gone.push((coin, record.owner)),
            }
        }
        Ok(true)
    }

    /// A coin as this height has left it so far.
    pub fn coin(&self, coin: CoinId) -> Result<Option<Coin>, ReadError> {
        if let Some(record) = self.coins.get(&coin) {
            return Ok(Some(Coin { record: *record, deposit: None }));
        }
        if let Some(deposit) = self.deposits.iter().find(|deposit| deposit.contains(coin)) {
            let record = CoinRecord::unmoved(&deposit.state(coin, &self.chain.domain));
            return Ok(Some(Coin { record, deposit: Some(*deposit) }));
        }
        find_coin(self.view, &self.chain.domain, coin)
    }

    /// Has the signers of all transfers that can still execute recovered in one batch, for a
    /// verifier that works in parallel and remembers. Changes no verdict.
    pub fn warm<'t>(&self, txs: impl Iterator<Item = &'t Tx>) -> Result<(), ReadError> {
        let mut signed = Vec::new();
        for transfer in txs.flat_map(Tx::transfers) {
            let coin = self.coin(transfer.coin)?;
            if let Ok(t) = judge(transfer, coin.as_ref(), self.block, &self.chain.domain) {
                signed.push((t.transfer.digest(&self.chain.domain), t.signature));
            }
        }
        self.verifier.recover_all(&signed);
        Ok(())
    }

    /// Plasma blocks that a transaction's coins have rested: the fewest of its members that may
    /// still execute, signatures aside; none if there is no such member.
    pub fn rested(&self, tx: &Tx) -> Result<Option<u64>, ReadError> {
        let mut fewest = None;
        for transfer in tx.transfers() {
            let coin = self.coin(transfer.coin)?;
            if let Ok(t) = judge(transfer, coin.as_ref(), self.block, &self.chain.domain) {
                let rested = self.block - t.transfer.prev_block;
                fewest = Some(fewest.map_or(rested, |least: u64| least.min(rested)));
            }
        }
        Ok(fewest)
    }

    /// Executes a transaction, or changes nothing.
    pub fn tx(&mut self, tx: &Tx) -> Result<TxVerdict, ReadError> {
        let transfers = tx.transfers();
        if self.listed + transfers.len() as u64 > self.chain.params.max_height_transfers {
            return Ok(TxVerdict::TooMany);
        }
        let find = |coin| self.coin(coin);
        let domain = &self.chain.domain;
        let verdicts = judge_all(transfers, find, self.block, domain, self.verifier)?;
        let executed = verdicts.iter().filter(|verdict| verdict.is_ok()).count();
        let count = transfers.len();
        match tx {
            Tx::Transfer(_) => {
                if let Some(Err(code)) = verdicts.first() {
                    return Ok(TxVerdict::Transfer(*code));
                }
            }
            Tx::Bundle(_) if 2 * executed < count => {
                return Ok(TxVerdict::Bundle { executed, count });
            }
            Tx::Bundle(_) => {}
        }
        self.listed += count as u64;
        let done: Vec<bool> = verdicts.iter().map(Result::is_ok).collect();
        let mut result = TxResult { data: executed_bitmap(&done), executed: Vec::new() };
        for (transfer, Authorised { from, hash, .. }) in
            transfers.iter().zip(verdicts).filter_map(|(t, verdict)| Some((t, verdict.ok()?)))
        {
            result.executed.push(self.move_coin(transfer, from, hash));
        }
        Ok(TxVerdict::Done(result))
    }

    fn move_coin(&mut self, transfer: &WireTransfer, from: Address, hash: B256) -> Executed {
        let record = CoinRecord {
            owner: transfer.new_owner,
            block: self.block,
            hash,
            max_block: transfer.max_block,
            signature: transfer.signature,
            frozen: false,
            gone: false,
        };
        self.coins.insert(transfer.coin, record);
        self.leaves.push(Leaf { coin: transfer.coin, hash });
        if self.tip.open == 0 {
            self.tip.open = self.block;
            self.tip.opened_at = self.tip.height;
        }
        self.tip.open_count += 1;
        Executed { coin: transfer.coin, from, to: transfer.new_owner, hash }
    }

    /// The plasma block that closes at the end of this height, judged after its transfers.
    pub fn closes(&self) -> Option<BlockNumber> {
        let Tip { height, open, opened_at, open_count, .. } = self.tip;
        let params = &self.chain.params;
        let aged = height - opened_at + 1 >= params.max_heights;
        (open != 0 && (aged || open_count >= params.max_transfers)).then_some(open)
    }

    /// Ends the height. `open_leaves` are the leaves that earlier heights put into the open block;
    /// `results` those of the listed transactions without the proposal.
    pub fn finish(
        mut self,
        open_leaves: &[Leaf],
        hasher: &impl Hasher,
        results: Vec<TxResult>,
    ) -> Result<Outcome, ReadError> {
        let mut closed = None;
        if let Some(number) = self.closes() {
            let tree = hasher.tree([open_leaves, &self.leaves].concat());
            assert_eq!(
                tree.leaves().len() as u64,
                self.tip.open_count,
                "the open block's leaves are all there"
            );
            let root = block_root(tree.root());
            let previous = chain_hash_at(self.view, &self.chain.domain, self.tip.last_closed)?;
            let record = BlockRecord {
                root,
                chain_hash: chain_hash(previous, number, root),
                height: self.tip.height,
            };
            self.writes.insert(block_key(number).to_vec(), Some(record.encode()));
            self.tip.last_closed = number;
            self.tip.open = 0;
            self.tip.opened_at = 0;
            self.tip.open_count = 0;
            closed = Some((number, record, tree));
        }
        for (coin, record) in &self.coins {
            self.writes.insert(coin_key(*coin).to_vec(), Some(record.encode()));
        }
        self.writes.insert(TIP_KEY.to_vec(), Some(self.tip.encode()));
        let mut all_results = vec![TxResult::default()];
        all_results.extend(results);
        Ok(Outcome {
            tip: self.tip,
            writes: self.writes.into_iter().collect(),
            results: all_results,
            leaves: self.leaves,
            closed,
            certified: self.certified,
            deposits: self.deposits,
            frozen: self.frozen,
            thawed: self.thawed,
            gone: self.gone,
        })
    }
}

/// Judges and executes a whole block: ProcessProposal and FinalizeBlock.
pub fn execute<B: AsRef<[u8]>>(
    chain: &Chain,
    view: &impl View,
    verifier: &impl Verifier,
    hasher: &impl Hasher,
    height: u64,
    txs: &[B],
    open_leaves: &[Leaf],
) -> Result<Outcome, Refusal> {
    let mut execution = Execution::new(chain, view, verifier, height)?;
    let (first, rest) = txs.split_first().ok_or(Refusal::NoProposal)?;
    let proposal =
        Proposal::decode(first.as_ref(), chain.validators.len()).map_err(Refusal::Proposal)?;
    let mut parsed = Vec::with_capacity(rest.len());
    let mut listed = 0u64;
    for (i, bytes) in rest.iter().enumerate() {
        let tx =
            Tx::decode(bytes.as_ref()).map_err(|source| Refusal::Tx { index: i + 1, source })?;
        listed += tx.transfers().len() as u64;
        if listed > chain.params.max_height_transfers {
            return Err(Refusal::TooManyTransfers { max: chain.params.max_height_transfers });
        }
        parsed.push(tx);
    }
    if let Some(certificate) = &proposal.certificate {
        execution.certificate(certificate)?;
    }
    execution.events(&proposal.observations, &proposal.events)?;
    execution.warm(parsed.iter())?;
    let mut results = Vec::with_capacity(parsed.len());
    for (i, tx) in parsed.iter().enumerate() {
        let index = i + 1;
        match execution.tx(tx)? {
            TxVerdict::Done(result) => results.push(result),
            TxVerdict::Transfer(code) => return Err(Refusal::Transfer { index, code }),
            TxVerdict::Bundle { executed, count } => {
                return Err(Refusal::Bundle { index, executed, count });
            }
            TxVerdict::TooMany => {
                let max = chain.params.max_height_transfers;
                return Err(Refusal::TooManyTransfers { max });
            }
        }
    }
    let (expected, found) = (execution.closes(), proposal.closing);
    if expected != found.map(|(number, _)| number) {
        let found = found.map(|(number, _)| number);
        return Err(Refusal::Closing { found, expected });
    }
    let outcome = execution.finish(open_leaves, hasher, results)?;
    match (&outcome.closed, found) {
        (Some((number, record, _)), Some((_, root))) if record.root != root => {
            Err(Refusal::Root { number: *number, found: root, expected: record.root })
        }
        _ => Ok(outcome),
    }
}
