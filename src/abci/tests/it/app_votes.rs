//! Extensions of the last commit that are late, oversized, foreign or without a vote.

use bytes::Bytes;
use plasma_abci::application::Application;
use plasma_core::event::RootEvent;
use plasma_core::extension::{Observation, VoteExtension};
use plasma_core::proposal::Proposal;
use plasma_testkit::{Network, Options, key, single};
use tendermint_proto::v0_38::abci::{
    ExtendedCommitInfo, RequestPrepareProposal, RequestVerifyVoteExtension,
};
use tendermint_proto::v0_38::types::BlockIdFlag;

/// Block 1 is closed and attested by everybody in the last commit, and nobody's follower has read
/// an event.
fn attested() -> Network {
    let mut network = Network::start(Options::default());
    network.credit(key(1).address(), 10);
    let tx = single(&network.transfer(1, key(2).address(), &key(1)));
    network.step(&[tx]);
    while network.tip().last_closed == 0 {
        network.step(&[]);
    }
    network.step(&[]);
    network
}

fn prepared(network: &Network, commit: Option<ExtendedCommitInfo>) -> (Vec<Bytes>, Proposal) {
    let request = RequestPrepareProposal {
        max_tx_bytes: 2_000_000,
        local_last_commit: commit,
        height: network.height,
        ..Default::default()
    };
    let txs = network.nodes[1].app.prepare_proposal(request).unwrap().txs;
    let proposal = Proposal::decode(&txs[0], 4).unwrap();
    assert!(network.process(&txs), "what a correct node prepares is accepted");
    (txs, proposal)
}

fn signers(network: &Network, commit: ExtendedCommitInfo) -> Option<u8> {
    prepared(network, Some(commit)).1.certificate.map(|certificate| certificate.bitmap[0])
}

#[test]
fn a_commit_without_extensions_makes_a_proposal() {
    let network = attested();
    for commit in [None, Some(ExtendedCommitInfo::default())] {
        assert_eq!(prepared(&network, commit).1, Proposal::default());
    }
}

#[test]
fn only_votes_for_the_block_count() {
    let network = attested();
    let good = network.commit_info();
    assert_eq!(signers(&network, good.clone()), Some(0b1111));
    let changed = |change: &dyn Fn(&mut ExtendedCommitInfo)| {
        let mut commit = good.clone();
        change(&mut commit);
        signers(&network, commit)
    };
    // CometBFT gives no extension with a nil or absent vote; one that came is not used.
    for flag in [BlockIdFlag::Nil, BlockIdFlag::Absent, BlockIdFlag::Unknown] {
        let rest = changed(&|c| c.votes[2].block_id_flag = flag.into());
        assert_eq!(rest, Some(0b1011));
    }
    assert_eq!(changed(&|c| c.votes[2].block_id_flag = 99), Some(0b1011));
    assert_eq!(changed(&|c| c.votes[0].vote_extension = Bytes::new()), Some(0b1110));
    assert_eq!(changed(&|c| c.votes[0].validator = None), Some(0b1110));
    let stranger = |c: &mut ExtendedCommitInfo| {
        c.votes[0].validator.as_mut().unwrap().address = vec![9; 20].into();
    };
    assert_eq!(changed(&stranger), Some(0b1110));
    let short = |c: &mut ExtendedCommitInfo| {
        c.votes[0].validator.as_mut().unwrap().address = vec![9; 3].into();
    };
    assert_eq!(changed(&short), Some(0b1110));
    // Another's extension under one's own name.
    let borrowed = |c: &mut ExtendedCommitInfo| {
        c.votes[0].vote_extension = c.votes[1].vote_extension.clone();
    };
    assert_eq!(changed(&borrowed), Some(0b1110));
    // The powers in the proposer's data are not believed (ASA-2024-006).
    let mighty = |c: &mut ExtendedCommitInfo| {
        c.votes.truncate(2);
        c.votes.iter_mut().for_each(|v| v.validator.as_mut().unwrap().power = i64::MAX);
    };
    assert_eq!(changed(&mighty), None);
    // In any order, as CometBFT sorts validators by its own rule.
    assert_eq!(changed(&|c| c.votes.reverse()), Some(0b1111));
}

