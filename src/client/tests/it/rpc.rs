//! CometBFT's answers, and what is not one.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use plasma_client::rpc::{
    AppInfo, Broadcast, CometBlock, NodeClient, ProofOp, QueryAnswer, RpcError, TxResult,
};
use plasma_client::transfer::tx_hash;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::responder::{DEADLINE, Node};

#[tokio::test]
async fn chain_reads_are_decoded() {
    let node = Node::result(|request| match request["method"].as_str().unwrap() {
        "status" => json!({"node_info": {}, "sync_info": {
            "latest_block_height": "12", "latest_app_hash": "AB01"}}),
        "abci_info" => json!({"response": {"data": "plasma-cash", "version": "0.1.0",
            "app_version": "1", "last_block_height": "13", "last_block_app_hash": "qwE="}}),
        "header" => json!({"header": {"height": "5", "app_hash": "CD"}}),
        "block" => json!({"block_id": {}, "block": {"header": {"height": "5", "app_hash": "EF"},
            "data": {"txs": ["AAE=", ""]}}}),
        "block_results" => json!({"height": "5", "txs_results": [
            {"code": 0, "data": null}, {"code": 6, "data": null}]}),
        other => panic!("{other}"),
    })
    .await;
    let client = node.client();
    assert_eq!(client.status().await.unwrap(), (12, vec![0xab, 1]));
    let info = AppInfo { height: 13, app_hash: vec![0xab, 1] };
    assert_eq!(client.info().await.unwrap(), info);
    assert_eq!(client.app_hash(5).await.unwrap(), [0xcd]);
    let block = CometBlock { height: 5, app_hash: vec![0xef], txs: vec![vec![0, 1], vec![]] };
    assert_eq!(client.comet_block(5).await.unwrap(), block);
    assert_eq!(client.result_codes(5).await.unwrap(), [0, 6]);
    let requests = node.requests.lock().unwrap();
    assert_eq!(requests[3]["params"], json!({"height": "5"}));
}

#[test]
fn a_blocking_height_needs_no_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let status = |_: &Value| json!({"sync_info": {"latest_block_height": "3"}});
    let node = runtime.block_on(Node::result(status));
    assert_eq!(plasma_client::blocking_height(&node.url), Some(3));
    drop(runtime);
    assert_eq!(plasma_client::blocking_height(&node.url), None);
}

/// CometBFT's hash of a transaction as it writes it.
fn hash(tx: &[u8]) -> String {
    hex::encode_upper(tx_hash(tx))
}

#[tokio::test]
async fn broadcasts_say_what_was_decided() {
    let node = Node::result(|request| {
        assert_eq!(request["params"]["tx"], "AQI=");
        match request["method"].as_str().unwrap() {
            "broadcast_tx_sync" => json!({"code": 12, "log": "not_owner", "hash": hash(&[1, 2])}),
            "broadcast_tx_async" => json!({"code": 0, "log": "", "hash": hash(&[1, 2])}),
            "broadcast_tx_commit" => json!({"check_tx": {"code": 7, "log": "gone"},
                "tx_result": {"code": 0}, "hash": hash(&[1, 2]), "height": "0"}),
            other => panic!("{other}"),
        }
    })
    .await;
    let client = node.client();
    for (mode, code, log) in [
        (Broadcast::Sync, 12, "not_owner"),
        (Broadcast::Async, 0, ""),
        (Broadcast::Commit, 7, "gone"),
    ] {
        let verdict = client.broadcast(&[1, 2], mode).await.unwrap();
        assert_eq!((verdict.code, verdict.log.as_str()), (code, log), "{mode:?}");
        assert_eq!(verdict.hash, hash(&[1, 2]), "{mode:?}");
    }
    let moved = json!({"code": 9, "log": "moved_in_open_block"});
    let committed =
        move |_: &Value| json!({"check_tx": {"code": 0}, "tx_result": moved, "hash": hash(&[1])});
    let verdict = Node::result(committed).await.client().broadcast(&[1], Broadcast::Commit).await;
    assert_eq!(verdict.unwrap().code, 9);
}

