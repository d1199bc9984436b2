//! A coin's verified history: what a receiver checks (protocol.md section 7) and a watcher keeps.
//!
//! Every block since the deposit either includes a transfer at the coin or excludes the coin,
//! against roots that the caller has read from Ethereum. A [`History`] takes the blocks one by
//! one, so that only new ones are ever checked, and keeps each inclusion with its proof, valid or
//! not; exclusions are checked and forgotten (the [portable file](crate::history_file) has them).
//!
//! An inclusion is judged as the valid child of the state before it, or else as garbage. A leaf
//! commits to a transfer without its signature, so whoever shows a bad signature may hide a good
//! one: [`History::learn`] replaces what it has by a better showing and judges anew.
//!
//! Stored form, whose judgements are trusted as the owner's own file:
//!
//! | field | bytes |
//! |---|---|
//! | version | `01` |
//! | chain id, RootChain | 8, 20 |
//! | coin, deposit id, deposit as in the state | 8, 8, 123 |
//! | last checked block | 8 |
//! | number of inclusions | varint |
//! | each, ascending: block, judgement (0 garbage, 1 child), `X`, proof | varint, 1, 140, proof |

use plasma_core::coin::{CoinState, Deposit};
use plasma_core::domain::Domain;
use plasma_core::smt::{Proof, ProofError};
use plasma_core::state::{decode_deposit, encode_deposit};
use plasma_core::transfer::{ChildError, SignedTransfer};
use plasma_core::wire::{Reader, WireError, put_varint};
use plasma_core::{B256, BlockNumber, CoinId};

use crate::challenge::Inclusion;
use crate::queries::CoinProof;
use crate::rpc::{NodeClient, RpcError};

const VERSION: u8 = 1;
/// Bytes of a deposit's value in the state.
const DEPOSIT_LEN: usize = 123;

/// What is wrong with a history, and at which block.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The deposit did not create the coin.
    #[error("deposit {deposit_id} did not create coin {coin}")]
    WrongDeposit {
        /// The coin in question.
        coin: CoinId,
        /// The deposit.
        deposit_id: u64,
    },
    /// The block's root is not on Ethereum.
    #[error("block {0}: no root on Ethereum")]
    NoRoot(BlockNumber),
    /// Nobody shows what the block holds at the coin.
    #[error("block {0}: data missing")]
    Missing(BlockNumber),
    /// What is shown for the block is no proof at all.
    #[error("block {block}: no usable proof: {cause}")]
    Malformed {
        /// The block.
        block: BlockNumber,
        /// Why.
        cause: String,
    },
    /// The proof does not lead to the root.
    #[error("block {block}: bad proof: {source}")]
    Proof {
        /// The block.
        block: BlockNumber,
        /// Why.
        source: ProofError,
    },
    /// The block includes something that is no valid child: garbage.
    #[error("block {block}: garbage: {source}")]
    Garbage {
        /// The block.
        block: BlockNumber,
        /// Why it is no child.
        source: ChildError,
    },
    /// The node failed.
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

/// What a checked block holds at the coin.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Absent,
    /// The valid child of the state before.
    Moved,
    /// Something else. A receiver refuses the coin, its owner exits; a watcher goes on.
    Garbage(ChildError),
}

/// What `startExit` needs of a state: its transfer with the parent's (none: the deposit), both
/// included; none for the deposit itself.
pub type ExitPair = Option<(Option<Inclusion>, Inclusion)>;

/// A coin's history up to a block, verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    domain: Domain,
    coin: CoinId,
    deposit: Deposit,
    checked: BlockNumber,
    /// Ascending; above `checked` only what was learned from others.
    included: Vec<Inclusion>,
    /// Whether each is the valid child of the last valid one before it.
    valid: Vec<bool>,
}

impl History {
    /// The history of a coin at its deposit; the contract has that record, which needs no proof.
    pub fn new(coin: CoinId, deposit: Deposit, domain: Domain) -> Result<Self, HistoryError> {
        if !deposit.contains(coin) {
            return Err(HistoryError::WrongDeposit { coin, deposit_id: deposit.deposit_id });
        }
        let checked = deposit.deposit_block;
        Ok(Self { domain, coin, deposit, checked, included: Vec::new(), valid: Vec::new() })
    }

    /// The coin.
    pub fn coin(&self) -> CoinId {
        self.coin
    }

    /// Its deposit.
    pub fn deposit(&self) -> &Deposit {
        &self.deposit
    }

    /// The contract that holds it.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The last block of those that were checked without a gap; the deposit's block at first.
    pub fn checked(&self) -> BlockNumber {
        self.checked
    }

