//! Random heights against a model that knows owners and flags only.

use std::collections::BTreeMap;

use plasma_core::block::{block_root, chain_hash, chain_hash_genesis};
use plasma_core::event::RootEvent;
use plasma_core::smt::{Leaf, root_of};
use plasma_core::state::{BlockRecord, Params, block_key};
use plasma_core::transfer::SignedTransfer;
use plasma_ledger::find_coin;
use plasma_testkit::{bundle, key, sign, single};
use proptest::prelude::*;

use crate::state::{LIMITS, Ledger};

const COINS: u16 = 24;

/// A transfer that somebody tries: of a coin, to an owner, signed by the owner or a thief.
#[derive(Debug, Clone, Copy)]
struct Try {
    coin: u64,
    to: u64,
    honest: bool,
}

#[derive(Debug, Clone)]
struct Height {
    events: Vec<(u8, u64)>,
    bundles: Vec<Vec<Try>>,
}

fn heights() -> impl Strategy<Value = Vec<Height>> {
    let attempt = (1..=u64::from(COINS) + 1, 1..5u64, prop::bool::weighted(0.8))
        .prop_map(|(coin, to, honest)| Try { coin, to, honest });
    let bundle = prop::collection::vec(attempt, 1..6).prop_map(|mut tries| {
        tries.sort_by_key(|t| t.coin);
        tries.dedup_by_key(|t| t.coin);
        tries
    });
    let event = (0..3u8, 1..=u64::from(COINS) + 1);
    let height = (prop::collection::vec(event, 0..3), prop::collection::vec(bundle, 0..4))
        .prop_map(|(events, bundles)| Height { events, bundles });
    prop::collection::vec(height, 1..30)
}

#[derive(Debug, Clone, Copy)]
struct Coin {
    owner: u64,
    frozen: bool,
    gone: bool,
    /// Block of the last move.
    block: u64,
}

struct Model {
    coins: BTreeMap<u64, Coin>,
    /// Block in the making, heights that it has been open, its coins.
    block: u64,
    age: u64,
    open: BTreeMap<u64, plasma_core::B256>,
    ignored: u64,
}

impl Model {
    fn event(&mut self, kind: u8, coin: u64) {
        match self.coins.get_mut(&coin) {
            Some(coin) if !coin.gone => match kind {
                0 => coin.frozen = true,
                1 => coin.frozen = false,
                _ => coin.gone = true,
            },
            _ => self.ignored += 1,
        }
    }

    fn can_move(&self, t: &Try) -> bool {
        let block = self.block;
        let movable = |coin: &Coin| !coin.frozen && !coin.gone && coin.block < block;
        t.honest && self.coins.get(&t.coin).is_some_and(movable)
    }

    /// The members that execute, if the transaction may stand in a block.
    fn execute(&mut self, tries: &[Try]) -> Option<Vec<Try>> {
        let done: Vec<Try> = tries.iter().copied().filter(|t| self.can_move(t)).collect();
        if 2 * done.len() < tries.len() {
            return None;
        }
        for t in &done {
            let coin = self.coins.get_mut(&t.coin)?;
            (coin.owner, coin.block) = (t.to, self.block);
        }
        Some(done)
    }
}

/// What the model's owner signs over the ledger's state.
fn signed(ledger: &Ledger, model: &Model, t: &Try) -> SignedTransfer {
    let domain = &ledger.chain.domain;
    let signer = match model.coins.get(&t.coin) {
        Some(coin) if t.honest => coin.owner,
        _ => 77,
    };
    let found = find_coin(&ledger.view, domain, t.coin).unwrap();
    let state = found.map_or(ledger.coin(1), |coin| coin.record.state(t.coin));
    let mut transfer = sign(&state, key(t.to).address(), 1_000, &key(signer), domain);
    transfer.transfer.coin = t.coin;
    transfer
}

/// Runs one height in both; the transactions that the model refuses must be refused alone too.
fn run(ledger: &mut Ledger, model: &mut Model, height: &Height) {
    let events: Vec<RootEvent> = height
        .events
        .iter()
        .map(|(kind, coin)| match kind {
            0 => RootEvent::ExitStarted(*coin),
            1 => RootEvent::Thawed(*coin),
            _ => RootEvent::ExitFinalized(*coin),
        })
        .collect();
    let proposal = ledger.events(&events);
    height.events.iter().for_each(|(kind, coin)| model.event(*kind, *coin));
    let mut txs = Vec::new();
    for tries in &height.bundles {
        let members: Vec<_> = tries.iter().map(|t| signed(ledger, model, t)).collect();
        let bytes = if let [one] = members[..] { single(&one) } else { bundle(&members) };
        let mut with = txs.clone();
        with.push(bytes);
        let judged = ledger.judge(&ledger.close(proposal.clone(), &with), &with);
        match model.execute(tries) {
            Some(done) => {
                for t in done {
                    let at = tries.iter().position(|member| member.coin == t.coin).unwrap();
                    let digest = members[at].transfer.digest(&ledger.chain.domain);
                    model.open.insert(t.coin, digest);
                }
                txs = with;
                judged.unwrap();
            }
            None => assert!(judged.is_err()),
        }
    }
    let outcome = ledger.run(proposal, &txs);
    model.age += u64::from(!model.open.is_empty());
    let params = &ledger.chain.params;
    let full = model.open.len() as u64 >= params.max_transfers;
    let closes = model.age >= params.max_heights || full;
    assert_eq!(outcome.closed.is_some(), closes);
    if closes {
        check_closed(ledger, model);
        model.block += 1;
        model.age = 0;
        model.open.clear();
    }
}

/// The closed block's record is the root of the model's leaves, chained.
fn check_closed(ledger: &Ledger, model: &Model) {
    let read = |n: u64| BlockRecord::decode(&ledger.view.map[&block_key(n)[..]]).unwrap();
    let record = read(model.block);
    let leaves: Vec<_> =
        model.open.iter().map(|(coin, hash)| Leaf { coin: *coin, hash: *hash }).collect();
    let root = block_root(root_of(&leaves));
    let previous = match model.block {
        1 => chain_hash_genesis(&ledger.chain.domain),
        n => read(n - 1).chain_hash,
    };
    assert_eq!((record.root, record.chain_hash), (root, chain_hash(previous, model.block, root)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_ledger_is_a_map_of_owners(
        heights in heights(),
        max_heights in 1..4u64,
        max_transfers in 1..12u64,
    ) {
        let mut ledger = Ledger::new(Params { max_heights, max_transfers, ..LIMITS });
        ledger.credit(1, COINS);
        let coin = Coin { owner: 1, frozen: false, gone: false, block: 0 };
        let coins = (1..=u64::from(COINS)).map(|id| (id, coin)).collect();
        let mut model = Model { coins, block: 1, age: 0, open: BTreeMap::new(), ignored: 0 };
        for height in &heights {
            run(&mut ledger, &mut model, height);
            for (id, coin) in &model.coins {
                let found = find_coin(&ledger.view, &ledger.chain.domain, *id).unwrap().unwrap();
                let record = found.record;
                prop_assert_eq!(record.owner, key(coin.owner).address());
                prop_assert_eq!((record.frozen, record.gone), (coin.frozen, coin.gone));
                prop_assert_eq!(record.block, coin.block);
            }
            let tip = ledger.tip();
            prop_assert_eq!(tip.open_count, model.open.len() as u64);
            prop_assert_eq!((tip.next_block(), tip.ignored), (model.block, model.ignored));
        }
    }
}
