//! The EIP-712 domain that binds every hash and signature to one contract on one Ethereum chain.
//!
//! `separator = keccak(abi.encode(keccak("EIP712Domain(string name,string version,uint256 chainId,
//! address verifyingContract)"), keccak("Plasma Cash"), keccak("1"), chainId, verifyingContract))`;
//! a digest is `keccak(0x1901 || separator || hashStruct)`.

use std::sync::LazyLock;

use alloy_primitives::{Address, B256, keccak256};

static DOMAIN_TYPE: LazyLock<B256> = LazyLock::new(|| {
    keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
});

/// The domain of one deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Domain {
    /// Ethereum's chain id.
    pub chain_id: u64,
    /// The RootChain contract.
    pub root_chain: Address,
    /// The EIP-712 domain separator.
    pub separator: B256,
}

impl Domain {
    /// Computes the separator.
    pub fn new(chain_id: u64, root_chain: Address) -> Self {
        let mut words = Words::new(*DOMAIN_TYPE);
        words.hash(keccak256("Plasma Cash"));
        words.hash(keccak256("1"));
        words.u64(chain_id);
        words.address(root_chain);
        Self { chain_id, root_chain, separator: words.keccak() }
    }

    /// The EIP-712 digest of a struct hash.
    pub fn digest(&self, struct_hash: B256) -> B256 {
        let mut message = [0u8; 66];
        message[..2].copy_from_slice(&[0x19, 0x01]);
        message[2..34].copy_from_slice(self.separator.as_slice());
        message[34..].copy_from_slice(struct_hash.as_slice());
        keccak256(message)
    }
}

/// Solidity's `abi.encode` of static values: 32-byte words after a type hash, in a fixed buffer
/// because a digest is computed for every transfer.
pub(crate) struct Words {
    bytes: [u8; 256],
    len: usize,
}

impl Words {
    pub(crate) fn new(type_hash: B256) -> Self {
        let mut words = Self { bytes: [0; 256], len: 0 };
        words.hash(type_hash);
        words
    }

    pub(crate) fn hash(&mut self, value: B256) {
        self.bytes[self.len..self.len + 32].copy_from_slice(value.as_slice());
        self.len += 32;
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.hash(B256::left_padding_from(&value.to_be_bytes()));
    }

    pub(crate) fn address(&mut self, value: Address) {
        self.hash(value.into_word());
    }

    pub(crate) fn keccak(&self) -> B256 {
        keccak256(&self.bytes[..self.len])
    }
}