    /// Every known inclusion at the coin, ascending: of all checked blocks, and what was learned
    /// of others. [`refute`](crate::challenge::refute) wants them all.
    pub fn included(&self) -> &[Inclusion] {
        &self.included
    }

    /// The valid transfers up to the last checked block, ascending.
    pub fn moves(&self) -> impl DoubleEndedIterator<Item = &Inclusion> {
        self.valid_ones().filter(|shown| shown.block <= self.checked)
    }

    fn valid_ones(&self) -> impl DoubleEndedIterator<Item = &Inclusion> {
        self.included.iter().zip(&self.valid).filter(|(_, valid)| **valid).map(|(shown, _)| shown)
    }

    fn state_of(&self, last: Option<&Inclusion>) -> CoinState {
        match last {
            None => self.deposit.state(self.coin, &self.domain),
            Some(Inclusion { block, transfer, .. }) => CoinState {
                coin: self.coin,
                owner: transfer.transfer.new_owner,
                block: *block,
                hash: transfer.transfer.digest(&self.domain),
            },
        }
    }

    /// The state after the last checked block.
    pub fn state(&self) -> CoinState {
        self.state_of(self.moves().next_back())
    }

    /// The last state that is reachable by valid transfers, learned ones included, with what its
    /// exit needs.
    pub fn claim(&self) -> (CoinState, ExitPair) {
        let mut backwards = self.valid_ones().rev();
        let last = backwards.next();
        let pair = last.map(|last| (backwards.next().cloned(), last.clone()));
        (self.state_of(last), pair)
    }

    /// The first checked block that holds garbage, and why it is garbage.
    pub fn garbage(&self) -> Option<(BlockNumber, ChildError)> {
        let at = self.valid.iter().position(|valid| !valid)?;
        let shown = self.included.get(at).filter(|shown| shown.block <= self.checked)?;
        let before = self.state_of(at.checked_sub(1).and_then(|last| self.included.get(last)));
        let judged = shown.transfer.child_of(&before, shown.block, &self.domain);
        judged.err().map(|source| (shown.block, source))
    }

    /// Refuses a history with garbage, as a receiver must.
    pub fn refuse_garbage(&self) -> Result<(), HistoryError> {
        match self.garbage() {
            Some((block, source)) => Err(HistoryError::Garbage { block, source }),
            None => Ok(()),
        }
    }

    /// Checks the next block. Garbage is kept and is no error here: see [`Step::Garbage`]. After
    /// an error the history is as before.
    pub fn extend(&mut self, root: Option<B256>, shown: &CoinProof) -> Result<Step, HistoryError> {
        // Above the last number of all there is no block: its root is missing.
        let block = self.checked.saturating_add(1);
        let root = root.ok_or(HistoryError::NoRoot(block))?;
        self.check_proof(block, root, shown.transfer.as_ref(), &shown.proof)?;
        let step = match shown.transfer {
            None => Step::Absent,
            Some(transfer) => self.put(Inclusion { block, transfer, proof: shown.proof.clone() }),
        };
        self.checked = block;
        Ok(step)
    }

    /// Keeps an inclusion that somebody shows, of any block after the deposit's: evidence on
    /// Ethereum, a sender, a second node. `root` is the block's, read from Ethereum.
    pub fn learn(&mut self, root: B256, shown: Inclusion) -> Result<Step, HistoryError> {
        if shown.block <= self.deposit.deposit_block {
            return Err(HistoryError::Garbage {
                block: shown.block,
                source: ChildError::NotAfterParent {
                    block: shown.block,
                    parent: self.deposit.deposit_block,
                },
            });
        }
        self.check_proof(shown.block, root, Some(&shown.transfer), &shown.proof)?;
        Ok(self.put(shown))
    }

    /// Takes it that the coin is absent from every block up to `checked`: by the owner's own record
    /// of what he has checked before.
    pub fn resume(&mut self, checked: BlockNumber) {
        self.checked = self.checked.max(checked);
    }

    fn check_proof(
        &self,
        block: BlockNumber,
        root: B256,
        transfer: Option<&SignedTransfer>,
        proof: &Proof,
    ) -> Result<(), HistoryError> {
        let hash = transfer.map(|transfer| transfer.transfer.digest(&self.domain));
        let checked = proof.verify(root, self.coin, hash);
        checked.map(drop).map_err(|source| HistoryError::Proof { block, source })
    }

