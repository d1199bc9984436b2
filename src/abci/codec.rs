//! Frames of the ABCI socket protocol: reading requests without copying, writing responses.
//!
//! ```text
//! frame    = length | message
//! length   = unsigned LEB128 varint, minimal, 1 to 5 bytes, at most MESSAGE_BYTES_MAX
//! message  = protobuf tendermint.abci.Request (to us) or tendermint.abci.Response (from us)
//! ```
//!
//! Invariants: a length is checked before anything is allocated for it; a stream may end only
//! between frames; every byte field of a request is a slice of the buffer that was read. Small
//! frames share a buffer of [`READ_BYTES`], so a slice that is kept keeps at most that much
//! alive; a larger frame has a buffer of its own. Nothing here is durable.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use tendermint_proto::v0_38::abci::{Request, Response};

/// Largest request in bytes. A block has at most 100 MiB (CometBFT's `MaxBlockSizeBytes`) and
/// block sync carries at most 100 MB for a block with its extended commit, so a legal
/// PrepareProposal stays well below. CometBFT itself sets no limit (2 GiB).
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Size of the buffer that small frames are read into and share.
pub const READ_BYTES: usize = 64 << 10;

/// Responses are kept back until a Flush or until they reach this many bytes.
pub const WRITE_BYTES: usize = 256 << 10;

/// Bytes of the longest legal length: [`MESSAGE_BYTES_MAX`] has 29 bits.
const LENGTH_BYTES_MAX: usize = 5;

/// A frame could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The frame's length is over [`MESSAGE_BYTES_MAX`].
    #[error("message of {bytes} bytes is over the limit of {max}")]
    TooLong {
        /// Length that the frame claims.
        bytes: u64,
        /// The limit.
        max: usize,
    },
    /// The length is not a minimal varint of at most five bytes.
    #[error("length is not a minimal varint: {bytes:02x?}")]
    BadLength {
        /// The bytes of the length.
        bytes: Vec<u8>,
    },
    /// The stream ended inside a frame.
    #[error("stream ended inside a message after {bytes} of its bytes")]
    Truncated {
        /// Bytes of the frame that had arrived.
        bytes: usize,
    },
    /// The frame is not a `tendermint.abci.Request`.
    #[error("message of {bytes} bytes is not an ABCI request: {source}")]
    Malformed {
        /// Length of the message.
        bytes: usize,
        /// What the protobuf decoder found.
        source: prost::DecodeError,
    },
    /// The socket failed.
    #[error("cannot read from the socket: {0}")]
    Io(#[from] io::Error),
}

/// Reads requests from a stream.
pub struct RequestReader<R> {
    stream: R,
    /// Initialised bytes; the first `filled` of them hold what was read and not yet consumed.
    buffer: BytesMut,
    filled: usize,
}

impl<R: Read> RequestReader<R> {
    /// A reader at the border of a frame.
    pub fn new(stream: R) -> Self {
        Self { stream, buffer: BytesMut::new(), filled: 0 }
    }

    /// The next request; `None` when the stream ended between two frames.
    ///
    /// # Errors
    /// See [`ReadError`]. After an error the position in the stream is lost.
    pub fn next_request(&mut self) -> Result<Option<Request>, ReadError> {
        let Some(frame) = self.next_frame()? else { return Ok(None) };
        let bytes = frame.len();
        let request =
            Request::decode(frame).map_err(|source| ReadError::Malformed { bytes, source })?;
        Ok(Some(request))
    }

    fn next_frame(&mut self) -> Result<Option<Bytes>, ReadError> {
        loop {
            let Some((prefix, length)) = decode_length(&self.buffer[..self.filled])? else {
                match self.fill(LENGTH_BYTES_MAX)? {
                    0 if self.filled == 0 => return Ok(None),
                    0 => return Err(ReadError::Truncated { bytes: self.filled }),
                    _ => continue,
                }
            };
            if prefix + length > READ_BYTES {
                return self.read_large(prefix, length).map(Some);
            }
            if prefix + length <= self.filled {
                self.buffer.advance(prefix);
                self.filled -= prefix + length;
                return Ok(Some(self.buffer.split_to(length).freeze()));
            }
            if self.fill(prefix + length)? == 0 {
                return Err(ReadError::Truncated { bytes: self.filled });
            }
        }
    }

    /// Reads once, with room for a frame of `frame` bytes from the start of the buffer; returns
    /// the number of bytes read, 0 at the end of the stream.
    fn fill(&mut self, frame: usize) -> io::Result<usize> {
        if self.buffer.len() < frame || self.buffer.len() == self.filled {
            // Slices of the old buffer may live on, so its bytes are moved, never overwritten.
            let mut fresh = BytesMut::zeroed(READ_BYTES);
            fresh[..self.filled].copy_from_slice(&self.buffer[..self.filled]);
            self.buffer = fresh;
        }
        let read = retry_interrupted(|| self.stream.read(&mut self.buffer[self.filled..]))?;
        self.filled += read;
        Ok(read)
    }

