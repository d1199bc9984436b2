//! Where a record is: 48 bits, segment:22 and offset:26.
//!
//! A location names the place where the record was written first. It never changes its meaning:
//! compaction moves the bytes and keeps a table of the old offsets.

use std::fmt;
use std::hash::{Hash, Hasher};

/// Bits of an offset, and so the longest segment: 64 MiB.
const OFFSET_BITS: u32 = 26;
/// Most bytes of a segment.
pub const SEGMENT_BYTES_MAX: u32 = 1 << OFFSET_BITS;
/// Most segments of a stream.
pub const SEGMENTS_MAX: u32 = 1 << 22;

/// A place in a stream. They ascend in the order of writing.
///
/// Six bytes, big-endian, also in memory: every key in a cached page has three of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Location([u8; Self::ENCODED_LEN]);

impl Hash for Location {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.number());
    }
}

impl Location {
    /// Its bytes in a record.
    pub const ENCODED_LEN: usize = 6;

    /// A place; none above the limits.
    pub fn new(segment: u32, offset: u32) -> Option<Self> {
        let fits = segment < SEGMENTS_MAX && offset < SEGMENT_BYTES_MAX;
        let [.., a, b, c, d, e, f] =
            (u64::from(segment) << OFFSET_BITS | u64::from(offset)).to_be_bytes();
        fits.then_some(Self([a, b, c, d, e, f]))
    }

    fn number(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// Its segment.
    pub fn segment(self) -> u32 {
        (self.number() >> OFFSET_BITS) as u32
    }

    /// Its first byte's offset in the segment.
    pub fn offset(self) -> u32 {
        self.number() as u32 & (SEGMENT_BYTES_MAX - 1)
    }

    /// Six bytes, little-endian.
    pub fn to_bytes(self) -> [u8; Self::ENCODED_LEN] {
        let [a, b, c, d, e, f] = self.0;
        [f, e, d, c, b, a]
    }

    /// Reads six bytes; every value is a place.
    pub fn from_bytes([a, b, c, d, e, f]: [u8; Self::ENCODED_LEN]) -> Self {
        Self([f, e, d, c, b, a])
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.segment(), self.offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_limits_an_order_and_six_bytes() {
        assert_eq!(Location::new(SEGMENTS_MAX, 0), None);
        assert_eq!(Location::new(0, SEGMENT_BYTES_MAX), None);
        let last = Location::new(SEGMENTS_MAX - 1, SEGMENT_BYTES_MAX - 1).unwrap();
        assert_eq!((last.segment(), last.offset()), (SEGMENTS_MAX - 1, SEGMENT_BYTES_MAX - 1));
        assert_eq!(Location::from_bytes(last.to_bytes()), last);
        assert!(Location::new(1, 0) > Location::new(0, SEGMENT_BYTES_MAX - 1));
        assert_eq!(format!("{:?}", Location::new(3, 7).unwrap()), "3+7");
    }
}
