//! Proposals: what is built, what is refused, and that all nodes agree.

use bytes::Bytes;
use plasma_abci::application::Application;
use plasma_core::B256;
use plasma_core::certificate::{Certificate, attestation_digest};
use plasma_core::event::{RootEvent, observation_digest};
use plasma_core::extension::VoteExtension;
use plasma_core::proposal::{Observed, Proposal};
use plasma_core::signature::Signature;
use plasma_core::state::{BlockRecord, block_key};
use plasma_ledger::View;
use plasma_testkit::{Network, Options, bundle, key, sign, single};
use tendermint_proto::v0_38::abci::RequestFinalizeBlock;

fn proposal(block: &[Bytes]) -> Proposal {
    Proposal::decode(&block[0], 4).unwrap()
}

/// The block with another proposal transaction.
fn with(block: &[Bytes], change: impl FnOnce(&mut Proposal)) -> Vec<Bytes> {
    let mut proposal = proposal(block);
    change(&mut proposal);
    let mut changed = block.to_vec();
    changed[0] = proposal.encode().into();
    changed
}

/// A network in which `owner` (key 1) has ten coins, the first is 1.
fn funded(options: Options) -> Network {
    let mut network = Network::start(options);
    assert_eq!(network.credit(key(1).address(), 10), 1);
    network
}

/// Runs empty heights until a block is closed and not yet certified.
fn close_a_block(network: &mut Network, coin: u64) {
    let tx = single(&network.transfer(coin, key(2).address(), &key(1)));
    let closed = network.tip().last_closed;
    network.step(&[tx]);
    while network.tip().last_closed == closed {
        network.step(&[]);
    }
}

#[test]
fn a_coin_goes_from_deposit_to_certificate() {
    let mut network = funded(Options::default());
    close_a_block(&mut network, 1);
    assert_eq!(network.tip().last_closed, 1);
    assert_eq!(network.coin(1).owner, key(2).address());
    for _ in 0..2 {
        network.step(&[]);
    }
    assert_eq!(network.tip().last_certified, 1);
}

#[test]
fn a_block_that_closes_at_every_height_is_certified() {
    let mut network = funded(Options { max_heights: 1, ..Options::default() });
    for coin in 1..=10 {
        let tx = single(&network.transfer(coin, key(2).address(), &key(1)));
        network.step(&[tx]);
        assert_eq!(network.tip().last_closed, coin);
        assert!(network.tip().last_certified + 2 >= coin, "certificates keep up");
    }
}

#[test]
fn three_of_four_extensions_suffice_and_two_do_not() {
    let mut network = funded(Options::default());
    close_a_block(&mut network, 1);
    network.step(&[]);
    for (absent, certified) in [(2, false), (1, true)] {
        let whole = network.extensions.clone();
        network.extensions[..absent].fill(None);
        let block = network.prepare(0, &[]);
        assert_eq!(proposal(&block).certificate.is_some(), certified, "{absent} absent");
        assert!(network.process(&block));
        network.extensions = whole;
    }
}

#[test]
fn bad_extensions_count_as_empty() {
    let mut network = funded(Options::default());
    close_a_block(&mut network, 1);
    network.step(&[]);
    let good = network.extensions[1].clone().unwrap();
    let mut forged = VoteExtension::decode(&good, 0).unwrap();
    forged.attestation.as_mut().unwrap().signature = Signature([7; 64]);
    for bad in [vec![0xff; 40], forged.encode(0), vec![1; 300], good[..10].to_vec()] {
        network.extensions[0] = Some(bad);
        let block = network.prepare(2, &[]);
        let certificate = proposal(&block).certificate.unwrap();
        assert_eq!(certificate.bitmap, [0b1110]);
        assert!(network.process(&block));
    }
    // All bad: a proposal all the same.
    network.extensions.fill(Some(vec![0xff; 40]));
    let block = network.prepare(2, &[]);
    assert_eq!(proposal(&block).certificate, None);
    assert!(network.process(&block));
}