#[tokio::test]
async fn an_answer_without_a_code_or_about_another_transaction_accepts_nothing() {
    for result in [
        json!(null),
        json!({}),
        json!({"hash": hash(&[1])}),
        json!({"code": null, "hash": hash(&[1])}),
        json!({"check_tx": {"code": 0}, "hash": hash(&[1])}),
        json!({"tx_result": {"code": 0}, "hash": hash(&[1])}),
        json!({"code": 0, "check_tx": {"code": 0}, "tx_result": {"code": 0}}),
        json!({"code": 0, "check_tx": {"code": 0}, "tx_result": {"code": 0}, "hash": hash(&[2])}),
    ] {
        let answer = result.clone();
        let client = Node::result(move |_| answer.clone()).await.client();
        for mode in [Broadcast::Sync, Broadcast::Async, Broadcast::Commit] {
            let found = client.broadcast(&[1], mode).await;
            assert!(matches!(found, Err(RpcError::Malformed { .. })), "{result}: {found:?}");
        }
    }
}

#[tokio::test]
async fn a_code_that_is_no_number_is_not_acceptance() {
    for code in [json!(-1), json!("x"), json!(1u64 << 32), json!(true)] {
        let bad = code.clone();
        let node = Node::result(move |_| {
            json!({"code": code, "hash": hash(&[1]),
            "response": {"code": code, "height": "1"}})
        })
        .await;
        let found = node.client().broadcast(&[1], Broadcast::Sync).await;
        assert!(matches!(found, Err(RpcError::Malformed { .. })), "{bad}: {found:?}");
        let found = node.client().query("/params", &[], 0, false).await;
        assert!(matches!(found, Err(RpcError::Malformed { .. })), "{bad}: {found:?}");
    }
}

#[tokio::test]
async fn an_unknown_transaction_is_none() {
    let node = Node::raw(|request| {
        assert_eq!(request["params"]["hash"], BASE64.encode([7; 32]));
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error",
            "data": "tx (0707) not found, err: %!w(<nil>)"}})
        .to_string()
        .into_bytes()
    })
    .await;
    assert_eq!(node.client().tx(&[7; 32]).await.unwrap(), None);
    let found = Node::result(|_| {
        json!({"hash": "07", "height": "8", "index": 1,
            "tx_result": {"code": 0, "data": "AQ=="}, "tx": "AQI="})
    })
    .await;
    let tx = TxResult { height: 8, code: 0, data: vec![1], tx: vec![1, 2] };
    assert_eq!(found.client().tx(&tx_hash(&[1, 2])).await.unwrap(), Some(tx));
    let other = found.client().tx(&[7; 32]).await;
    assert!(matches!(other, Err(RpcError::Malformed { .. })), "{other:?}");
}

#[tokio::test]
async fn cometbfts_errors_keep_their_words() {
    let node = Node::raw(|_| {
        br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"m","data":"d"}}"#.to_vec()
    })
    .await;
    let found = node.client().status().await;
    let Err(RpcError::Comet { message, data }) = found else { panic!("{found:?}") };
    assert_eq!((message.as_str(), data.as_str()), ("m", "d"));
    assert!(matches!(node.client().tx(&[0; 32]).await, Err(RpcError::Comet { .. })));
}