    /// Puts a proven inclusion in its place, and judges it and those after it.
    fn put(&mut self, shown: Inclusion) -> Step {
        let at = self.included.partition_point(|known| known.block < shown.block);
        let mut known = self.included[..at].iter().zip(&self.valid);
        let before = self.state_of(known.rfind(|(_, valid)| **valid).map(|(known, _)| known));
        let judged = shown.transfer.child_of(&before, shown.block, &self.domain);
        if self.included.get(at).is_some_and(|known| known.block == shown.block) {
            // The same leaf: the transfer is the same, at most its signature is another.
            if self.valid[at] {
                return Step::Moved;
            }
            self.included[at] = shown;
            self.valid[at] = judged.is_ok();
        } else {
            self.included.insert(at, shown);
            self.valid.insert(at, judged.is_ok());
        }
        let mut state = judged.unwrap_or(before);
        for (later, valid) in self.included.iter().zip(&mut self.valid).skip(at + 1) {
            let child = later.transfer.child_of(&state, later.block, &self.domain);
            *valid = child.is_ok();
            state = child.unwrap_or(state);
        }
        judged.map_or_else(Step::Garbage, |_| Step::Moved)
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_head(&mut out, &self.domain, self.coin, &self.deposit);
        out.extend_from_slice(&self.checked.to_be_bytes());
        put_varint(&mut out, self.included.len() as u64);
        for (shown, valid) in self.included.iter().zip(&self.valid) {
            put_varint(&mut out, shown.block);
            out.push((*valid).into());
            out.extend_from_slice(&shown.transfer.encode());
            out.extend_from_slice(&shown.proof.encode());
        }
        out
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8()?;
        if version != VERSION {
            return Err(WireError::Value { what: "a history's version", value: version.into() });
        }
        let (domain, coin, deposit) = read_head(&mut reader)?;
        let wrong = WireError::Value { what: "the coin of a history's deposit", value: coin };
        let mut history = Self::new(coin, deposit, domain).map_err(|_| wrong)?;
        history.checked = reader.u64()?;
        let mut last = history.deposit.deposit_block;
        for _ in 0..reader.varint()? {
            let block = reader.varint()?;
            let valid = reader.u8()?;
            let transfer = SignedTransfer::decode(&mut reader)?;
            let proof = Proof::read(&mut reader).map_err(|error| match error {
                ProofError::Wire(error) => error,
                _ => WireError::Value { what: "the proof of a history's block", value: block },
            })?;
            if block <= last || valid > 1 {
                return Err(WireError::Value { what: "a history's block", value: block });
            }
            last = block;
            history.included.push(Inclusion { block, transfer, proof });
            history.valid.push(valid == 1);
        }
        reader.finish()?;
        Ok(history)
    }
}

/// chainId:8, rootChain:20, coin:8, depositId:8, deposit: what a history is about.
pub(crate) fn put_head(out: &mut Vec<u8>, domain: &Domain, coin: CoinId, deposit: &Deposit) {
    out.extend_from_slice(&domain.chain_id.to_be_bytes());
    out.extend_from_slice(domain.root_chain.as_slice());
    out.extend_from_slice(&coin.to_be_bytes());
    out.extend_from_slice(&deposit.deposit_id.to_be_bytes());
    out.extend_from_slice(&encode_deposit(deposit));
}

/// Bytes that [`put_head`] writes.
pub(crate) const HEAD_LEN: usize = 8 + 20 + 8 + 8 + DEPOSIT_LEN;

pub(crate) fn read_head(reader: &mut Reader<'_>) -> Result<(Domain, CoinId, Deposit), WireError> {
    let domain = Domain::new(reader.u64()?, reader.address()?);
    let (coin, deposit_id) = (reader.u64()?, reader.u64()?);
    let deposit = decode_deposit(deposit_id, reader.take(DEPOSIT_LEN)?)?;
    Ok((domain, coin, deposit))
}

/// Fetches and checks every block up to `newest` from an untrusted node; `roots` are Ethereum's,
/// and `keep` gets what was shown for each block once it is checked. After an error the history
/// holds every block before the one that the error names.
pub async fn follow(
    node: &NodeClient,
    history: &mut History,
    newest: BlockNumber,
    roots: impl Fn(BlockNumber) -> Option<B256>,
    mut keep: impl FnMut(&CoinProof),
) -> Result<(), HistoryError> {
    while history.checked < newest {
        let page = node.coin_proofs(history.coin, history.checked + 1, newest).await?;
        for shown in page {
            let root = roots(history.checked + 1);
            // A receiver asks for garbage afterwards.
            let _ = history.extend(root, &shown)?;
            keep(&shown);
        }
    }
    Ok(())
}
