//! The calls of the exit game as values: what the model and the contract are both told.
//!
//! Every byte string is as the contract gets it, so that wrong lengths and encodings can be
//! played. The names and the order of arguments are those of `formats.md`, "Contract".

use plasma_core::coin::CoinState;
use plasma_core::domain::Domain;
use plasma_core::exit::authorization_digest;
use plasma_core::signature::SigningKey;
use plasma_core::smt::{Leaf, root_of};
use plasma_core::transfer::Transfer;
use plasma_core::{Address, B256, BlockNumber, CoinId, U256};

/// A transaction to the contract.
#[derive(Debug, Clone)]
pub struct Tx {
    /// Unix seconds of its Ethereum block.
    pub time: u64,
    /// Who sends it.
    pub sender: Address,
    /// Wei sent along.
    pub value: U256,
    /// What is called.
    pub call: Call,
}

/// A call of the contract.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields are the contract's arguments")]
pub enum Call {
    DepositEth {
        value: U256,
        count: u16,
    },
    SubmitBlocks(Submission),
    StartExit(ExitStart),
    /// `parent` and `transfer` are not sent.
    StartDepositExit(ExitStart),
    /// An item whose transfer is at block 0 exits the deposit itself.
    StartExits(Vec<ExitStart>),
    ChallengeSpent {
        coin: CoinId,
        exit: u64,
        spend: Shown,
        at: BlockNumber,
        proof: Vec<u8>,
    },
    ChallengeDoubleSpend {
        coin: CoinId,
        exit: u64,
        other: Shown,
    },
    FinalizeExit {
        coin: CoinId,
    },
    FinalizeExits {
        coins: Vec<CoinId>,
    },
    SweepExit {
        coin: CoinId,
        exit: u64,
    },
    CancelExit {
        coin: CoinId,
        exit: u64,
    },
    Withdraw {
        coin: CoinId,
        to: Address,
    },
    WithdrawMany {
        coins: Vec<CoinId>,
        to: Address,
    },
    WithdrawCredits {
        to: Address,
    },
}

impl Call {
    /// The function's name in the contract.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DepositEth { .. } => "depositETH",
            Self::SubmitBlocks(_) => "submitBlocks",
            Self::StartExit(_) => "startExit",
            Self::StartDepositExit(_) => "startDepositExit",
            Self::StartExits(_) => "startExits",
            Self::ChallengeSpent { .. } => "challengeSpent",
            Self::ChallengeDoubleSpend { .. } => "challengeDoubleSpend",
            Self::FinalizeExit { .. } => "finalizeExit",
            Self::FinalizeExits { .. } => "finalizeExits",
            Self::SweepExit { .. } => "sweepExit",
            Self::CancelExit { .. } => "cancelExit",
            Self::Withdraw { .. } => "withdraw",
            Self::WithdrawMany { .. } => "withdrawMany",
            Self::WithdrawCredits { .. } => "withdrawCredits",
        }
    }
}

/// A transfer, its signature and the proof of its inclusion: the contract's `Included`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The block; 0 as a parent: the deposit record.
    pub block: BlockNumber,
    /// The message.
    pub transfer: Transfer,
    /// 64 bytes, unless it is malformed.
    pub signature: Vec<u8>,
    /// The encoded proof.
    pub proof: Vec<u8>,
}

impl Shown {
    /// All zero: as a parent, the deposit record.
    pub fn none() -> Self {
        let transfer = Transfer {
            coin: 0,
            prev_block: 0,
            prev_hash: B256::ZERO,
            new_owner: Address::ZERO,
            max_block: 0,
        };
        Self { block: 0, transfer, signature: Vec::new(), proof: Vec::new() }
    }

    /// The state that the transfer makes in its block, valid or not.
    pub fn state(&self, domain: &Domain) -> CoinState {
        CoinState {
            coin: self.transfer.coin,
            owner: self.transfer.new_owner,
            block: self.block,
            hash: self.transfer.digest(domain),
        }
    }
}

/// What opens an exit.
#[derive(Debug, Clone)]
pub struct ExitStart {
    /// The coin.
    pub coin: CoinId,
    /// Its deposit.
    pub deposit_id: u64,
    /// The state that is spent.
    pub parent: Shown,
    /// The exiting transfer.
    pub transfer: Shown,
    /// Consent of the beneficiary; empty if he sends it himself.
    pub consent: Consent,
    /// An open exit after which to insert.
    pub hint: u64,
}

/// An owner's `ExitAuthorization`.
#[derive(Debug, Clone, Default)]
pub struct Consent {
    /// Last second in which it counts.
    pub not_after: u64,
    /// Empty: none is shown.
    pub signature: Vec<u8>,
}

impl Consent {
    /// Signs one.
    pub fn sign(coin: CoinId, hash: B256, not_after: u64, key: &SigningKey, on: &Domain) -> Self {
        let digest = authorization_digest(on, coin, hash, not_after);
        Self { not_after, signature: key.sign(digest).0.to_vec() }
    }
}

/// Roots and their certificate.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Number of the first.
    pub first: BlockNumber,
    /// The blocks.
    pub blocks: Vec<PlasmaBlock>,
    /// The validators, as hashed.
    pub set: Vec<u8>,
    /// Who signed.
    pub bitmap: Vec<u8>,
    /// The signatures, end to end.
    pub signatures: Vec<u8>,
}

/// A plasma block: what the contract stores and what only the model sees.
#[derive(Debug, Clone)]
pub struct PlasmaBlock {
    /// Root of the leaves, or a lie.
    pub root: B256,
    /// The leaves, sorted by path.
    pub leaves: Vec<Leaf>,
}

impl PlasmaBlock {
    /// The block with these leaves, in any order.
    pub fn new(mut leaves: Vec<Leaf>) -> Self {
        leaves.sort_unstable_by_key(Leaf::path);
        Self { root: plasma_core::block::block_root(root_of(&leaves)), leaves }
    }
}

/// The contract's errors that this game can meet, by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "exit-game.md and formats.md give each its condition")]
pub enum Refusal {
    BadCount,
    ZeroValue,
    WrongAmount,
    BadRecipient,
    EthTransferFailed,
    NoCredits,
    NotNext,
    NoRoots,
    TooManyRoots,
    ZeroRoot,
    WrongSet,
    BadBitmap,
    BadSignatures,
    NotEnoughPower,
    NotActive,
    WrongDeposit,
    NotIncluded,
    BeforeDeposit,
    NotAfterParent,
    WrongCoin,
    NotChild,
    BadSignature,
    Expired,
    NotAuthorised,
    ExitExists,
    WrongBond,
    NoExit,
    ExitClosed,
    NotSameTransfer,
    DepositExit,
    SameTransfer,
    NotBefore,
    TooEarly,
    OnHold,
    NotExited,
    OtherExitsOpen,
    AlreadyWithdrawn,
    NotBeneficiary,
}
