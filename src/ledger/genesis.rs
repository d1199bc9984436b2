//! Genesis: the application state in CometBFT's genesis file (formats.md "Genesis app_state").

use plasma_core::state::{PARAMS_KEY, Params, TIP_KEY, Tip, VALIDATORS_KEY, encode_validators};
use plasma_core::validators::{SetError, Validator, ValidatorSet};
use plasma_core::{Address, B256};
use serde::{Deserialize, Serialize};

use crate::Chain;

/// The one set id of version 1.
const VALIDATOR_SET_ID: u64 = 1;

/// `app_state` of genesis.json; unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// Ethereum's chain id.
    pub chain_id: u64,
    /// The RootChain contract.
    pub root_chain: Address,
    /// Store scheme, e.g. `jmt-sha256/1`.
    pub store: String,
    /// Limits of plasma blocks.
    pub params: GenesisParams,
    /// Id of the validator set; 1.
    pub validator_set_id: u64,
    /// The validators, power descending, then root key ascending.
    pub validators: Vec<GenesisValidator>,
}

/// Limits of plasma blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenesisParams {
    /// Transfers at which a plasma block closes.
    pub max_transfers: u64,
    /// Most transfers that one height may list.
    pub max_height_transfers: u64,
    /// Most heights of a plasma block.
    pub max_heights: u64,
    /// Length to which vote extensions are padded; 0 except in QA sweeps.
    pub extension_pad_bytes: u64,
}

/// One validator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenesisValidator {
    /// CometBFT's ed25519 key, base64.
    pub consensus_key: String,
    /// Address of the root key.
    pub root_key: Address,
    /// Voting power.
    pub power: u64,
}

/// Why a genesis is refused.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The JSON is not an app state.
    #[error("app_state: {0}")]
    Json(#[from] serde_json::Error),
    /// A consensus key that is not 32 bytes in base64.
    #[error("validator {0}: consensus_key is not an ed25519 key in base64")]
    ConsensusKey(usize),
    /// The validators make no set.
    #[error("validators: {0}")]
    Set(#[from] SetError),
    /// Another set id.
    #[error("validator_set_id is {0}, must be 1")]
    SetId(u64),
    /// A limit that stops the chain.
    #[error("{0} must be at least 1")]
    Limit(&'static str),
    /// The contract's address is zero.
    #[error("root_chain is zero")]
    RootChain,
    /// A scheme's name above 255 bytes.
    #[error("store names no scheme")]
    Scheme,
    /// The padding does not fit a vote.
    #[error("extension_pad_bytes is {0}, at most 1048576")]
    Padding(u64),
    /// CometBFT's genesis validators differ.
    #[error("CometBFT's genesis validators are not those of app_state")]
    Validators,
}

impl Genesis {
    /// Reads `app_state_bytes`.
    pub fn parse(json: &[u8]) -> Result<Self, GenesisError> {
        Ok(serde_json::from_slice(json)?)
    }

    /// Checks everything and gives the chain's constants.
    pub fn chain(&self) -> Result<Chain, GenesisError> {
        if self.validator_set_id != VALIDATOR_SET_ID {
            return Err(GenesisError::SetId(self.validator_set_id));
        }
        if self.root_chain == Address::ZERO {
            return Err(GenesisError::RootChain);
        }
        if self.store.is_empty() || self.store.len() > 255 {
            return Err(GenesisError::Scheme);
        }
        let p = self.params;
        for (name, value) in [
            ("max_transfers", p.max_transfers),
            ("max_height_transfers", p.max_height_transfers),
            ("max_heights", p.max_heights),
        ] {
            if value == 0 {
                return Err(GenesisError::Limit(name));
            }
        }
        // CometBFT takes votes of less than 1 MiB.
        if p.extension_pad_bytes > 1 << 20 {
            return Err(GenesisError::Padding(p.extension_pad_bytes));
        }
        let mut validators = Vec::with_capacity(self.validators.len());
        for (i, v) in self.validators.iter().enumerate() {
            let consensus_key =
                decode_key(&v.consensus_key).ok_or(GenesisError::ConsensusKey(i))?;
            validators.push(Validator { root_key: v.root_key, power: v.power, consensus_key });
        }
        let set = ValidatorSet::new(self.validator_set_id, validators)?;
        let params = Params {
            chain_id: self.chain_id,
            root_chain: self.root_chain,
            max_transfers: p.max_transfers,
            max_height_transfers: p.max_height_transfers,
            max_heights: p.max_heights,
            extension_pad_bytes: p.extension_pad_bytes,
            scheme: self.store.clone(),
        };
        Ok(Chain::new(params, set))
    }
}

fn decode_key(text: &str) -> Option<[u8; 32]> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).ok()?.try_into().ok()
}

impl Chain {
    /// The writes of version 0.
    pub fn genesis_writes(&self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let tip = Tip { event_hash: B256::ZERO, ..Tip::default() };
        vec![
            (TIP_KEY.to_vec(), Some(tip.encode())),
            (PARAMS_KEY.to_vec(), Some(self.params.encode())),
            (VALIDATORS_KEY.to_vec(), Some(encode_validators(&self.validators))),
        ]
    }

    /// Checks CometBFT's genesis validators, (ed25519 key, power) in any order.
    pub fn check_validators(&self, given: &[([u8; 32], u64)]) -> Result<(), GenesisError> {
        let mut own: Vec<_> =
            self.validators.validators().iter().map(|v| (v.consensus_key, v.power)).collect();
        let mut given = given.to_vec();
        own.sort_unstable();
        given.sort_unstable();
        if own == given { Ok(()) } else { Err(GenesisError::Validators) }
    }
}
