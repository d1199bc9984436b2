//! Transfers: digest, wire form, full form and the `Child` relation (protocol.md section 2).
//!
//! Digest: EIP-712 of `Transfer(uint64 coin,uint64 prevBlock,bytes32 prevHash,address newOwner,
//! uint64 maxBlock)`.
//!
//! | form | bytes |
//! |---|---|
//! | wire `T` | varint coin, newOwner:20, varint maxBlock, signature:64 |
//! | full `X` | coin:8, prevBlock:8, prevHash:32, newOwner:20, maxBlock:8, signature:64 |
//!
//! The wire form omits what it spends: the node takes it from the coin's state, so the same bytes
//! mean different messages in different states and are never the key of a verdict.

use std::sync::LazyLock;

use alloy_primitives::{Address, B256, keccak256};

use crate::coin::CoinState;
use crate::domain::{Domain, Words};
use crate::signature::{BadSignature, Signature, SigningKey};
use crate::wire::{Reader, WireError, put_varint};
use crate::{BlockNumber, CoinId};

static TRANSFER_TYPE: LazyLock<B256> = LazyLock::new(|| {
    keccak256(
        "Transfer(uint64 coin,uint64 prevBlock,bytes32 prevHash,address newOwner,uint64 maxBlock)",
    )
});

/// The signed message: `coin` leaves the state (`prev_block`, `prev_hash`) for `new_owner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The coin.
    pub coin: CoinId,
    /// Plasma block of the state being spent.
    pub prev_block: BlockNumber,
    /// Hash of the state being spent.
    pub prev_hash: B256,
    /// The receiver.
    pub new_owner: Address,
    /// Void in every plasma block above this one.
    pub max_block: BlockNumber,
}

impl Transfer {
    /// The transfer's hash: its EIP-712 digest, without the signature.
    pub fn digest(&self, domain: &Domain) -> B256 {
        let mut words = Words::new(*TRANSFER_TYPE);
        words.u64(self.coin);
        words.u64(self.prev_block);
        words.hash(self.prev_hash);
        words.address(self.new_owner);
        words.u64(self.max_block);
        domain.digest(words.keccak())
    }

    /// The message that spends `state`.
    pub fn spending(state: &CoinState, new_owner: Address, max_block: BlockNumber) -> Self {
        Self {
            coin: state.coin,
            prev_block: state.block,
            prev_hash: state.hash,
            new_owner,
            max_block,
        }
    }

    /// Signs the message.
    pub fn sign(self, key: &SigningKey, domain: &Domain) -> SignedTransfer {
        self.with_signature(key.sign(self.digest(domain)))
    }

    /// Completes the message with its signature.
    pub fn with_signature(self, signature: Signature) -> SignedTransfer {
        SignedTransfer { transfer: self, signature }
    }
}

/// A transfer with its signature, complete: form `X`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedTransfer {
    /// The message.
    pub transfer: Transfer,
    /// The owner's signature over its digest.
    pub signature: Signature,
}

/// Why a transfer is not the valid child of a state. In the order of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChildError {
    /// The transfer names another coin.
    #[error("the transfer is of coin {found}, not {expected}")]
    WrongCoin {
        /// The coin in question.
        expected: CoinId,
        /// The transfer's coin.
        found: CoinId,
    },
    /// It spends another state, or its new owner is zero or the contract.
    #[error("the transfer does not spend this state, or its new owner is not allowed")]
    NotChild,
    /// The signature is malformed or not the owner's.
    #[error("the signature is malformed or not the owner's")]
    BadSignature,
    /// The block is not above the spent state's.
    #[error("block {block} is not above the spent state's block {parent}")]
    NotAfterParent {
        /// The transfer's block.
        block: BlockNumber,
        /// The spent state's block.
        parent: BlockNumber,
    },
    /// The block is above `max_block`.
    #[error("block {block} is above the transfer's maxBlock {max_block}")]
    Expired {
        /// The transfer's block.
        block: BlockNumber,
        /// The last block in which it counts.
        max_block: BlockNumber,
    },
}

