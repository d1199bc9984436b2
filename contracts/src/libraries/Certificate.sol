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
        if (signatures.length != 64 * _bits(bitmap, count)) revert IRootChain.BadSignatures();
        uint256 total;
        for (uint256 i; i < count; ++i) total += _power(set, i);
        uint256 power;
        uint256 offset;
        for (uint256 i; i < count; ++i) {
            if ((uint8(bitmap[i / 8]) >> (i % 8)) & 1 == 0) continue;
            if (_signer(digest, signatures, offset) != _member(set, i)) {
                revert IRootChain.BadSignatures();
            }
            offset += 64;
            power += _power(set, i);
            // Each further signature would cost 3,000 gas and change nothing.
            if (3 * power > 2 * total) return;
        }
        revert IRootChain.NotEnoughPower();
    }

    /// @dev How many validators signed.
    function _bits(bytes calldata bitmap, uint256 count) private pure returns (uint256 bits) {
        if (bitmap.length != (count + 7) / 8) revert IRootChain.BadBitmap();
        for (uint256 i; i < bitmap.length; ++i) {
            uint256 eight = uint8(bitmap[i]);
            // The last byte's bits beyond the validators are spare.
            if (8 * i + 8 > count && eight >> (count - 8 * i) != 0) revert IRootChain.BadBitmap();
            for (; eight != 0; eight &= eight - 1) ++bits;
        }
    }

    function _signer(bytes32 digest, bytes calldata signatures, uint256 offset)
        private
        pure
        returns (address)
    {
        return CompactSignature.recover(
            digest, _word(signatures, offset), _word(signatures, offset + 32)
        );
    }

    function _member(bytes calldata set, uint256 i) private pure returns (address) {
        return address(bytes20(_word(set, i * MEMBER_BYTES)));
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
