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
