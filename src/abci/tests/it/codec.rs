//! Frames, apart from sockets.

use std::io::{self, Read};

use bytes::Bytes;
use plasma_abci::codec::{
    MESSAGE_BYTES_MAX, READ_BYTES, ReadError, RequestReader, ResponseWriter, WRITE_BYTES,
};
use tendermint_proto::v0_38::abci::{
    RequestFinalizeBlock, Response, ResponseCheckTx, ResponseQuery, request, response,
};

use crate::client::{FLUSH, check_tx, echo, frame};

/// Reads as much as one call of the system would: a given number of bytes.
struct Pieces<'a> {
    bytes: &'a [u8],
    size: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.size.min(buffer.len());
        (&mut self.bytes).take(size as u64).read(buffer)
    }
}

fn read_all(stream: impl Read) -> Result<Vec<request::Value>, ReadError> {
    let mut reader = RequestReader::new(stream);
    let mut values = Vec::new();
    while let Some(request) = reader.next_request()? {
        values.push(request.value.unwrap());
    }
    Ok(values)
}

fn finalize_block(txs: usize, tx_bytes: usize) -> request::Value {
    let txs = (0..txs).map(|index| Bytes::from(vec![index as u8; tx_bytes])).collect();
    request::Value::FinalizeBlock(RequestFinalizeBlock { txs, height: 9, ..Default::default() })
}

#[test]
fn golden_frames() {
    assert_eq!(frame(check_tx(&[1, 2, 3])), [7, 0x42, 5, 0x0a, 3, 1, 2, 3]);
    assert_eq!(frame(FLUSH), [2, 0x12, 0]);
    let mut written = Vec::new();
    let mut writer = ResponseWriter::new(&mut written);
    let value = response::Value::CheckTx(ResponseCheckTx { code: 3, ..Default::default() });
    writer.write(&Response { value: Some(value) }).unwrap();
    writer.flush().unwrap();
    assert_eq!(written, [4, 0x4a, 2, 0x08, 3]);
}

#[test]
fn requests_survive_every_split() {
    let values = [check_tx(b"one"), FLUSH, echo(&"e".repeat(300)), check_tx(b""), FLUSH];
    let bytes: Vec<u8> = values.iter().cloned().flat_map(frame).collect();
    for split in 0..=bytes.len() {
        let stream = bytes[..split].chain(&bytes[split..]);
        assert_eq!(read_all(stream).unwrap(), values, "split at {split}");
    }
    for size in 1..20 {
        assert_eq!(read_all(Pieces { bytes: &bytes, size }).unwrap(), values);
    }
}

#[test]
fn requests_around_the_buffer_size_are_read() {
    for size in [READ_BYTES - 20, READ_BYTES, 3 * READ_BYTES] {
        let mut values = Vec::new();
        for length in size..size + 40 {
            values.extend([check_tx(&vec![length as u8; length]), FLUSH]);
        }
        let bytes: Vec<u8> = values.iter().cloned().flat_map(frame).collect();
        for size in [1000, 4096, READ_BYTES, usize::MAX] {
            assert!(read_all(Pieces { bytes: &bytes, size }).unwrap() == values, "{size}");
        }
    }
}

#[test]
fn a_stream_may_end_only_between_requests() {
    for value in [check_tx(b"one"), finalize_block(100, 1000)] {
        let bytes = [frame(FLUSH), frame(value)].concat();
        for end in [0, 3, bytes.len()] {
            read_all(&bytes[..end]).unwrap();
        }
        for end in (1..3).chain(4..12).chain([bytes.len() - 1]) {
            let result = read_all(&bytes[..end.min(bytes.len() - 1)]);
            assert!(matches!(result, Err(ReadError::Truncated { .. })), "ended at {end}");
        }
    }
}

#[test]
fn transactions_are_slices_of_one_buffer() {
    // Once within the shared buffer, once with a buffer of the message's own.
    for (txs, tx_bytes) in [(50, 200), (5_000, 200)] {
        let bytes = frame(finalize_block(txs, tx_bytes));
        let request = RequestReader::new(&bytes[..]).next_request().unwrap().unwrap();
        let Some(request::Value::FinalizeBlock(block)) = request.value else { panic!() };
        for pair in block.txs.windows(2) {
            // Tag and length of a field take three bytes.
            assert_eq!(pair[1].as_ptr() as usize, pair[0].as_ptr() as usize + tx_bytes + 3);
        }
    }
}

#[test]
fn an_oversize_length_is_refused_before_its_content_is_read() {
    let mut bytes = Vec::new();
    prost::encoding::encode_varint(MESSAGE_BYTES_MAX as u64 + 1, &mut bytes);
    // Whatever is read after the length panics.
    struct Nothing;
    impl Read for Nothing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("read after an oversize length")
        }
    }
    let error = read_all(bytes.chain(Nothing)).unwrap_err();
    assert!(matches!(error, ReadError::TooLong { bytes: 268_435_457, .. }), "{error}");
}

#[test]
fn garbage_never_panics() {
    let seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut state = seed;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let good = [frame(finalize_block(3, 20)), frame(check_tx(&[7; 40])), frame(FLUSH)].concat();
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=random() % 4 {
            let place = random() as usize % bytes.len();
            bytes[place] = random() as u8;
        }
        let _ = RequestReader::new(&bytes[..]).next_request();
        let noise: Vec<u8> = (0..random() % 64).map(|_| random() as u8).collect();
        let mut reader = RequestReader::new(&noise[..]);
        while let Ok(Some(_)) = reader.next_request() {}
    }
}

#[test]
fn responses_are_sent_when_the_buffer_is_full() {
    let mut written = Vec::new();
    let mut writer = ResponseWriter::new(&mut written);
    let value = vec![5; WRITE_BYTES / 2].into();
    let query = response::Value::Query(ResponseQuery { value, ..Default::default() });
    let response = Response { value: Some(query) };
    writer.write(&response).unwrap();
    drop(writer);
    assert!(written.is_empty(), "sent {} bytes without a flush", written.len());
    let mut writer = ResponseWriter::new(&mut written);
    writer.write(&response).unwrap();
    writer.write(&response).unwrap();
    drop(writer);
    assert!(written.len() > WRITE_BYTES);
}
