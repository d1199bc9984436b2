//! Queries: every path, its proof against the app hash, and the block archive.

use plasma_abci::application::Application;
use plasma_core::smt::{Proof, Verified};
use plasma_core::state::{BlockRecord, CoinRecord, decode_deposit};
use plasma_core::transfer::SignedTransfer;
use plasma_core::wire::Reader;
use plasma_store::{Commitment, verify};
use plasma_testkit::{Network, Options, key, single};
use tendermint_proto::v0_38::abci::{RequestInfo, RequestQuery, ResponseQuery};

fn ask(network: &Network, path: &str, prove: bool) -> ResponseQuery {
    let request = RequestQuery { path: path.into(), prove, ..Default::default() };
    network.nodes[0].app.query(request)
}

/// Coin 1 moved in blocks 1 and 3, coin 2 in block 2; coins 3 to 10 never.
fn traded() -> Network {
    let mut network = Network::start(Options { max_heights: 1, ..Options::default() });
    network.credit(key(1).address(), 10);
    let (alice, bob) = (key(1), key(2));
    for (coin, owner, to) in [(1, &alice, &bob), (2, &alice, &bob), (1, &bob, &alice)] {
        let tx = single(&network.transfer(coin, to.address(), owner));
        network.step(&[tx]);
    }
    network.step(&[]);
    network.step(&[]);
    network
}

fn app_hash(network: &Network) -> Commitment {
    let info = network.nodes[0].app.info(RequestInfo::default());
    Commitment(info.last_block_app_hash.as_ref().try_into().unwrap())
}

#[test]
fn single_keys_are_proven_against_the_app_hash() {
    let network = traded();
    let paths = [
        "/coin/1",
        "/block/1",
        "/block/latest",
        "/certificate/1",
        "/deposit/1",
        "/validators",
        "/params",
        "/events/cursor",
    ];
    for path in paths {
        let answer = ask(&network, path, true);
        assert_eq!(answer.code, 0, "{path}: {}", answer.log);
        let ops = answer.proof_ops.unwrap().ops;
        assert_eq!(ops.len(), 1, "{path}");
        assert_eq!(ops[0].r#type, "plasma/jmt-sha256/1");
        let hash = app_hash(&network);
        let value = Some(&answer.value[..]);
        verify("jmt-sha256/1", hash, &answer.key, value, &ops[0].data).unwrap();
        assert!(verify("jmt-sha256/1", hash, &answer.key, None, &ops[0].data).is_err());
        assert!(verify("jmt-sha256/1", hash, b"other", value, &ops[0].data).is_err());
    }
}

#[test]
fn a_coin_that_never_moved_is_its_deposit_and_no_key() {
    let network = traded();
    let answer = ask(&network, "/coin/3", true);
    assert!(decode_deposit(1, &answer.value).unwrap().contains(3));
    let ops = answer.proof_ops.unwrap().ops;
    let hash = app_hash(&network);
    verify("jmt-sha256/1", hash, &ops[0].key, Some(&answer.value), &ops[0].data).unwrap();
    verify("jmt-sha256/1", hash, &ops[1].key, None, &ops[1].data).unwrap();
    assert_eq!(ops[1].key, plasma_core::state::coin_key(3));
    for path in ["/coin/11", "/coin/0", "/block/9", "/deposit/2", "/certificate/9"] {
        assert_eq!(ask(&network, path, false).code, 2, "{path}");
    }
    for path in ["/coin", "/coin/x", "", "/coin/1/proof", "/account/0x12/coins"] {
        assert_eq!(ask(&network, path, false).code, 1, "{path}");
    }
}

/// Asks whether a coin moved in a block, and checks the answer against the block's root.
fn moved(network: &Network, coin: u64, block: u64) -> Option<SignedTransfer> {
    let root = BlockRecord::decode(&ask(network, &format!("/block/{block}"), false).value);
    let answer = ask(network, &format!("/coin/{coin}/proof/{block}"), false);
    assert_eq!(answer.code, 0, "{}", answer.log);
    let mut reader = Reader::new(&answer.value);
    let transfer = match reader.u8().unwrap() {
        1 => None,
        _ => Some(SignedTransfer::decode(&mut reader).unwrap()),
    };
    let proof = Proof::read(&mut reader).unwrap();
    reader.finish().unwrap();
    let hash = transfer.map(|t| t.transfer.digest(&network.domain));
    let verified = proof.verify(root.unwrap().root, coin, hash).unwrap();
    assert_eq!(verified == Verified::Included, transfer.is_some());
    transfer
}

fn check_all(network: &Network) {
    for coin in 1..=10 {
        for block in 1..=3 {
            let expected = matches!((coin, block), (1, 1 | 3) | (2, 2));
            assert_eq!(moved(network, coin, block).is_some(), expected, "coin {coin} in {block}");
        }
    }
    let second = moved(network, 1, 3).unwrap().transfer;
    assert_eq!(second.prev_block, 1);
    assert_eq!(second.prev_hash, moved(network, 1, 1).unwrap().transfer.digest(&network.domain));
}

#[test]
fn coins_are_proven_in_and_out_of_every_block() {
    check_all(&traded());
}

#[test]
fn a_lost_or_damaged_archive_is_rebuilt() {
    let network = traded();
    let blocks = network.dir(0).join("blocks");
    let files: Vec<_> = std::fs::read_dir(&blocks).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(files.len(), 3);
    std::fs::remove_file(&files[0]).unwrap();
    std::fs::write(&files[1], b"not an archive").unwrap();
    let mut bytes = std::fs::read(&files[2]).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&files[2], bytes).unwrap();
    check_all(&network);
    for file in &files {
        assert!(std::fs::metadata(file).unwrap().len() > 100, "{}", file.display());
    }
}

