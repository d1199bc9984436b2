//! Nodes that miss heights, restart at any of them, and see many candidates.

use bytes::Bytes;
use plasma_abci::application::Application;
use plasma_abci::grammar;
use plasma_core::event::RootEvent;
use plasma_core::proposal::Proposal;
use plasma_testkit::{Network, Options, block_hash, bundle, key, sign, single};
use proptest::prelude::*;
use tendermint_proto::v0_38::abci::{
    RequestExtendVote, RequestFinalizeBlock, RequestProcessProposal, RequestQuery,
};

fn ask(network: &Network, node: usize, path: &str) -> (u32, Bytes) {
    let request = RequestQuery { path: path.into(), ..Default::default() };
    let answer = network.nodes[node].app.query(request);
    (answer.code, answer.value)
}

/// Everything that a node keeps beside the store answers the same on two nodes.
fn assert_same_answers(network: &Network, one: usize, two: usize, coins: u64) {
    let tip = network.tip();
    let mut paths: Vec<String> =
        (1..=4).map(|owner| format!("/account/{}/coins", key(owner).address())).collect();
    for coin in 1..=coins {
        paths.push(format!("/coin/{coin}"));
        paths.push(format!("/coin/{coin}/history"));
        paths.extend((1..=tip.last_closed).map(|block| format!("/coin/{coin}/proof/{block}")));
    }
    for path in paths {
        let answer = ask(network, one, &path);
        assert_eq!(answer.0, 0, "{path}");
        assert_eq!(answer, ask(network, two, &path), "{path}");
    }
}

fn check_grammar(network: &Network) {
    for life in network.nodes.iter().flat_map(|node| node.lives()) {
        grammar::check(&life).unwrap();
    }
}

#[test]
fn a_node_left_out_replays_what_it_missed() {
    let mut network = Network::start(Options::default());
    network.credit(key(1).address(), 10);
    network.stop(2);
    for coin in 1..=5 {
        let tx = single(&network.transfer(coin, key(2).address(), &key(1)));
        network.step(&[tx]);
    }
    network.queue(&RootEvent::ExitStarted(5));
    network.step(&[]);
    network.step(&[]);
    assert!(network.tip().last_certified > 0, "three of four certify");
    network.catch_up(2);
    assert_same_answers(&network, 0, 2, 10);
    let tx = single(&network.transfer(6, key(3).address(), &key(1)));
    network.step(&[tx]);
    check_grammar(&network);
    let lives: Vec<usize> = network.nodes.iter().map(|node| node.lives().len()).collect();
    assert_eq!(lives, [1, 1, 2, 1]);
}

#[test]
fn two_of_four_certify_and_observe_nothing() {
    let mut network = Network::start(Options::default());
    network.credit(key(1).address(), 10);
    network.stop(0);
    network.stop(3);
    let tx = single(&network.transfer(1, key(2).address(), &key(1)));
    network.step(&[tx]);
    network.queue(&RootEvent::ExitStarted(2));
    for _ in 0..4 {
        network.step(&[]);
    }
    let tip = network.tip();
    assert_eq!((tip.last_closed, tip.last_certified, tip.event_count), (1, 0, 1));
    network.catch_up(0);
    network.step(&[]);
    network.step(&[]);
    let tip = network.tip();
    assert_eq!((tip.last_closed, tip.last_certified, tip.event_count), (1, 1, 2));
    check_grammar(&network);
}

#[test]
fn a_block_crowded_out_is_executed_again() {
    let mut network = Network::start(Options::default());
    network.credit(key(1).address(), 10);
    // More candidates than are kept, each with another transfer; the first is decided.
    let candidates: Vec<Vec<Bytes>> = (1..=9)
        .map(|coin| {
            let tx = single(&network.transfer(coin, key(2).address(), &key(1)));
            network.prepare(coin as usize % 4, &[tx])
        })
        .collect();
    for candidate in &candidates {
        assert!(network.process(candidate));
    }
    network.decide(&candidates[0]);
    for coin in 1..=9 {
        let expected = if coin == 1 { key(2) } else { key(1) };
        assert_eq!(network.coin(coin).owner, expected.address());
    }
    check_grammar(&network);
}

#[test]
fn another_life_may_see_an_earlier_proposal() {
    let mut network = Network::start(Options::default());
    network.credit(key(1).address(), 10);
    let old = network.step(&[]);
    network.restart(1);
    let app = &network.nodes[1].app;
    for height in [-1, 0, network.height - 1, network.height + 1] {
        let (txs, hash) = (old.clone(), block_hash(&old));
        let request = RequestProcessProposal { txs, hash, height, ..Default::default() };
        let status = app.process_proposal(request).unwrap().status;
        assert_eq!(status, 2, "refused, not fatal, at height {height}");
        let request = RequestExtendVote { height, ..Default::default() };
        assert!(app.extend_vote(request).unwrap().vote_extension.is_empty());
    }
    let txs = vec![Bytes::from(Proposal::default().encode())];
    let height = network.height + 1;
    let request = RequestFinalizeBlock { txs, height, ..Default::default() };
    let fatal = app.finalize_block(request).unwrap_err().to_string();
    assert!(fatal.contains(&format!("height {height} does not follow")), "{fatal}");
    network.step(&[]);
}

