//! CheckTx: every code, pending marks and rechecks.

use plasma_abci::application::Application;
use plasma_core::code::Code;
use plasma_core::event::RootEvent;
use plasma_core::state::Params;
use plasma_testkit::{Network, Options, bundle, key, sign, single};

fn funded(options: Options) -> Network {
    let mut network = Network::start(options);
    network.credit(key(1).address(), 10);
    network
}

fn code(network: &Network, tx: &[u8]) -> u32 {
    network.check(0, tx, false).code
}

#[test]
fn malformed_bytes_have_their_codes() {
    let network = funded(Options::default());
    let good = single(&network.transfer(1, key(2).address(), &key(1)));
    let cases: [(&[u8], Code); 6] = [
        (b"", Code::Empty),
        (b"0x01ab", Code::QuotedHex),
        (&[9, 1, 2], Code::Malformed),
        (&good[..good.len() - 1], Code::Malformed),
        (&[0, 1, 0, 0, 0, 0], Code::ProposalNotAllowed),
        (&[2, 0x89, 0x27], Code::TooLarge),
    ];
    for (bytes, expected) in cases {
        assert_eq!(code(&network, bytes), expected.number(), "{}", expected.name());
    }
    let long = [&[2u8][..], &vec![1; 524_288]].concat();
    assert_eq!(code(&network, &long), Code::TooLarge.number());
    assert_eq!(code(&network, &good), 0);
}

#[test]
fn transfers_that_cannot_execute_have_their_codes() {
    let mut network = funded(Options { max_heights: 4, ..Options::default() });
    let (alice, bob, thief) = (key(1), key(2).address(), key(3));
    network.queue(&RootEvent::ExitStarted(7));
    network.queue(&RootEvent::ExitStarted(8));
    network.queue(&RootEvent::ExitFinalized(8));
    network.step(&[]);
    let moved = single(&network.transfer(1, alice.address(), &alice));
    network.step(&[moved]);
    let signed = |coin, to, max_block, key| {
        single(&sign(&network.coin(coin), to, max_block, key, &network.domain))
    };
    let mut unknown = network.transfer(2, bob, &alice);
    unknown.transfer.coin = 999;
    assert_eq!(code(&network, &single(&unknown)), Code::UnknownCoin.number());
    assert_eq!(code(&network, &signed(8, bob, 99, &alice)), Code::Gone.number());
    assert_eq!(code(&network, &signed(7, bob, 99, &alice)), Code::Frozen.number());
    assert_eq!(code(&network, &signed(1, bob, 99, &alice)), Code::MovedInOpenBlock.number());
    assert_eq!(code(&network, &signed(2, bob, 0, &alice)), Code::Expired.number());
    let contract = network.domain.root_chain;
    assert_eq!(code(&network, &signed(2, contract, 99, &alice)), Code::BadNewOwner.number());
    assert_eq!(code(&network, &signed(2, bob, 99, &thief)), Code::NotOwner.number());
    assert_eq!(code(&network, &signed(2, bob, 99, &alice)), 0);
    assert_eq!(code(&network, &signed(2, bob, 99, &alice)), Code::AlreadyPending.number());
    assert_eq!(code(&network, &signed(2, bob, 98, &alice)), Code::CoinPending.number());
}

#[test]
fn bundles_need_half() {
    let mut network = funded(Options::default());
    let (alice, bob) = (key(1), key(2).address());
    let good = |coin| network.transfer(coin, bob, &alice);
    let bad = |coin| network.transfer(coin, bob, &key(9));
    let below = bundle(&[good(1), bad(2), bad(3)]);
    assert_eq!(code(&network, &below), Code::BundleBelowHalf.number());
    let half = bundle(&[good(1), bad(2)]);
    assert_eq!(code(&network, &half), 0);
    // The bad member is not pending.
    assert_eq!(code(&network, &single(&good(2))), 0);
    assert_eq!(network.check(0, &half, true).code, 0);
    // Its live coin moves by another node's transfer: too few are left.
    let other = single(&sign(&network.coin(1), key(3).address(), 50, &alice, &network.domain));
    network.step(&[other]);
    assert_eq!(network.check(0, &half, true).code, Code::BundleBelowHalf.number());
}