#[test]
fn a_proposal_must_come_first_and_alone() {
    let network = funded(Options::default());
    let block = network.prepare(0, &[]);
    assert!(!network.process(&[]));
    assert!(!network.process(&[block[0].clone(), block[0].clone()]));
    let mut trailing = block[0].to_vec();
    trailing.push(0);
    assert!(!network.process(&[trailing.into()]));
    assert!(network.process(&block));
}

#[test]
fn roots_must_be_right_and_at_their_height() {
    let mut network = funded(Options::default());
    let tx = single(&network.transfer(1, key(2).address(), &key(1)));
    let early = network.prepare(0, std::slice::from_ref(&tx));
    assert_eq!(proposal(&early).closing, None);
    assert!(!network.process(&with(&early, |p| p.closing = Some((1, B256::repeat_byte(1))))));
    network.step(&[tx]);
    let closing = network.prepare(0, &[]);
    assert!(proposal(&closing).closing.is_some());
    assert!(!network.process(&with(&closing, |p| p.closing = None)));
    assert!(!network.process(&with(&closing, |p| p.closing = Some((1, B256::repeat_byte(1))))));
    assert!(!network.process(&with(&closing, |p| p.closing.as_mut().unwrap().0 = 2)));
    assert!(network.process(&closing));
}

/// A certificate of block 1 by the given validators.
fn certificate(network: &Network, signers: &[usize], number: u64) -> Certificate {
    let view = network.nodes[0].app.committed().unwrap();
    let record = view.get(&block_key(1)).unwrap().unwrap();
    let chain_hash = BlockRecord::decode(&record).unwrap().chain_hash;
    let digest = attestation_digest(&network.domain, number, chain_hash, 1);
    let signed: Vec<_> = signers.iter().map(|i| (*i, network.root_key(*i).sign(digest))).collect();
    Certificate::new(number, 4, &signed)
}

#[test]
fn certificates_must_prove_a_closed_uncertified_block() {
    let mut network = funded(Options::default());
    close_a_block(&mut network, 1);
    let block = network.prepare(0, &[]);
    let judge = |network: &Network, c: Certificate| {
        network.process(&with(&block, |p| p.certificate = Some(c)))
    };
    assert!(judge(&network, certificate(&network, &[0, 1, 2], 1)));
    // Two of four are half, and of three exactly two thirds: see also core's tests.
    assert!(!judge(&network, certificate(&network, &[0, 1], 1)));
    assert!(!judge(&network, certificate(&network, &[0, 1, 2], 2)), "not closed");
    let mut forged = certificate(&network, &[0, 1, 2], 1);
    forged.signatures.swap(0, 1);
    assert!(!judge(&network, forged));
    let mut spare = certificate(&network, &[0, 1, 2], 1);
    spare.bitmap[0] |= 0x10;
    spare.signatures.push(spare.signatures[0]);
    assert!(!judge(&network, spare));
    network.step(&[]);
    network.step(&[]);
    assert_eq!(network.tip().last_certified, 1);
    let again = certificate(&network, &[0, 1, 2], 1);
    let block = network.prepare(0, &[]);
    assert!(!network.process(&with(&block, |p| p.certificate = Some(again))), "certified before");
}

#[test]
fn power_at_exactly_two_thirds_certifies_nothing() {
    let mut network = funded(Options { validators: 3, ..Options::default() });
    close_a_block(&mut network, 1);
    network.step(&[]);
    let whole = network.extensions.clone();
    network.extensions[0] = None;
    let block = network.prepare(1, &[]);
    assert_eq!(Proposal::decode(&block[0], 3).unwrap().certificate, None);
    network.extensions = whole;
    let block = network.prepare(1, &[]);
    let full = Proposal::decode(&block[0], 3).unwrap();
    let mut two = full.clone();
    let c = full.certificate.unwrap();
    let signed: Vec<_> = c.signed().take(2).collect();
    two.certificate = Some(Certificate::new(c.number, 3, &signed));
    assert!(!network.process(&[two.encode().into()]));
    assert!(network.process(&block));
}