    /// Reads the rest of a frame that does not fit the shared buffer into one of its own.
    fn read_large(&mut self, prefix: usize, length: usize) -> Result<Bytes, ReadError> {
        let start = self.filled.min(prefix + length);
        let mut message = Vec::with_capacity(length);
        message.extend_from_slice(&self.buffer[prefix..start]);
        self.buffer.advance(start);
        self.filled -= start;
        let missing = length - message.len();
        (&mut self.stream).take(missing as u64).read_to_end(&mut message)?;
        if message.len() < length {
            return Err(ReadError::Truncated { bytes: prefix + message.len() });
        }
        Ok(Bytes::from(message))
    }
}

/// Decodes a length at the start of `bytes` to (its own size, its value); `None` if it is not
/// complete yet.
fn decode_length(bytes: &[u8]) -> Result<Option<(usize, usize)>, ReadError> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(LENGTH_BYTES_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 != 0 {
            continue;
        }
        if byte == 0 && index > 0 {
            return Err(ReadError::BadLength { bytes: bytes[..=index].to_vec() });
        }
        return match usize::try_from(value) {
            Ok(length) if length <= MESSAGE_BYTES_MAX => Ok(Some((index + 1, length))),
            _ => Err(ReadError::TooLong { bytes: value, max: MESSAGE_BYTES_MAX }),
        };
    }
    if bytes.len() >= LENGTH_BYTES_MAX {
        return Err(ReadError::BadLength { bytes: bytes[..LENGTH_BYTES_MAX].to_vec() });
    }
    Ok(None)
}

/// Writes responses to a stream, keeping them back until they are flushed.
pub struct ResponseWriter<W> {
    stream: W,
    buffer: Vec<u8>,
}

impl<W: Write> ResponseWriter<W> {
    /// A writer with an empty buffer.
    pub fn new(stream: W) -> Self {
        Self { stream, buffer: Vec::with_capacity(WRITE_BYTES) }
    }

    /// Appends a response; sends what is buffered only when that reaches [`WRITE_BYTES`].
    ///
    /// # Errors
    /// The socket's error; the connection cannot be used any more.
    pub fn write(&mut self, response: &Response) -> io::Result<()> {
        // INVARIANT: a Vec grows, so encoding into it never lacks room.
        #[allow(clippy::expect_used)]
        response.encode_length_delimited(&mut self.buffer).expect("a Vec has room");
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends everything that was written.
    ///
    /// # Errors
    /// The socket's error; the connection cannot be used any more.
    pub fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.buffer)?;
        self.buffer.clear();
        self.buffer.shrink_to(WRITE_BYTES);
        Ok(())
    }
}

fn retry_interrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(bytes: &[u8]) -> Result<Option<(usize, usize)>, ReadError> {
        decode_length(bytes)
    }

    #[test]
    fn lengths_of_every_size_are_read() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 2_097_152, MESSAGE_BYTES_MAX] {
            let mut bytes = Vec::new();
            prost::encoding::encode_varint(value as u64, &mut bytes);
            assert_eq!(length(&bytes).unwrap(), Some((bytes.len(), value)));
            assert_eq!(length(&bytes[..bytes.len() - 1]).unwrap(), None);
        }
    }

    #[test]
    fn lengths_over_the_limit_and_non_minimal_ones_are_refused() {
        let mut over = Vec::new();
        prost::encoding::encode_varint(MESSAGE_BYTES_MAX as u64 + 1, &mut over);
        assert!(matches!(length(&over), Err(ReadError::TooLong { .. })));
        for bad in [&[0x80, 0x00][..], &[0xff, 0x80, 0x00], &[0xff; 5], &[0xff; 10]] {
            assert!(matches!(length(bad), Err(ReadError::BadLength { .. })), "{bad:02x?}");
        }
        assert!(matches!(length(&[0xff, 0xff, 0xff, 0xff, 0x7f]), Err(ReadError::TooLong { .. })));
    }

    #[test]
    fn a_claimed_length_is_not_allocated_when_the_stream_ends() {
        // 64 MiB claimed, two bytes sent.
        let mut reader = RequestReader::new(&[0x80, 0x80, 0x80, 0x20, 0x0a, 0x00][..]);
        assert!(matches!(reader.next_request(), Err(ReadError::Truncated { bytes: 6 })));
    }
}
