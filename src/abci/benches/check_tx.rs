//! Rates of the ABCI server with an empty application over one unix-socket connection.
//!
//! The client sends frames that were encoded before and counts the bytes of the answers, so that
//! it is the server that is measured. Run: `cargo bench -p plasma-abci --bench check_tx`.

#![allow(clippy::unwrap_used)]

#[path = "../tests/it/application.rs"]
#[allow(dead_code)]
mod application;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use plasma_abci::server::{Address, Options, Server};
use prost::Message;
use tendermint_proto::v0_38::abci::{
    ExecTxResult, Request, RequestCheckTx, RequestFinalizeBlock, RequestFlush, Response,
    ResponseCheckTx, ResponseFinalizeBlock, ResponseFlush, request, response,
};

const TX_BYTES: usize = 200;
const RUNS: usize = 5;

fn request(value: request::Value) -> Vec<u8> {
    Request { value: Some(value) }.encode_length_delimited_to_vec()
}

fn response_bytes(value: response::Value) -> usize {
    Response { value: Some(value) }.encode_length_delimited_to_vec().len()
}

/// Sends a batch some times and waits for all bytes of its answers.
fn exchange(socket: &Path, batch: &[u8], times: usize, answer_bytes: usize) -> Duration {
    let mut reader = UnixStream::connect(socket).unwrap();
    let mut writer = reader.try_clone().unwrap();
    let mut buffer = vec![0; 256 << 10];
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || (0..times).for_each(|_| writer.write_all(batch).unwrap()));
        let mut missing = times * answer_bytes;
        while missing > 0 {
            let count = reader.read(&mut buffer).unwrap();
            assert!(count > 0 && count <= missing, "the server's answers are not as expected");
            missing -= count;
        }
    });
    start.elapsed()
}

/// Runs `RUNS` times; returns the runs' times in ascending order.
fn runs(mut run: impl FnMut() -> Duration) -> Vec<Duration> {
    let mut times: Vec<_> = (0..RUNS).map(|_| run()).collect();
    times.sort();
    times
}

fn check_tx(socket: &Path, total: usize, flush_every: usize) {
    let tx = vec![0x5a; TX_BYTES].into();
    let one = request(request::Value::CheckTx(RequestCheckTx { tx, r#type: 0 }));
    let flush = request(request::Value::Flush(RequestFlush {}));
    let group = [one.repeat(flush_every), flush].concat();
    // The client writes at least 64 KiB at a time, whatever it asks to be flushed.
    let groups = (65_536 / group.len()).max(1);
    let code = TX_BYTES as u32;
    let answer =
        response_bytes(response::Value::CheckTx(ResponseCheckTx { code, ..Default::default() }));
    let answers =
        groups * (flush_every * answer + response_bytes(response::Value::Flush(ResponseFlush {})));
    let times = total / (groups * flush_every);
    let sorted = runs(|| exchange(socket, &group.repeat(groups), times, answers));
    let rate = |time: Duration| (times * groups * flush_every) as f64 / time.as_secs_f64() / 1e3;
    println!(
        "CheckTx of {TX_BYTES} B, Flush every {flush_every:>3}: {:>6.0} k/s median of {RUNS} \
         ({:.0} to {:.0})",
        rate(sorted[RUNS / 2]),
        rate(sorted[RUNS - 1]),
        rate(sorted[0]),
    );
}

fn round_trips(socket: &Path, total: usize) {
    let tx = vec![0x5a; TX_BYTES].into();
    let one = request(request::Value::CheckTx(RequestCheckTx { tx, r#type: 0 }));
    let both = [one, request(request::Value::Flush(RequestFlush {}))].concat();
    let mut stream = UnixStream::connect(socket).unwrap();
    let mut answer = [0; 9];
    let sorted = runs(|| {
        let start = Instant::now();
        for _ in 0..total {
            stream.write_all(&both).unwrap();
            stream.read_exact(&mut answer).unwrap();
        }
        start.elapsed() / total as u32
    });
    println!("CheckTx, Flush and wait for each: {:?} median of {RUNS}", sorted[RUNS / 2]);
}

fn finalize_block(socket: &Path, txs: usize) {
    let list = vec![vec![0x5a; TX_BYTES].into(); txs];
    let block = RequestFinalizeBlock { txs: list, height: 1, ..Default::default() };
    let mut bytes = request(request::Value::FinalizeBlock(block));
    bytes.extend(request(request::Value::Flush(RequestFlush {})));
    let answers = response_bytes(response::Value::FinalizeBlock(ResponseFinalizeBlock {
        tx_results: vec![ExecTxResult::default(); txs],
        ..Default::default()
    })) + response_bytes(response::Value::Flush(ResponseFlush {}));
    let sorted = runs(|| exchange(socket, &bytes, 1, answers));
    println!(
        "FinalizeBlock of {} MB, {txs} transactions: {:?} median of {RUNS} ({:?} to {:?})",
        bytes.len() / 1_000_000,
        sorted[RUNS / 2],
        sorted[0],
        sorted[RUNS - 1],
    );
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("abci.sock");
    let application = Arc::new(application::TestApplication::default());
    let address = Address::Unix(socket.clone());
    let handle = Server::bind(&address, application, Options::default()).unwrap().start().unwrap();
    check_tx(&socket, 2_000_000, 500);
    check_tx(&socket, 400_000, 1);
    round_trips(&socket, 20_000);
    finalize_block(&socket, 490_000);
    handle.stop();
}