#[test]
fn history_and_accounts() {
    let network = traded();
    let answer = ask(&network, "/coin/1/history", false);
    let mut reader = Reader::new(&answer.value);
    assert_eq!(reader.varint(), Ok(2));
    for (block, to) in [(1, key(2)), (3, key(1))] {
        assert_eq!(reader.varint(), Ok(block));
        let transfer = SignedTransfer::decode(&mut reader).unwrap();
        assert_eq!(transfer.transfer.new_owner, to.address());
    }
    reader.finish().unwrap();
    assert_eq!(ask(&network, "/coin/5/history", false).value.as_ref(), [0]);

    let runs = |owner: u64| {
        let answer = ask(&network, &format!("/account/{}/coins", key(owner).address()), false);
        let mut reader = Reader::new(&answer.value);
        (0..reader.varint().unwrap())
            .map(|_| (reader.u64().unwrap(), reader.u64().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(runs(1), [(1, 1), (3, 8)]);
    assert_eq!(runs(2), [(2, 1)]);
    let mut restarted = network;
    restarted.restart(0);
    let network = restarted;
    let answer = ask(&network, &format!("/account/{}/coins", key(2).address()), false);
    assert_eq!(answer.value.len(), 17, "rebuilt from the state");
}

#[test]
fn old_heights_are_read_as_they_were() {
    let network = traded();
    let at = |height: i64| {
        let path = "/coin/1".to_owned();
        let request = RequestQuery { path, height, ..Default::default() };
        network.nodes[0].app.query(request)
    };
    let latest = network.height - 1;
    let now = CoinRecord::decode(&at(0).value).unwrap();
    assert_eq!(now, CoinRecord::decode(&at(latest).value).unwrap());
    let before = CoinRecord::decode(&at(latest - 3).value).unwrap();
    assert_eq!((now.block, before.block), (3, 1));
    assert_eq!(at(latest + 1).code, 3);
    assert_eq!(at(-1).code, 3);
    assert_eq!(at(1).code, 2, "the deposit was not there");
}

fn ask_from(network: &Network, path: &str, start: &[u8]) -> ResponseQuery {
    let data = start.to_vec().into();
    let request = RequestQuery { path: path.into(), data, ..Default::default() };
    network.nodes[0].app.query(request)
}

fn transfers(value: &[u8]) -> Vec<(u64, SignedTransfer)> {
    let mut reader = Reader::new(value);
    let count = reader.varint().unwrap();
    let one = |reader: &mut Reader<'_>| {
        (reader.varint().unwrap(), SignedTransfer::decode(reader).unwrap())
    };
    let list = (0..count).map(|_| one(&mut reader)).collect();
    reader.finish().unwrap();
    list
}

/// The answers about single blocks that an answer about several holds.
fn proofs(value: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(value);
    let count = reader.varint().unwrap();
    let one = |reader: &mut Reader<'_>| {
        let length = reader.varint().unwrap();
        reader.take(length.try_into().unwrap()).unwrap().to_vec()
    };
    let list = (0..count).map(|_| one(&mut reader)).collect();
    reader.finish().unwrap();
    list
}

#[test]
fn proofs_of_a_range_are_those_of_its_blocks() {
    let network = traded();
    for coin in [1, 2, 3, 999] {
        let single: Vec<Vec<u8>> = (1..=3)
            .map(|block| ask(&network, &format!("/coin/{coin}/proof/{block}"), false))
            .map(|answer| answer.value.to_vec())
            .collect();
        for (from, to) in [(1, 3), (2, 3), (3, 3), (1, 1), (2, u64::MAX)] {
            let answer = ask(&network, &format!("/coin/{coin}/proofs/{from}/{to}"), false);
            assert_eq!(answer.code, 0, "{}", answer.log);
            let expected = &single[from as usize - 1..(to.min(3)) as usize];
            assert_eq!(proofs(&answer.value), expected, "coin {coin}, {from} to {to}");
        }
    }
    for path in ["/coin/1/proofs/4/9", "/coin/1/proofs/0/3", "/coin/1/proofs/3/2"] {
        assert_eq!(ask(&network, path, false).code, 2, "{path}");
    }
    for path in ["/coin/1/proofs/1", "/coin/1/proofs/1/x", "/coin/1/proofs/-1/2"] {
        assert_eq!(ask(&network, path, false).code, 1, "{path}");
    }
    assert_eq!(ask(&network, "/coin/1/proofs/1/2", true).code, 5);
}

#[test]
fn long_histories_and_ranges_come_in_several_answers() {
    const MOVES: u64 = 10_005;
    let options = Options { max_heights: 1, validators: 1, ..Options::default() };
    let mut network = Network::start(options);
    network.credit(key(1).address(), 1);
    let keys = [key(1), key(2)];
    for i in 0..MOVES as usize {
        let tx = single(&network.transfer(1, keys[(i + 1) % 2].address(), &keys[i % 2]));
        network.step(&[tx]);
    }
    network.step(&[]);

    let newest = transfers(&ask(&network, "/coin/1/history", false).value);
    assert_eq!(newest.len(), 10_000);
    let blocks = |list: &[(u64, SignedTransfer)]| list.iter().map(|(b, _)| *b).collect::<Vec<_>>();
    assert_eq!(blocks(&newest), (MOVES - 9_999..=MOVES).collect::<Vec<_>>());
    let before = newest[0].0.to_be_bytes();
    let oldest = transfers(&ask_from(&network, "/coin/1/history", &before).value);
    assert_eq!(blocks(&oldest), (1..=MOVES - 10_000).collect::<Vec<_>>());
    let last = &oldest.last().unwrap().1.transfer;
    assert_eq!(newest[0].1.transfer.prev_hash, last.digest(&network.domain));
    for start in [0u64, 1] {
        let answer = ask_from(&network, "/coin/1/history", &start.to_be_bytes());
        assert_eq!(answer.value.as_ref(), [0]);
    }
    let all = ask_from(&network, "/coin/1/history", &u64::MAX.to_be_bytes());
    assert_eq!(transfers(&all.value), newest);
    assert_eq!(ask_from(&network, "/coin/1/history", &[0; 7]).code, 1);

    let (mut from, mut answers) = (1, 0);
    while from <= MOVES {
        let answer = ask(&network, &format!("/coin/1/proofs/{from}/{MOVES}"), false);
        assert!(answer.value.len() < 600_000, "{} bytes", answer.value.len());
        let page = proofs(&answer.value);
        assert!(!page.is_empty(), "block {from}: {}", answer.log);
        assert!(page.iter().all(|shown| shown[0] == 2), "it moved in every block");
        from += page.len() as u64;
        answers += 1;
    }
    assert_eq!(from, MOVES + 1);
    assert!(answers > 1, "one answer for all");
}