#[tokio::test]
async fn what_is_no_answer_is_malformed() {
    for body in [
        &b""[..],
        b"<html>",
        b"{}",
        br#"{"result":null}"#,
        br#"{"result":{}}"#,
        br#"{"result":{"sync_info":{"latest_block_height":null}}}"#,
        br#"{"result":{"sync_info":{"latest_block_height":"-1"}}}"#,
        br#"{"result":{"sync_info":{"latest_block_height":"99999999999999999999"}}}"#,
        br#"{"result":{"sync_info":{"latest_block_height":"1","latest_app_hash":"xy"}}}"#,
        br#"{"result":{"sync_info":{"latest_block_height":[]}}}"#,
    ] {
        let node = Node::raw(move |_| body.to_vec()).await;
        let found = node.client().status().await;
        let text = String::from_utf8_lossy(body);
        assert!(matches!(found, Err(RpcError::Malformed { .. })), "{text}: {found:?}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_cut() {
    let node = Node::raw(|_| vec![b' '; (8 << 20) + 1]).await;
    let found = node.client().status().await;
    let Err(RpcError::Malformed { what, .. }) = found else { panic!("{found:?}") };
    assert!(what.contains("8388608"), "{what}");
    // A block may be longer.
    let node = Node::raw(|_| {
        let mut body = vec![b' '; 9 << 20];
        body.extend_from_slice(br#"{"result":{"block":{"header":{"height":"1"}}}}"#);
        body
    })
    .await;
    assert_eq!(node.client().comet_block(0).await.unwrap().height, 1);
}

#[tokio::test]
async fn a_short_answer_of_many_values_is_not_parsed() {
    // Each of the objects takes 7 bytes of text and some 600 of memory.
    for value in [r#"{"":0}"#, "0", "[]", "[[[[0]]]]"] {
        let body = format!("[{}{value}]", format!("{value},").repeat(200_000));
        let node = Node::raw(move |_| body.clone().into_bytes()).await;
        let found = node.client().status().await;
        let Err(RpcError::Malformed { what, .. }) = found else { panic!("{value}: {found:?}") };
        assert_eq!(what, "more than 200000 values", "{value}");
    }
}

#[tokio::test]
async fn the_answer_must_be_of_the_asked_height() {
    let node = Node::result(|request| {
        let header = json!({"height": "5", "app_hash": "CD"});
        match request["method"].as_str().unwrap() {
            "header" => json!({"header": header}),
            "block" => json!({"block": {"header": header}}),
            _ => json!({"response": {"code": request["params"]["path"].as_str().unwrap().len(),
                "height": "5"}}),
        }
    })
    .await;
    let client = node.client();
    assert!(client.app_hash(5).await.is_ok());
    assert!(client.comet_block(5).await.is_ok());
    for height in [0, 5] {
        assert_eq!(client.query("", &[], height, false).await.unwrap().height, 5);
    }
    // A refusal has no height.
    assert_eq!(client.query("bad", &[], 6, false).await.unwrap().code, 3);
    for found in [
        client.app_hash(6).await.map(|_| ()),
        client.comet_block(6).await.map(|_| ()),
        client.query("", &[], 6, false).await.map(|_| ()),
    ] {
        assert!(matches!(found, Err(RpcError::Malformed { .. })), "{found:?}");
    }
}

#[tokio::test]
async fn a_young_application_leaves_its_height_out() {
    let client = Node::result(|_| json!({"response": {"data": "plasma-cash"}})).await.client();
    assert_eq!(client.info().await.unwrap(), AppInfo { height: 0, app_hash: Vec::new() });
    for result in [json!({}), json!({"response": {"last_block_height": null}})] {
        let found = Node::result(move |_| result.clone()).await.client().info().await;
        assert!(matches!(found, Err(RpcError::Malformed { .. })), "{found:?}");
    }
}

#[tokio::test]
async fn nobody_and_silence_are_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // It accepts, by the kernel, and never answers.
    let client = NodeClient::new(&url, Duration::from_millis(50)).unwrap();
    let found = client.status().await;
    assert!(matches!(found, Err(RpcError::Unreachable { .. })), "{found:?}");
    drop(listener);
    let client = NodeClient::new(&url, DEADLINE).unwrap();
    let found = client.status().await.unwrap_err();
    assert!(matches!(found, RpcError::Unreachable { .. }), "{found:?}");
    assert!(found.to_string().contains("refused"), "{found}");
    let client = NodeClient::new("not a url", DEADLINE).unwrap();
    assert!(matches!(client.status().await, Err(RpcError::Unreachable { .. })));
}

#[test]
fn proofs_are_read_from_any_form_of_answer() {
    let response = json!({"code": 0, "log": "", "key": "Ag==", "value": "Aw==", "height": "4",
        "proofOps": {"ops": [{"type": "plasma/jmt-sha256/1", "key": "Ag==", "data": "BA=="}]}});
    let expected = QueryAnswer {
        code: 0,
        log: String::new(),
        key: vec![2],
        value: vec![3],
        height: 4,
        proof: vec![ProofOp { kind: "plasma/jmt-sha256/1".into(), key: vec![2], data: vec![4] }],
    };
    for form in [
        response.clone(),
        json!({"response": response}),
        json!({"jsonrpc": "2.0", "id": -1, "result": {"response": response}}),
    ] {
        assert_eq!(QueryAnswer::parse(&form).unwrap(), expected);
    }
    let mut bad = response;
    bad["proofOps"]["ops"][0]["data"] = json!("*");
    assert!(QueryAnswer::parse(&bad).is_err());
}
