//! The application's answers, typed; a node's lies in them.

use plasma_client::queries::CoinAnswer;
use plasma_client::rpc::RpcError;
use plasma_core::certificate::Certificate;
use plasma_core::signature::Signature;
use plasma_core::state::{
    BlockRecord, CoinRecord, Params, Tip, block_key, coin_key, deposit_key, encode_deposit,
    encode_validators,
};
use plasma_core::validators::{Validator, ValidatorSet};
use plasma_core::wire::put_varint;
use plasma_core::{Address, B256};

use crate::chain::{address, deposit, good, start};
use crate::responder::Node;

fn runs(list: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, list.len() as u64);
    for (first, length) in list {
        out.extend_from_slice(&first.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
    }
    out
}

#[tokio::test]
async fn a_coin_is_a_record_or_its_deposit() {
    let record = CoinRecord { frozen: true, ..CoinRecord::unmoved(&start()) };
    let node = Node::queries(move |path, _| match path {
        "/coin/7" => (0, coin_key(7).to_vec(), record.encode()),
        "/coin/8" => (0, deposit_key(3).to_vec(), encode_deposit(&deposit())),
        // Lies: another coin's record, a deposit without the coin, a key of neither kind.
        "/coin/9" => (0, coin_key(7).to_vec(), record.encode()),
        "/coin/20" => (0, deposit_key(3).to_vec(), encode_deposit(&deposit())),
        "/coin/21" => (0, block_key(21).to_vec(), record.encode()),
        "/coin/22" => (0, coin_key(22).to_vec(), vec![1, 2, 3]),
        "/coin/23" => (6, Vec::new(), Vec::new()),
        _ => (2, Vec::new(), Vec::new()),
    })
    .await;
    let client = node.client();
    assert_eq!(client.coin(7).await.unwrap(), Some(CoinAnswer::Record(record)));
    assert_eq!(client.coin(8).await.unwrap(), Some(CoinAnswer::Unmoved(deposit())));
    assert_eq!(client.coin(24).await.unwrap(), None);
    for coin in [9, 20, 21, 22] {
        let found = client.coin(coin).await;
        assert!(matches!(found, Err(RpcError::Malformed { .. })), "{coin}: {found:?}");
    }
    let found = client.coin(23).await;
    assert!(matches!(found, Err(RpcError::Query { code: 6, .. })), "{found:?}");
}

#[tokio::test]
async fn histories_and_proofs_are_decoded() {
    let (chain, _) = good();
    let proof = chain.proofs[&4].clone();
    let moves: Vec<_> =
        [4, 6].map(|block| (block, chain.proofs[&block].transfer.unwrap())).to_vec();
    let (shown, listed) = (proof.encode(), moves.clone());
    let node = Node::queries(move |path, _| match path {
        "/coin/7/history" => {
            let mut out = vec![2];
            for (block, transfer) in &listed {
                put_varint(&mut out, *block);
                out.extend_from_slice(&transfer.encode());
            }
            (0, Vec::new(), out)
        }
        // 2^63 transfers, and none of them there.
        "/coin/8/history" => {
            let mut out = Vec::new();
            put_varint(&mut out, 1 << 63);
            (0, Vec::new(), out)
        }
        // Twice in a block, and another coin's.
        "/coin/17/history" | "/coin/27/history" => {
            let mut out = vec![2];
            for (block, transfer) in &listed {
                let mut transfer = *transfer;
                transfer.transfer.coin = 17;
                put_varint(&mut out, if path == "/coin/17/history" { 4 } else { *block });
                out.extend_from_slice(&transfer.encode());
            }
            (0, Vec::new(), out)
        }
        "/coin/7/proof/4" => (0, Vec::new(), shown.clone()),
        "/coin/7/proof/5" => (0, Vec::new(), [&shown[..], &[0]].concat()),
        "/coin/7/proof/6" => (0, Vec::new(), vec![3]),
        _ => (2, Vec::new(), Vec::new()),
    })
    .await;
    let client = node.client();
    assert_eq!(client.coin_history(7).await.unwrap(), Some(moves));
    for (coin, word) in [(8, "bytes end"), (17, "block of a history"), (27, "coin of a history")] {
        let found = client.coin_history(coin).await;
        let Err(RpcError::Malformed { what, .. }) = found else { panic!("{coin}: {found:?}") };
        assert!(what.contains(word), "{coin}: {what}");
    }
    assert_eq!(client.coin_history(9).await.unwrap(), None);
    assert_eq!(client.coin_proof(7, 4).await.unwrap(), Some(proof));
    for block in [5, 6] {
        let found = client.coin_proof(7, block).await;
        assert!(matches!(found, Err(RpcError::Malformed { .. })), "{block}: {found:?}");
    }
    assert_eq!(client.coin_proof(7, 99).await.unwrap(), None);
}