impl From<BadSignature> for ChildError {
    fn from(_: BadSignature) -> Self {
        Self::BadSignature
    }
}

impl SignedTransfer {
    /// Bytes of form `X`.
    pub const ENCODED_LEN: usize = 8 + 8 + 32 + 20 + 8 + 64;

    /// Form `X`.
    pub fn encode(&self) -> [u8; Self::ENCODED_LEN] {
        let Transfer { coin, prev_block, prev_hash, new_owner, max_block } = self.transfer;
        let mut out = [0u8; Self::ENCODED_LEN];
        out[..8].copy_from_slice(&coin.to_be_bytes());
        out[8..16].copy_from_slice(&prev_block.to_be_bytes());
        out[16..48].copy_from_slice(prev_hash.as_slice());
        out[48..68].copy_from_slice(new_owner.as_slice());
        out[68..76].copy_from_slice(&max_block.to_be_bytes());
        out[76..].copy_from_slice(&self.signature.0);
        out
    }

    /// Reads form `X`.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            transfer: Transfer {
                coin: reader.u64()?,
                prev_block: reader.u64()?,
                prev_hash: reader.hash()?,
                new_owner: reader.address()?,
                max_block: reader.u64()?,
            },
            signature: Signature(reader.array()?),
        })
    }

    /// The wire form: what is broadcast.
    pub fn wire(&self) -> WireTransfer {
        WireTransfer {
            coin: self.transfer.coin,
            new_owner: self.transfer.new_owner,
            max_block: self.transfer.max_block,
            signature: self.signature,
        }
    }

    /// `Child(self in block, parent)`: the state that this transfer creates when it is included
    /// in plasma block `block` and spends `parent`.
    pub fn child_of(
        &self,
        parent: &CoinState,
        block: BlockNumber,
        domain: &Domain,
    ) -> Result<CoinState, ChildError> {
        let t = &self.transfer;
        if t.coin != parent.coin {
            return Err(ChildError::WrongCoin { expected: parent.coin, found: t.coin });
        }
        if t.prev_block != parent.block
            || t.prev_hash != parent.hash
            || !owner_allowed(t.new_owner, domain)
        {
            return Err(ChildError::NotChild);
        }
        let hash = t.digest(domain);
        if self.signature.recover(hash)? != parent.owner {
            return Err(ChildError::BadSignature);
        }
        if block <= parent.block {
            return Err(ChildError::NotAfterParent { block, parent: parent.block });
        }
        if block > t.max_block {
            return Err(ChildError::Expired { block, max_block: t.max_block });
        }
        Ok(CoinState { coin: t.coin, owner: t.new_owner, block, hash })
    }
}

/// Whether coins may be sent to `owner`: not zero, not the contract itself.
pub fn owner_allowed(owner: Address, domain: &Domain) -> bool {
    owner != Address::ZERO && owner != domain.root_chain
}

/// A transfer as broadcast: form `T`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireTransfer {
    /// The coin.
    pub coin: CoinId,
    /// The receiver.
    pub new_owner: Address,
    /// Void in every plasma block above this one.
    pub max_block: BlockNumber,
    /// The owner's signature over the digest that the coin's state completes.
    pub signature: Signature,
}

impl WireTransfer {
    /// Fewest bytes of form `T`.
    pub const ENCODED_LEN_MIN: usize = 1 + 20 + 1 + 64;

    /// Appends form `T`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.coin);
        out.extend_from_slice(self.new_owner.as_slice());
        put_varint(out, self.max_block);
        out.extend_from_slice(&self.signature.0);
    }

    /// Reads form `T`.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            coin: reader.varint()?,
            new_owner: reader.address()?,
            max_block: reader.varint()?,
            signature: Signature(reader.array()?),
        })
    }

    /// The message that these bytes mean while the coin is in the state (`block`, `hash`).
    pub fn spending(&self, block: BlockNumber, hash: B256) -> SignedTransfer {
        SignedTransfer {
            transfer: Transfer {
                coin: self.coin,
                prev_block: block,
                prev_hash: hash,
                new_owner: self.new_owner,
                max_block: self.max_block,
            },
            signature: self.signature,
        }
    }
}
