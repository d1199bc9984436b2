//! The committed state at one version: what Query, CheckTx and every proposal read.

use std::sync::{Arc, PoisonError, RwLock};

use plasma_core::CoinId;
use plasma_core::state::{PARAMS_KEY, Params, TIP_KEY, Tip, VALIDATORS_KEY, decode_validators};
use plasma_ledger::{Chain, DepositIndex, ReadError, View};
use plasma_store::{Store, Version};

/// The index of deposits, shared by all views: it only grows, and a view that meets a deposit of
/// a later height finds it absent in its version.
pub type SharedDeposits = Arc<RwLock<DepositIndex>>;

/// An immutable view of one committed version.
#[derive(Clone)]
pub struct Committed {
    store: Arc<dyn Store>,
    deposits: SharedDeposits,
    /// The chain's constants.
    pub chain: Arc<Chain>,
    /// The version: CometBFT's height.
    pub version: Version,
    /// The position record at that version.
    pub tip: Tip,
}

/// A required record of the state.
fn required(store: &dyn Store, version: Version, key: &[u8]) -> Result<Vec<u8>, ReadError> {
    store
        .get(version, key)
        .map_err(|error| ReadError::Store(error.to_string()))?
        .ok_or_else(|| ReadError::Missing { key: key.to_vec() })
}

impl Committed {
    /// The view of `version`, with the constants that the state itself holds.
    pub fn load(
        store: Arc<dyn Store>,
        deposits: SharedDeposits,
        version: Version,
    ) -> Result<Self, ReadError> {
        let record = |key: &[u8], error: &dyn std::fmt::Display| {
            ReadError::Store(format!("record {key:02x?}: {error}"))
        };
        let params = Params::decode(&required(&*store, version, &PARAMS_KEY)?)
            .map_err(|error| record(&PARAMS_KEY, &error))?;
        let validators = decode_validators(&required(&*store, version, &VALIDATORS_KEY)?)
            .map_err(|error| record(&VALIDATORS_KEY, &error))?;
        let chain = Arc::new(Chain::new(params, validators));
        Self { store, deposits, chain, version, tip: Tip::default() }.at(version)
    }

    /// The view of another version of the same chain.
    pub fn at(&self, version: Version) -> Result<Self, ReadError> {
        let tip = Tip::decode(&required(&*self.store, version, &TIP_KEY)?)
            .map_err(|source| ReadError::Record { key: TIP_KEY.to_vec(), source })?;
        Ok(Self { version, tip, ..self.clone() })
    }

    /// The view after a commit whose tip is known.
    pub fn next(&self, tip: Tip) -> Self {
        Self { version: tip.height, tip, ..self.clone() }
    }

    /// The store underneath.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The index of deposits.
    pub fn deposits(&self) -> &SharedDeposits {
        &self.deposits
    }
}

impl View for Committed {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.store.get(self.version, key).map_err(|error| ReadError::Store(error.to_string()))
    }

    fn deposit_below(&self, coin: CoinId) -> Option<u64> {
        self.deposits.read().unwrap_or_else(PoisonError::into_inner).find(coin)
    }
}
