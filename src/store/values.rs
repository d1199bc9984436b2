//! Value records: what a key was set to, chained to what it was before.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | 0 tombstone, 1 value |
//! | varint | version |
//! | varint | tid |
//! | varint, then the bytes | key |
//! | varint | length of the chain that ends here, at least 1 |
//! | 6 | location of the record before; only if the length is above 1 |
//! | 6 | location of the record to jump to; only if there is one |
//! | rest | the value |
//!
//! The jump pointers are a skew-binary list (Myers 1983): from a chain's end any of its records is
//! reached in a number of steps that is logarithmic in its length.

use crate::bytes::{put_varint, take_array, take_varint};
use crate::location::Location;
use crate::{KEY_BYTES_MAX, StoreError, Version};

/// A change of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueRecord<'a> {
    /// When.
    pub version: Version,
    /// In which trie.
    pub tid: u64,
    /// Of which key.
    pub key: &'a [u8],
    /// Number of records of the key up to this one.
    pub length: u32,
    /// The one before.
    pub prev: Option<Location>,
    /// One further back.
    pub jump: Option<Location>,
    /// The value; none for a tombstone.
    pub value: Option<&'a [u8]>,
}

/// By how many records the end of a chain of `length` jumps back: the smallest part of the length
/// as a sum of numbers 2^k - 1, largest first.
pub fn jump_width(length: u64) -> u64 {
    let (mut rest, mut width) = (length, 0);
    while rest > 0 {
        // The largest 2^k - 1 that is not above the rest.
        width = u64::MAX >> (rest.saturating_add(1).leading_zeros() + 1).min(63);
        rest -= width;
    }
    width
}

impl<'a> ValueRecord<'a> {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.value.is_some()));
        put_varint(out, self.version);
        put_varint(out, self.tid);
        put_varint(out, self.key.len() as u64);
        out.extend_from_slice(self.key);
        put_varint(out, self.length.into());
        for location in [self.prev, self.jump].into_iter().flatten() {
            out.extend_from_slice(&location.to_bytes());
        }
        out.extend_from_slice(self.value.unwrap_or_default());
    }

    /// Reads a record's body.
    ///
    /// # Errors
    /// `Corrupt` with its place.
    pub fn decode(at: Location, body: &'a [u8]) -> Result<Self, StoreError> {
        Self::read(body).ok_or_else(|| {
            StoreError::Corrupt(format!("values record at {at:?}: it is no value record"))
        })
    }

    fn read(mut bytes: &'a [u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        bytes = rest;
        let version = take_varint(&mut bytes)?;
        let tid = take_varint(&mut bytes)?;
        let key = usize::try_from(take_varint(&mut bytes)?).ok()?;
        let (key, rest) = bytes.split_at_checked(key).filter(|_| key <= KEY_BYTES_MAX)?;
        bytes = rest;
        let length = u32::try_from(take_varint(&mut bytes)?).ok().filter(|length| *length > 0)?;
        let mut location = |there: bool| -> Option<Option<Location>> {
            if !there {
                return Some(None);
            }
            take_array(&mut bytes).map(|place| Some(Location::from_bytes(place)))
        };
        let prev = location(length > 1)?;
        let jump = location(jump_width(length.into()) < length.into())?;
        let value = match tag {
            0 if bytes.is_empty() => None,
            1 => Some(bytes),
            _ => return None,
        };
        Some(Self { version, tid, key, length, prev, jump, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_a_skew_binary_list() {
        // By the rule that builds it: two equal neighbours become one tree of twice the size and
        // one.
        let mut jumps: Vec<u64> = vec![0];
        for length in 1..5_000u64 {
            let prev = length - 1;
            let to = |length: u64| jumps[length as usize];
            let equal = prev > 0 && prev - to(prev) == to(prev) - to(to(prev));
            jumps.push(if equal { to(to(prev)) } else { prev });
            assert_eq!(length - jump_width(length), jumps[length as usize], "{length}");
        }
    }

    #[test]
    fn records_come_back() {
        for length in [1, 2, 3, 4, 100] {
            for value in [None, Some(&[][..]), Some(&[7; 300][..])] {
                let location = Location::new(3, length);
                let record = ValueRecord {
                    version: 9,
                    tid: 2,
                    key: b"key",
                    length,
                    prev: location.filter(|_| length > 1),
                    jump: location.filter(|_| jump_width(length.into()) < length.into()),
                    value,
                };
                let at = Location::default();
                let mut bytes = Vec::new();
                record.encode(&mut bytes);
                assert_eq!(ValueRecord::decode(at, &bytes).unwrap(), record);
                assert!(ValueRecord::decode(at, &bytes[..4]).is_err());
            }
        }
    }
}
