//! Integers and arrays at the front of bytes, as all formats of the store have them.

/// Appends a LEB128 varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a minimal LEB128 varint.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        value |= low.checked_shl(shift).filter(|shifted| shifted >> shift == low)?;
        if byte & 0x80 == 0 {
            return (*byte != 0 || shift == 0).then_some(value);
        }
    }
    None
}

/// Reads the first bytes, which leave the slice.
pub(crate) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*array)
}