#[test]
fn events_must_be_those_that_were_observed() {
    let mut network = Network::start(Options::default());
    for owner in 1..=3 {
        let deposit = network.deposit(key(owner).address(), 1);
        network.queue(&RootEvent::Deposited(deposit));
    }
    network.step(&[]);
    let block = network.prepare(0, &[]);
    assert_eq!(proposal(&block).events.len(), 3);
    let refused: [fn(&mut Proposal); 6] = [
        |p| p.events.swap(0, 1),
        |p| p.events[2] = p.events[1].clone(),
        |p| p.events[1] = RootEvent::ExitStarted(1).encode(),
        |p| p.events.push(RootEvent::ExitStarted(1).encode()),
        |p| p.events.clear(),
        |p| p.observations.truncate(2),
    ];
    for (i, change) in refused.into_iter().enumerate() {
        assert!(!network.process(&with(&block, change)), "change {i}");
    }
    assert!(network.process(&block));
    network.decide(&block);
    assert_eq!((network.tip().event_count, network.tip().last_coin), (3, 3));
    // Replayed: the cursor is past them.
    assert!(!network.process(&block));
}

#[test]
fn a_tail_that_no_quorum_observed_is_not_applied() {
    let mut network = Network::start(Options::default());
    let deposit = network.deposit(key(1).address(), 1);
    network.queue(&RootEvent::Deposited(deposit));
    network.step(&[]);
    let mut block = network.prepare(0, &[]);
    // One validator invents a second event and signs it.
    let invented = RootEvent::ExitFinalized(1).encode();
    let hash = plasma_core::event::event_hash(network.queue_hash(1), &invented);
    let signature = network.root_key(3).sign(observation_digest(&network.domain, 2, hash));
    block = with(&block, |p| {
        p.events.push(invented);
        p.observations.retain(|o| o.validator != 3);
        p.observations.push(Observed { validator: 3, event_count: 2, signature });
    });
    assert!(network.process(&block), "the tail is there to check the observation");
    network.decide(&block);
    assert_eq!(network.tip().event_count, 1);
    assert_eq!(network.coin(1).owner, key(1).address());
}

#[test]
fn two_candidates_of_one_height_get_one_verdict() {
    let mut network = Network::start(Options::default());
    let deposit = network.deposit(key(1).address(), 1);
    network.queue(&RootEvent::Deposited(deposit));
    network.step(&[]);
    let credits = network.prepare(0, &[]);
    assert_eq!(proposal(&credits).events.len(), 1);
    let state = deposit.state(1, &network.domain);
    let spend = single(&sign(&state, key(2).address(), 99, &key(1), &network.domain));
    let spends_alone = vec![Proposal::default().encode().into(), spend.clone().into()];
    let mut both = credits.clone();
    both.push(spend.into());
    assert!(network.process(&credits));
    assert!(!network.process(&spends_alone), "the coin exists in the other candidate only");
    assert!(network.process(&both));
    network.decide(&both);
    assert_eq!(network.coin(1).owner, key(2).address());
}