#[test]
fn the_length_of_an_extension_is_its_only_rule_before_the_commit() {
    let network = attested();
    let status = |bytes: Vec<u8>| {
        let request = RequestVerifyVoteExtension {
            vote_extension: bytes.into(),
            height: network.height,
            ..Default::default()
        };
        network.nodes[0].app.verify_vote_extension(request).unwrap().status
    };
    assert_eq!(status(Vec::new()), 1);
    assert_eq!(status(vec![0xff; 256]), 1, "late ones bypass this check: content is judged later");
    assert_eq!(status(vec![0xff; 257]), 2);
    let mut commit = network.commit_info();
    let mut long = commit.votes[3].vote_extension.to_vec();
    long.resize(257, 0);
    commit.votes[3].vote_extension = long.into();
    assert_eq!(signers(&network, commit), Some(0b0111));
}

#[test]
fn late_extensions_are_dropped_part_by_part() {
    let mut network = attested();
    let late = network.extensions.clone();
    network.step(&[]);
    assert_eq!(network.tip().last_certified, 1);
    // Attestations of a block that is certified by now.
    network.extensions = late.clone();
    assert_eq!(prepared(&network, Some(network.commit_info())).1, Proposal::default());
    // Beside a fresh observation only the attestation is dropped.
    network.queue(&RootEvent::ExitStarted(1));
    network.step(&[]);
    let mut commit = network.commit_info();
    for (vote, late) in commit.votes.iter_mut().zip(&late) {
        let fresh = VoteExtension::decode(&vote.vote_extension, 0).unwrap();
        let late = VoteExtension::decode(late.as_ref().unwrap(), 0).unwrap();
        let mixed = VoteExtension { attestation: late.attestation, ..fresh };
        vote.vote_extension = mixed.encode(0).into();
    }
    let (_, proposal) = prepared(&network, Some(commit.clone()));
    assert_eq!((proposal.certificate, proposal.events.len()), (None, 1));
    assert_eq!(proposal.observations.len(), 4);
    // And observations that the cursor has passed.
    network.step(&[]);
    assert_eq!(prepared(&network, Some(commit)).1, Proposal::default());
}

#[test]
fn a_node_proposes_no_more_than_its_own_follower_has_read() {
    let mut network = Network::start(Options::default());
    for owner in 1..=3 {
        let deposit = network.deposit(key(owner).address(), 1);
        network.queue_unseen(&RootEvent::Deposited(deposit));
    }
    for (node, count) in [3, 2, 0, 1].into_iter().enumerate() {
        network.follow(node, count);
    }
    network.step(&[]);
    let observed = |network: &Network, node: usize| {
        let block = network.prepare(node, &[]);
        assert!(network.process(&block));
        let proposal = Proposal::decode(&block[0], 4).unwrap();
        (proposal.observations.len(), proposal.events.len())
    };
    assert_eq!(observed(&network, 0), (3, 3), "all that were observed");
    assert_eq!(observed(&network, 1), (0, 0), "two of four are no quorum");
    assert_eq!(observed(&network, 2), (0, 0));
    let block = network.prepare(0, &[]);
    network.decide(&block);
    assert_eq!(network.tip().last_coin, 1, "three of four have read one event");
    // A node on another fork of Ethereum proposes nothing, and the others leave it out.
    (0..4).for_each(|node| network.follow(node, 3));
    network.step(&[]);
    let good = VoteExtension::decode(network.extensions[1].as_ref().unwrap(), 0).unwrap();
    let o = good.observation.unwrap();
    let forked = Observation { event_hash: plasma_core::B256::repeat_byte(7), ..o };
    let forked = VoteExtension { observation: Some(forked), ..good };
    network.extensions[1] = Some(forked.encode(0));
    let proposal = Proposal::decode(&network.prepare(0, &[])[0], 4).unwrap();
    let validators: Vec<usize> = proposal.observations.iter().map(|o| o.validator).collect();
    assert_eq!(validators, [0, 2, 3]);
}

#[test]
fn a_small_block_takes_what_fits() {
    let network = attested();
    let txs: Vec<Bytes> = (2..=9)
        .map(|coin| single(&network.transfer(coin, key(2).address(), &key(1))).into())
        .collect();
    let framed = |txs: &[Bytes]| txs.iter().map(|tx| tx.len() + 2).sum::<usize>();
    let mut most = 0;
    for max_tx_bytes in [0, -1, 100, 400, 500, 700, 1_500] {
        let request = RequestPrepareProposal {
            max_tx_bytes,
            txs: txs.clone(),
            local_last_commit: None,
            height: network.height,
            ..Default::default()
        };
        let block = network.nodes[0].app.prepare_proposal(request).unwrap().txs;
        assert!(network.process(&block));
        assert!(block.len() == 1 || framed(&block) <= max_tx_bytes as usize);
        assert!(block.len() >= most);
        most = block.len();
    }
    assert_eq!(most, 9);
}
