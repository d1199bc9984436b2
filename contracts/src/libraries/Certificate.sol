// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../interfaces/IRootChain.sol";
import {CompactSignature} from "./CompactSignature.sol";

/// @title More than two thirds of the validators' power signed a digest
/// @notice protocol.md section 4. `set` is `address:20 || power:8` of each validator; its hash was
/// compared by the caller, so that order and distinctness are known to hold.
library Certificate {
    uint256 private constant MEMBER_BYTES = 28;

    /// @notice Reverts with BadBitmap, BadSignatures or NotEnoughPower, in this order.
    function check(
        bytes32 digest,
        bytes calldata set,
        bytes calldata bitmap,
        bytes calldata signatures
    ) internal pure {
        uint256 count = set.length / MEMBER_BYTES;
        uint256 total;
        for (uint256 i; i < count; ++i) total += _power(set, i);
        if (bitmap.length != (count + 7) / 8) revert IRootChain.BadBitmap();
        uint256 bits;
        for (uint256 i; i < bitmap.length; ++i) {
            uint256 eight = uint8(bitmap[i]);
            // The last byte's bits beyond the validators are spare.
            if (8 * i + 8 > count && eight >> (count - 8 * i) != 0) revert IRootChain.BadBitmap();
            for (; eight != 0; eight &= eight - 1) ++bits;
        }
        if (signatures.length != 64 * bits) revert IRootChain.BadSignatures();
        uint256 power;
        uint256 offset;
        for (uint256 i; i < count; ++i) {
            if ((uint8(bitmap[i / 8]) >> (i % 8)) & 1 == 0) continue;
            address member = address(bytes20(_word(set, i * MEMBER_BYTES)));
            bytes32 r = _word(signatures, offset);
            bytes32 vs = _word(signatures, offset + 32);
            if (CompactSignature.recover(digest, r, vs) != member) {
                revert IRootChain.BadSignatures();
            }
            offset += 64;
            power += _power(set, i);
            // Each further signature would cost 3,000 gas and change nothing.
            if (3 * power > 2 * total) return;
        }
        revert IRootChain.NotEnoughPower();
    }

    function _power(bytes calldata set, uint256 i) private pure returns (uint256) {
        return uint64(bytes8(_word(set, i * MEMBER_BYTES + 20)));
    }

    /// @dev 32 bytes from `offset`; the callers' offsets lie within the checked lengths, and what
    /// is read beyond the end is cut off. Slicing would check every read again.
    function _word(bytes calldata data, uint256 offset) private pure returns (bytes32 word) {
        assembly ("memory-safe") {
            word := calldataload(add(data.offset, offset))
        }
    }
}