#[test]
fn transfers_must_execute() {
    let mut network = funded(Options { max_height_transfers: 6, ..Options::default() });
    let (alice, bob) = (key(1), key(2).address());
    let valid = |n: &Network, coin| n.transfer(coin, bob, &alice);
    let tx =
        |t: &[_]| -> Vec<Bytes> { vec![Proposal::default().encode().into(), bundle(t).into()] };
    let twice = vec![
        Proposal::default().encode().into(),
        single(&valid(&network, 1)).into(),
        single(&network.transfer(1, key(3).address(), &alice)).into(),
    ];
    assert!(!network.process(&twice), "double spend");
    let foreign = |n: &Network, coin| n.transfer(coin, bob, &key(9));
    assert!(!network.process(&tx(&[
        valid(&network, 1),
        foreign(&network, 2),
        foreign(&network, 3)
    ])));
    let half = tx(&[valid(&network, 1), foreign(&network, 2)]);
    assert!(network.process(&half));
    let seven: Vec<_> = (1..=7).map(|coin| valid(&network, coin)).collect();
    assert!(!network.process(&tx(&seven)), "too many");
    assert!(network.process(&tx(&seven[..6])));
    let mut trailing = single(&valid(&network, 1));
    trailing.push(0);
    assert!(!network.process(&[Proposal::default().encode().into(), trailing.into()]));
    // Frozen by an exit in the same block, and afterwards.
    network.queue(&RootEvent::ExitStarted(5));
    network.step(&[]);
    let mut block = network.prepare(0, &[]);
    assert_eq!(proposal(&block).events.len(), 1);
    block.push(single(&valid(&network, 5)).into());
    assert!(!network.process(&block));
    network.step(&[]);
    let alone = [Proposal::default().encode().into(), single(&valid(&network, 5)).into()];
    assert!(!network.process(&alone));
    // Thawed: it moves again.
    network.queue(&RootEvent::Thawed(5));
    network.step(&[]);
    network.step(&[]);
    let tx = single(&valid(&network, 5));
    network.step(&[tx]);
    assert_eq!(network.coin(5).owner, bob);
}

#[test]
fn old_bytes_are_dead_when_the_coin_comes_back() {
    let mut network = funded(Options { max_heights: 1, ..Options::default() });
    let (alice, bob) = (key(1), key(2));
    let first = network.transfer(1, bob.address(), &alice);
    network.step(&[single(&first)]);
    let back = network.transfer(1, alice.address(), &bob);
    network.step(&[single(&back)]);
    assert_eq!(network.coin(1).owner, alice.address());
    network.restart(3);
    let live = network.transfer(2, bob.address(), &alice);
    for _ in 0..2 {
        for node in [0, 3] {
            assert_eq!(network.check(node, &single(&first), false).code, 12);
        }
        let closing = |block: &[Bytes]| proposal(block).closing;
        let alone = network.prepare(0, &[single(&first)]);
        assert_eq!(alone.len(), 1, "not even proposed");
        let mut forced = alone.clone();
        forced.push(single(&first).into());
        assert!(!network.process(&forced));
        let good = network.prepare(0, &[bundle(&[first, live])]);
        assert_eq!(good.len(), 2, "half of the bundle is live");
        assert!(closing(&good).is_some());
        assert!(network.process(&good));
        network.restart(0);
    }
    let block = network.prepare(3, &[bundle(&[first, live])]);
    network.decide(&block);
    assert_eq!(network.coin(1).owner, alice.address(), "the old transfer was skipped");
    assert_eq!(network.coin(2).owner, bob.address());
}

#[test]
fn a_restart_in_an_open_block_changes_nothing() {
    let mut network = funded(Options { max_heights: 4, ..Options::default() });
    for coin in 1..=4 {
        let tx = single(&network.transfer(coin, key(2).address(), &key(1)));
        network.step(&[tx]);
        network.restart(coin as usize % 4);
    }
    assert_eq!((network.tip().last_closed, network.tip().open), (1, 0));
}

#[test]
fn a_decided_block_that_breaks_a_rule_is_fatal() {
    let network = funded(Options::default());
    let tx = single(&network.transfer(1, key(2).address(), &key(9)));
    let txs = vec![Proposal::default().encode().into(), tx.into()];
    let request = RequestFinalizeBlock { txs, height: network.height, ..Default::default() };
    let fatal = network.nodes[0].app.finalize_block(request).unwrap_err();
    let text = fatal.to_string();
    assert!(text.contains(&network.height.to_string()) && text.contains("not_owner"), "{text}");
}

#[test]
fn a_block_is_executed_without_process_proposal() {
    let mut network = funded(Options::default());
    let tx = single(&network.transfer(1, key(2).address(), &key(1)));
    let block = network.prepare(0, &[tx]);
    network.decide(&block);
    assert_eq!(network.coin(1).owner, key(2).address());
}