#[test]
fn a_finalized_height_that_was_not_committed_is_forgotten() {
    let mut network = Network::start(Options::default());
    network.credit(key(1).address(), 10);
    let tx = single(&network.transfer(1, key(2).address(), &key(1)));
    let block = network.prepare(0, &[tx]);
    let (txs, hash, height) = (block.clone(), block_hash(&block), network.height);
    let request = RequestFinalizeBlock { txs, hash, height, ..Default::default() };
    let answer = network.nodes[1].app.finalize_block(request).unwrap();
    assert_eq!(network.coin(1).owner, key(1).address());
    network.restart(1);
    network.decide(&block);
    let hash = network.nodes[1].app.info(Default::default()).last_block_app_hash;
    assert_eq!(hash, answer.app_hash);
}

#[test]
fn full_plasma_blocks_close_early() {
    let options = Options { max_heights: 9, max_transfers: 3, ..Options::default() };
    let mut network = Network::start(options);
    network.credit(key(1).address(), 10);
    for coin in [1, 2] {
        let tx = single(&network.transfer(coin, key(2).address(), &key(1)));
        network.step(&[tx]);
        assert_eq!((network.tip().open, network.tip().open_count), (1, coin));
    }
    let pair = [
        network.transfer(3, key(2).address(), &key(1)),
        network.transfer(4, key(2).address(), &key(1)),
    ];
    network.step(&[bundle(&pair)]);
    let tip = network.tip();
    assert_eq!((tip.last_closed, tip.open, tip.open_count), (1, 0, 0), "four are at least three");
    // In one height, opened and closed.
    let three: Vec<_> = (5..=7).map(|c| network.transfer(c, key(2).address(), &key(1))).collect();
    network.step(&[bundle(&three)]);
    assert_eq!(network.tip().last_closed, 2);
    assert_same_answers(&network, 0, 3, 10);
}

/// What happens at one height of a random run.
#[derive(Debug, Clone)]
enum Step {
    Transfers(Vec<(u64, u64)>),
    Event(u8, u64),
    Deposit(u64, u16),
    Restart(usize),
    Stop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let transfers = prop::collection::btree_map(1..20u64, 1..5u64, 0..8);
    let step = prop_oneof![
        6 => transfers.prop_map(|moves| Step::Transfers(moves.into_iter().collect())),
        2 => (0..3u8, 1..22u64).prop_map(|(kind, coin)| Step::Event(kind, coin)),
        1 => (1..5u64, 1..4u16).prop_map(|(owner, count)| Step::Deposit(owner, count)),
        1 => (0..4usize).prop_map(Step::Restart),
        1 => (0..4usize).prop_map(Step::Stop),
    ];
    prop::collection::vec(step, 1..25)
}

/// Signs whatever the owner of each coin would sign now, as one bundle.
fn moves(network: &Network, moves: &[(u64, u64)]) -> Vec<Vec<u8>> {
    let last = network.tip().last_coin;
    let signed: Vec<_> = moves
        .iter()
        .filter(|(coin, _)| *coin <= last)
        .map(|(coin, to)| {
            let state = network.coin(*coin);
            let owner = (1..5).map(key).find(|key| key.address() == state.owner).unwrap();
            sign(&state, key(*to).address(), 99, &owner, &network.domain)
        })
        .collect();
    if signed.is_empty() { Vec::new() } else { vec![bundle(&signed)] }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn nodes_agree_whatever_happens(steps in steps(), max_heights in 1..4u64) {
        let mut network = Network::start(Options { max_heights, ..Options::default() });
        network.credit(key(1).address(), 12);
        let mut down = None;
        for step in steps {
            let mut txs = Vec::new();
            match step {
                Step::Transfers(list) => txs = moves(&network, &list),
                Step::Event(kind, coin) => network.queue(&match kind {
                    0 => RootEvent::ExitStarted(coin),
                    1 => RootEvent::Thawed(coin),
                    _ => RootEvent::ExitFinalized(coin),
                }),
                Step::Deposit(owner, count) => {
                    let deposit = network.deposit(key(owner).address(), count);
                    network.queue(&RootEvent::Deposited(deposit));
                }
                Step::Restart(node) if down != Some(node) => network.restart(node),
                Step::Stop(node) if down.is_none() => {
                    network.stop(node);
                    down = Some(node);
                }
                Step::Restart(_) | Step::Stop(_) => {
                    if let Some(node) = down.take() {
                        network.catch_up(node);
                    }
                }
            }
            network.step(&txs);
        }
        if let Some(node) = down {
            network.catch_up(node);
        }
        network.restart(3);
        let coins = network.tip().last_coin;
        assert_same_answers(&network, 0, 3, coins);
        check_grammar(&network);
    }
}
