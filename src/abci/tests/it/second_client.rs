//! The server driven by `tendermint-abci`'s client, a second implementation of the protocol.
//!
//! That client waits for every answer without asking for a Flush, while CometBFT and its Go
//! server exchange a Flush for every answer that is waited for. A relay between the two adds it.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use plasma_abci::server::{Address, Options, Server};
use tendermint_abci::{Client, ClientBuilder};
use tendermint_proto::v0_38::abci::*;

use crate::application::TestApplication;
use crate::client::{FLUSH, frame};

/// One frame as it is on the wire.
fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut bytes, mut byte) = (Vec::new(), [0x80]);
    while byte[0] & 0x80 != 0 {
        stream.read_exact(&mut byte)?;
        bytes.push(byte[0]);
    }
    let length = prost::decode_length_delimiter(&bytes[..]).unwrap();
    let start = bytes.len();
    bytes.resize(start + length, 0);
    stream.read_exact(&mut bytes[start..])?;
    Ok(bytes)
}

/// Forwards request by request, each with a Flush, and drops the Flush's answer.
fn relay(mut client: TcpStream, mut server: TcpStream) -> io::Result<()> {
    loop {
        let request = read_frame(&mut client)?;
        server.write_all(&[request, frame(FLUSH)].concat())?;
        client.write_all(&read_frame(&mut server)?)?;
        assert_eq!(read_frame(&mut server)?, [2, 0x1a, 0]);
    }
}

fn with_client(test: impl FnOnce(&mut Client)) {
    let address = "tcp://127.0.0.1:0".parse().unwrap();
    let application = Arc::new(TestApplication::default());
    let server = Server::bind(&address, application, Options::default()).unwrap();
    let handle = server.start().unwrap();
    let Address::Tcp(address) = *handle.address() else { panic!("not TCP") };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let relay_address = listener.local_addr().unwrap();
    let relaying = thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        relay(client, TcpStream::connect(address).unwrap())
    });
    let mut client = ClientBuilder::default().connect(relay_address).unwrap();
    test(&mut client);
    drop(client);
    assert_eq!(relaying.join().unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    handle.stop();
}

#[test]
fn the_second_client_understands_every_answer() {
    with_client(|client| {
        let echo = client.echo(RequestEcho { message: "hello".to_owned() }).unwrap();
        assert_eq!(echo.message, "hello");
        client.flush().unwrap();
        let version = "0.38".to_owned();
        let info = client.info(RequestInfo { version, ..Default::default() }).unwrap();
        assert_eq!((&*info.data, &*info.version), ("test", "0.38"));
        let query = RequestQuery { data: vec![9; 9].into(), height: 3, ..Default::default() };
        let query = client.query(query).unwrap();
        assert_eq!((&query.value[..], query.height), (&[9; 9][..], 3));
        let init = client.init_chain(RequestInitChain::default()).unwrap();
        assert_eq!(&init.app_hash[..], [7; 32]);
        let tx = RequestCheckTx { tx: vec![0; 200_000].into(), r#type: 1 };
        assert_eq!(client.check_tx(tx).unwrap().code, 200_000);
        let hash = vec![4; 32].into();
        let extend = RequestExtendVote { hash, height: 1, ..Default::default() };
        assert_eq!(&client.extend_vote(extend).unwrap().vote_extension[..], [4; 32]);
        let verify = RequestVerifyVoteExtension::default();
        assert_eq!(client.verify_vote_extension(verify).unwrap().status, 1);
        let txs = vec![vec![1; 100].into(); 1_000];
        let block = RequestFinalizeBlock { txs, height: 1, ..Default::default() };
        assert_eq!(client.finalize_block(block).unwrap().tx_results.len(), 1_000);
        assert_eq!(client.commit().unwrap().retain_height, 0);
    });
}

#[test]
fn the_second_client_understands_the_snapshot_answers() {
    with_client(|client| {
        assert!(client.list_snapshots().unwrap().snapshots.is_empty());
        assert_eq!(client.offer_snapshot(RequestOfferSnapshot::default()).unwrap().result, 3);
        let load = RequestLoadSnapshotChunk::default();
        assert!(client.load_snapshot_chunk(load).unwrap().chunk.is_empty());
        let apply = RequestApplySnapshotChunk::default();
        assert_eq!(client.apply_snapshot_chunk(apply).unwrap().result, 2);
    });
}
