//! The index of deposits by their first coin, in memory and rebuilt from the state.

use plasma_core::CoinId;
use plasma_core::coin::Deposit;

/// Finds the deposit that may have created a coin. Holds committed deposits only; a reader at an
/// earlier height finds that the deposit is absent there.
#[derive(Debug, Clone, Default)]
pub struct DepositIndex {
    /// (first coin, deposit id), ascending in both: coins are numbered in order of deposit.
    firsts: Vec<(CoinId, u64)>,
}

impl DepositIndex {
    /// Adds the next deposit.
    ///
    /// # Panics
    /// If its coins do not follow those of the last one (the ledger ignores such events).
    pub fn push(&mut self, deposit: &Deposit) {
        assert!(
            self.firsts.last().is_none_or(|(first, _)| *first < deposit.first_coin),
            "deposits are applied in order"
        );
        self.firsts.push((deposit.first_coin, deposit.deposit_id));
    }

    /// The id of the last deposit whose first coin is at most `coin`.
    pub fn find(&self, coin: CoinId) -> Option<u64> {
        let after = self.firsts.partition_point(|(first, _)| *first <= coin);
        Some(self.firsts.get(after.checked_sub(1)?)?.1)
    }
}
