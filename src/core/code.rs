//! Result codes of transactions, codespace `plasma` (formats.md "Codes").

/// The codespace of every non-zero code.
pub const CODESPACE: &str = "plasma";

/// Why a transaction is refused; numbers are part of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Code {
    /// The transaction has no bytes.
    Empty = 1,
    /// The bytes are the text of a hex number: the caller quoted it.
    QuotedHex = 2,
    /// The bytes are no transaction.
    Malformed = 3,
    /// A `proposal` came from outside.
    ProposalNotAllowed = 4,
    /// More bytes or transfers than a bundle may have.
    TooLarge = 5,
    /// No deposit created the coin.
    UnknownCoin = 6,
    /// The coin was paid out on Ethereum.
    Gone = 7,
    /// An exit of the coin is open on Ethereum.
    Frozen = 8,
    /// The coin already moved in the open plasma block.
    MovedInOpenBlock = 9,
    /// `maxBlock` is below the open plasma block.
    Expired = 10,
    /// The new owner is zero or the contract.
    BadNewOwner = 11,
    /// The signature does not recover to the owner over the coin's current state.
    NotOwner = 12,
    /// The same transfer is pending already.
    AlreadyPending = 13,
    /// Another transfer of the coin is pending.
    CoinPending = 14,
    /// Fewer than half of a bundle's transfers are admissible.
    BundleBelowHalf = 15,
    /// The pool is busy and the coin has not rested long enough.
    NotRested = 16,
    /// The bundle waited too long.
    StaleBundle = 17,
}

impl Code {
    /// Every code, ascending.
    pub const ALL: [Self; 17] = [
        Self::Empty,
        Self::QuotedHex,
        Self::Malformed,
        Self::ProposalNotAllowed,
        Self::TooLarge,
        Self::UnknownCoin,
        Self::Gone,
        Self::Frozen,
        Self::MovedInOpenBlock,
        Self::Expired,
        Self::BadNewOwner,
        Self::NotOwner,
        Self::AlreadyPending,
        Self::CoinPending,
        Self::BundleBelowHalf,
        Self::NotRested,
        Self::StaleBundle,
    ];

    /// The code of `number`, if there is one.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }

    /// The ABCI code.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The stable name, as printed and documented.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::QuotedHex => "quoted_hex",
            Self::Malformed => "malformed",
            Self::ProposalNotAllowed => "proposal_not_allowed",
            Self::TooLarge => "too_large",
            Self::UnknownCoin => "unknown_coin",
            Self::Gone => "gone",
            Self::Frozen => "frozen",
            Self::MovedInOpenBlock => "moved_in_open_block",
            Self::Expired => "expired",
            Self::BadNewOwner => "bad_new_owner",
            Self::NotOwner => "not_owner",
            Self::AlreadyPending => "already_pending",
            Self::CoinPending => "coin_pending",
            Self::BundleBelowHalf => "bundle_below_half",
            Self::NotRested => "not_rested",
            Self::StaleBundle => "stale_bundle",
        }
    }

    /// What it means and what to do, one sentence for the transaction's log.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Empty => "the transaction is empty; pass tx=0x...",
            Self::QuotedHex => "the bytes are hex text: drop the quotes around 0x...",
            Self::Malformed => "the bytes are no transaction",
            Self::ProposalNotAllowed => "only the proposer of a block makes this transaction",
            Self::TooLarge => "a bundle has at most 524,288 bytes and 5,000 transfers",
            Self::UnknownCoin => "no deposit that the chain has seen created this coin",
            Self::Gone => "the coin was withdrawn on Ethereum",
            Self::Frozen => "an exit of the coin is open on Ethereum",
            Self::MovedInOpenBlock => "a coin moves once per plasma block; wait until it closes",
            Self::Expired => "maxBlock is below the current plasma block; sign again",
            Self::BadNewOwner => "the new owner is zero or the RootChain contract",
            Self::NotOwner => {
                "the signature does not recover to the owner over the coin's current state: \
                 wrong key, stale state or foreign domain"
            }
            Self::AlreadyPending => "this transfer is pending already",
            Self::CoinPending => "another transfer of this coin is pending",
            Self::BundleBelowHalf => "fewer than half of the bundle's transfers are admissible",
            Self::NotRested => "the pool is busy: coins that moved recently wait",
            Self::StaleBundle => "the bundle waited too long and was dropped",
        }
    }
}
