//! Reading and writing of wire bytes: fixed-size fields and minimal LEB128 varints.
//!
//! A varint is unsigned LEB128, at most 10 bytes, at most 2^64-1 and minimal: the last byte is not
//! zero unless the value is 0 and it is the only byte. Reading never panics and never allocates;
//! `Reader::finish` refuses trailing bytes.

use alloy_primitives::{Address, B256};

/// Why bytes from outside could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end inside a field.
    #[error("bytes end at offset {at}, {wanted} more wanted")]
    Short {
        /// Offset of the field.
        at: usize,
        /// Bytes that the field needs.
        wanted: usize,
    },
    /// A varint is not minimal or exceeds 64 bits.
    #[error("varint at offset {at} is not minimal or exceeds 64 bits")]
    Varint {
        /// Offset of the varint.
        at: usize,
    },
    /// Bytes follow a complete message.
    #[error("{extra} bytes follow the message")]
    Trailing {
        /// How many.
        extra: usize,
    },
    /// A field has a value that its format does not allow.
    #[error("{what} is {value}, not allowed here")]
    Value {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
}

/// A cursor over bytes from outside.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        if count > self.remaining() {
            return Err(WireError::Short { at: self.at, wanted: count - self.remaining() });
        }
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut array = [0u8; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, big-endian.
    pub fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Eight bytes, big-endian.
    pub fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A 20-byte Ethereum address.
    pub fn address(&mut self) -> Result<Address, WireError> {
        Ok(Address::from(self.array::<20>()?))
    }

    /// A 32-byte hash.
    pub fn hash(&mut self) -> Result<B256, WireError> {
        Ok(B256::from(self.array::<32>()?))
    }

    /// A minimal LEB128 varint.
    pub fn varint(&mut self) -> Result<u64, WireError> {
        let at = self.at;
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte carries bit 63 alone.
            if shift > 63 || (shift == 63 && bits > 1) || (byte == 0 && shift > 0) {
                return Err(WireError::Varint { at });
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }

    /// Ends reading; bytes left over are an error.
    pub fn finish(self) -> Result<(), WireError> {
        match self.remaining() {
            0 => Ok(()),
            extra => Err(WireError::Trailing { extra }),
        }
    }
}

/// Appends `value` as a minimal LEB128 varint.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that `put_varint` appends for `value`.
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_are_minimal() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(bytes.len(), varint_len(value));
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.varint(), Ok(value));
            assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn bad_varints_are_refused() {
        for bytes in [&[0x80, 0x00][..], &[0xff, 0x80, 0x00], &[0xff; 11]] {
            assert_eq!(Reader::new(bytes).varint(), Err(WireError::Varint { at: 0 }));
        }
        // 2^64: the tenth byte would carry bit 64.
        let over = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02];
        assert_eq!(Reader::new(&over).varint(), Err(WireError::Varint { at: 0 }));
        assert_eq!(Reader::new(&[0x80]).varint(), Err(WireError::Short { at: 1, wanted: 1 }));
    }
}