#[tokio::test]
async fn an_accounts_coins_are_paged() {
    let node = Node::queries(|path, data| {
        assert_eq!(path, format!("/account/{}/coins", address("alice")));
        let page = match u64::from_str_radix(data, 16).unwrap() {
            0 => runs(&[(1, 3), (9, 1)]),
            9 => runs(&[(20, 5)]),
            24 => runs(&[]),
            other => panic!("asked after {other}"),
        };
        (0, Vec::new(), page)
    })
    .await;
    let found = node.client().account_coins(address("alice")).await.unwrap();
    assert_eq!(found, [(1, 3), (9, 1), (20, 5)]);
}

#[tokio::test]
async fn runs_that_overlap_or_never_end_are_refused() {
    for page in [
        vec![(1, 0)],
        vec![(0, 1)],
        vec![(1, 3), (3, 1)],
        vec![(5, 1), (2, 1)],
        vec![(2, u64::MAX)],
        vec![(1, 1)],
    ] {
        let body = runs(&page);
        let node = Node::queries(move |_, _| (0, Vec::new(), body.clone())).await;
        let found = node.client().account_coins(address("alice")).await;
        assert!(matches!(found, Err(RpcError::Malformed { .. })), "{page:?}: {found:?}");
    }
}

#[tokio::test]
async fn the_chains_records_are_decoded() {
    let tip = Tip { height: 9, last_coin: 14, last_closed: 6, ..Tip::default() };
    let params = Params {
        chain_id: 31_337,
        root_chain: Address::repeat_byte(0xcc),
        max_transfers: 10,
        max_height_transfers: 5,
        max_heights: 4,
        extension_pad_bytes: 0,
        scheme: "jmt-sha256/1".into(),
    };
    let validator = Validator { root_key: address("dave"), power: 10, consensus_key: [5; 32] };
    let set = ValidatorSet::new(1, vec![validator]).unwrap();
    let block = BlockRecord { root: B256::repeat_byte(1), chain_hash: B256::ZERO, height: 8 };
    let certificate = Certificate::new(6, 1, &[(0, Signature([3; 64]))]);
    let (p, s, c) = (params.encode(), encode_validators(&set), certificate.clone());
    let node = Node::queries(move |path, _| match path {
        "/events/cursor" => (0, vec![3], tip.encode()),
        "/params" => (0, vec![6], p.clone()),
        "/validators" => (0, vec![7], s.clone()),
        "/deposit/3" => (0, deposit_key(3).to_vec(), encode_deposit(&deposit())),
        "/block/6" | "/block/latest" => (0, block_key(6).to_vec(), block.encode()),
        "/certificate/2" | "/certificate/8" => {
            let mut out = Vec::new();
            c.encode(&mut out);
            (0, Vec::new(), out)
        }
        _ => (2, Vec::new(), Vec::new()),
    })
    .await;
    let client = node.client();
    assert_eq!(client.tip().await.unwrap(), tip);
    assert_eq!(client.params().await.unwrap(), params);
    assert_eq!(client.validators().await.unwrap(), set);
    assert_eq!(client.deposit(3).await.unwrap(), Some(deposit()));
    assert_eq!(client.deposit(4).await.unwrap(), None);
    assert_eq!(client.block(6).await.unwrap(), Some(block));
    assert_eq!(client.block(7).await.unwrap(), None);
    assert_eq!(client.latest_block().await.unwrap(), Some((6, block)));
    assert_eq!(client.certificate_from(2, 1).await.unwrap(), Some(certificate));
    assert_eq!(client.certificate_from(7, 1).await.unwrap(), None);
    // Of a block below the asked one.
    assert!(matches!(client.certificate_from(8, 1).await, Err(RpcError::Malformed { .. })));
    // The certificate is of one validator; 9 have a longer bitmap.
    assert!(matches!(client.certificate_from(2, 9).await, Err(RpcError::Malformed { .. })));
}
