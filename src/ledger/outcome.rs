//! What a height does, and why a block is refused.

use plasma_core::archive::BlockTree;
use plasma_core::certificate::CertificateError;
use plasma_core::code::Code;
use plasma_core::coin::Deposit;
use plasma_core::smt::Leaf;
use plasma_core::state::{BlockRecord, Tip};
use plasma_core::tx::TxError;
use plasma_core::wire::WireError;
use plasma_core::{Address, B256, BlockNumber, CoinId};

use crate::view::ReadError;

/// A transfer that executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed {
    /// The coin.
    pub coin: CoinId,
    /// The owner until now.
    pub from: Address,
    /// The new owner.
    pub to: Address,
    /// The transfer's digest.
    pub hash: B256,
}

/// The result of one listed transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TxResult {
    /// ABCI result data: empty, or the bitmap of a bundle with skipped members.
    pub data: Vec<u8>,
    /// The transfers that executed, in order.
    pub executed: Vec<Executed>,
}

/// A block number, its record and its tree, when a plasma block closes.
pub type Closed = (BlockNumber, BlockRecord, BlockTree);

/// Everything that a height does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The chain's position after the height.
    pub tip: Tip,
    /// Writes by ascending key; the only deletions are superseded certificates.
    pub writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// One result for each transaction, the proposal's first.
    pub results: Vec<TxResult>,
    /// Leaves that the height adds to the open (or just closed) plasma block.
    pub leaves: Vec<Leaf>,
    /// The plasma block that closes.
    pub closed: Option<Closed>,
    /// Block number of the certificate that was accepted.
    pub certified: Option<BlockNumber>,
    /// Deposits applied.
    pub deposits: Vec<Deposit>,
    /// Coins frozen by an exit, ascending by event.
    pub frozen: Vec<CoinId>,
    /// Coins thawed.
    pub thawed: Vec<CoinId>,
    /// Coins whose exit won, with their last owner.
    pub gone: Vec<(CoinId, Address)>,
}

/// The rule that a block breaks (protocol.md section 6, "ProcessProposal").
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The state could not be read: no verdict.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The block does not follow the state.
    #[error("height {height} does not follow the state's height {tip}")]
    Height {
        /// The block's height.
        height: u64,
        /// The state's height.
        tip: u64,
    },
    /// No proposal comes first.
    #[error("the block has no proposal")]
    NoProposal,
    /// The proposal does not decode.
    #[error("the proposal does not decode: {0}")]
    Proposal(WireError),
    /// A certificate of a block that cannot be certified now.
    #[error("certificate of block {number}: last certified {last}, newest closed {closed}")]
    CertificateNumber {
        /// The certified block.
        number: BlockNumber,
        /// The last certified block.
        last: BlockNumber,
        /// The newest closed block.
        closed: BlockNumber,
    },
    /// A certificate that proves nothing.
    #[error("certificate of block {number}: {source}")]
    Certificate {
        /// The certified block.
        number: BlockNumber,
        /// Why.
        source: CertificateError,
    },
    /// An observation outside c < count <= c + 1,000.
    #[error("validator {validator} observed {count} events, the cursor is {cursor}")]
    ObservationRange {
        /// The validator.
        validator: usize,
        /// Its count.
        count: u64,
        /// The cursor.
        cursor: u64,
    },
    /// The number of events is not the largest observed count less the cursor.
    #[error("{found} events listed, {expected} expected")]
    EventCount {
        /// How many are listed.
        found: u64,
        /// How many the observations call for.
        expected: u64,
    },
    /// An observation that its validator did not sign over these events.
    #[error("the observation of validator {validator} at {count} is not over these events")]
    Observation {
        /// The validator.
        validator: usize,
        /// Its count.
        count: u64,
    },
    /// Events that no more than two thirds observed.
    #[error("the cursor {cursor} would not advance")]
    CursorStays {
        /// The cursor.
        cursor: u64,
    },
    /// A transaction that does not decode, or a second proposal.
    #[error("transaction {index}: {source}")]
    Tx {
        /// Its place in the block.
        index: usize,
        /// Why.
        source: TxError,
    },
    /// A single transfer that does not execute.
    #[error("transaction {index}: {}", code.name())]
    Transfer {
        /// Its place in the block.
        index: usize,
        /// Why.
        code: Code,
    },
    /// A bundle of which fewer than half execute.
    #[error("transaction {index}: {executed} of {count} transfers execute")]
    Bundle {
        /// Its place in the block.
        index: usize,
        /// Executable transfers.
        executed: usize,
        /// Listed transfers.
        count: usize,
    },
    /// More transfers than a height may list.
    #[error("more than {max} transfers listed")]
    TooManyTransfers {
        /// The limit.
        max: u64,
    },
    /// The proposal closes another block than the one that closes at this height.
    #[error("the proposal closes block {found:?}, expected {expected:?}")]
    Closing {
        /// The proposal's number.
        found: Option<BlockNumber>,
        /// The number that closes, if any.
        expected: Option<BlockNumber>,
    },
    /// Another root.
    #[error("block {number} closes with root {expected}, the proposal says {found}")]
    Root {
        /// The closing block.
        number: BlockNumber,
        /// The proposal's root.
        found: B256,
        /// The computed root.
        expected: B256,
    },
}
