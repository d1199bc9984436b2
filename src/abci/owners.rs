//! Which coins an address owns: runs of consecutive coin ids, in memory and rebuilt from the state.
//!
//! Kept at the latest version only. A deposit of a thousand coins is one run; a transfer takes its
//! coin out of a run and joins it to its neighbours of the new owner.

use std::collections::BTreeMap;

use plasma_core::{Address, CoinId};

/// Owner index.
#[derive(Debug, Default)]
pub struct Owners {
    /// (owner, first coin) to the length of the run.
    runs: BTreeMap<(Address, CoinId), u64>,
}

impl Owners {
    /// Gives `count` coins from `first` on to `owner`.
    pub fn add(&mut self, owner: Address, first: CoinId, count: u64) {
        let (mut start, mut length) = (first, count);
        if let Some((before, run)) = self.run_at_or_below(owner, first)
            && before + run == first
        {
            start = before;
            length += run;
        }
        if let Some(after) = self.runs.remove(&(owner, first + count)) {
            length += after;
        }
        self.runs.insert((owner, start), length);
    }

    /// Takes a coin from `owner`; nothing happens if it is not his.
    pub fn remove(&mut self, owner: Address, coin: CoinId) {
        let Some((first, length)) = self.run_at_or_below(owner, coin) else { return };
        if coin >= first + length {
            return;
        }
        self.runs.remove(&(owner, first));
        if coin > first {
            self.runs.insert((owner, first), coin - first);
        }
        let after = first + length - coin - 1;
        if after > 0 {
            self.runs.insert((owner, coin + 1), after);
        }
    }

    /// At most `most` runs of an owner's coins above `after`, ascending.
    pub fn runs(&self, owner: Address, after: CoinId, most: usize) -> Vec<(CoinId, u64)> {
        let mut found = Vec::new();
        if let Some((first, length)) = self.run_at_or_below(owner, after)
            && let last = first + length - 1
            && last > after
        {
            found.push((after + 1, last - after));
        }
        let range = (owner, after.saturating_add(1))..=(owner, CoinId::MAX);
        let rest = self.runs.range(range).map(|((_, first), length)| (*first, *length));
        found.extend(rest.take(most.saturating_sub(found.len())));
        found
    }

    fn run_at_or_below(&self, owner: Address, coin: CoinId) -> Option<(CoinId, u64)> {
        let (key, length) = self.runs.range((owner, 0)..=(owner, coin)).next_back()?;
        Some((key.1, *length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_split_and_join() {
        let (a, b) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let mut owners = Owners::default();
        owners.add(a, 1, 10);
        owners.add(a, 11, 5);
        assert_eq!(owners.runs(a, 0, 9), [(1, 15)]);
        owners.remove(a, 4);
        owners.add(b, 4, 1);
        assert_eq!(owners.runs(a, 0, 9), [(1, 3), (5, 11)]);
        assert_eq!(owners.runs(a, 2, 9), [(3, 1), (5, 11)]);
        assert_eq!(owners.runs(a, 2, 1), [(3, 1)]);
        assert!(owners.runs(a, u64::MAX, 9).is_empty());
        owners.remove(b, 4);
        owners.add(a, 4, 1);
        assert_eq!(owners.runs(a, 0, 9), [(1, 15)]);
        owners.remove(a, 99);
        owners.remove(a, 1);
        owners.remove(a, 15);
        assert_eq!(owners.runs(a, 0, 9), [(2, 13)]);
        assert!(owners.runs(b, 0, 9).is_empty());
    }
}