#[test]
fn a_waiting_bundle_goes_stale() {
    let mut network = funded(Options::default());
    let tx = bundle(&[network.transfer(1, key(2).address(), &key(1))]);
    assert_eq!(code(&network, &tx), 0);
    for _ in 0..9 {
        network.step(&[]);
        assert_eq!(network.check(0, &tx, true).code, 0);
    }
    network.step(&[]);
    assert_eq!(network.check(0, &tx, true).code, Code::StaleBundle.number());
    assert_eq!(code(&network, &tx), 0, "its transfers may be sent again");
}

#[test]
fn rechecks_follow_the_chain() {
    let mut network = funded(Options { max_heights: 1, ..Options::default() });
    let (alice, bob) = (key(1), key(2).address());
    let waiting = single(&network.transfer(1, bob, &alice));
    let frozen = single(&network.transfer(2, bob, &alice));
    let short = single(&sign(&network.coin(3), bob, 1, &alice, &network.domain));
    for tx in [&waiting, &frozen, &short] {
        assert_eq!(code(&network, tx), 0);
    }
    let other = single(&sign(&network.coin(1), key(3).address(), 50, &alice, &network.domain));
    network.queue(&RootEvent::ExitStarted(2));
    network.step(&[]);
    for tx in [&waiting, &frozen, &short] {
        assert_eq!(network.check(0, tx, true).code, 0);
    }
    network.step(&[other]);
    assert_eq!(network.check(0, &waiting, true).code, Code::NotOwner.number());
    assert_eq!(network.check(0, &frozen, true).code, Code::Frozen.number());
    assert_eq!(network.check(0, &short, true).code, Code::Expired.number());
}

#[test]
fn a_silently_dropped_transaction_frees_its_coin() {
    let mut network = funded(Options::default());
    let dropped = single(&network.transfer(1, key(2).address(), &key(1)));
    let later = single(&sign(&network.coin(1), key(3).address(), 50, &key(1), &network.domain));
    assert_eq!(code(&network, &dropped), 0);
    assert_eq!(code(&network, &later), Code::CoinPending.number());
    network.step(&[]);
    // No recheck came for it.
    assert_eq!(code(&network, &later), 0);
}

#[test]
fn a_busy_pool_wants_rested_coins() {
    let mut network = funded(Options { pool_transfers: 4, max_heights: 1, ..Options::default() });
    let bob = key(2).address();
    let tx = single(&network.transfer(10, key(1).address(), &key(1)));
    network.step(&[tx]);
    for coin in 1..=2 {
        assert_eq!(code(&network, &single(&network.transfer(coin, bob, &key(1)))), 0);
    }
    let dust = single(&network.transfer(10, bob, &key(1)));
    assert_eq!(code(&network, &dust), Code::NotRested.number());
}

#[test]
fn init_chain_refuses_what_would_stop_the_chain() {
    let network = Network::start(Options::default());
    let fresh = Network::start(Options::default());
    let app = &fresh.nodes[0].app;
    let good = fresh.init_chain();
    assert!(app.init_chain(good.clone()).is_ok(), "a repeated InitChain is compared");
    let refuse = |request| app.init_chain(request).unwrap_err().to_string();
    let mut bad = good.clone();
    bad.consensus_params.as_mut().unwrap().block.as_mut().unwrap().max_bytes = 2_097_151;
    assert!(refuse(bad).contains("max_bytes"));
    let mut bad = good.clone();
    bad.consensus_params.as_mut().unwrap().abci = None;
    assert!(refuse(bad).contains("vote_extensions_enable_height"));
    let mut bad = good.clone();
    bad.initial_height = 2;
    assert!(refuse(bad).contains("initial_height"));
    let mut bad = good.clone();
    bad.validators[0].power = 11;
    assert!(refuse(bad).contains("validators"));
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut json: serde_json::Value = serde_json::from_slice(&good.app_state_bytes).unwrap();
        change(&mut json);
        let mut bad = good.clone();
        bad.app_state_bytes = serde_json::to_vec(&json).unwrap().into();
        refuse(bad)
    };
    assert!(changed(&|json| json["stor"] = 1.into()).contains("unknown field"));
    assert!(changed(&|json| json["store"] = "letus-blake3/1".into()).contains("scheme"));
    assert!(changed(&|json| json["params"]["max_heights"] = 9.into()).contains("differs"));
    assert!(changed(&|json| json["params"]["max_heights"] = 0.into()).contains("max_heights"));
    let view = network.nodes[0].app.committed().unwrap();
    let params: &Params = &view.chain.params;
    assert_eq!(params.max_heights, 2);
}
