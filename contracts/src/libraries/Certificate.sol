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
        for (uint256 i; i < bitmap.length * 8; ++i) {
            if (!_signed(bitmap, i)) continue;
            if (i >= count) revert IRootChain.BadBitmap();
            ++bits;
        }
        if (signatures.length != 64 * bits) revert IRootChain.BadSignatures();
        uint256 power;
        uint256 at;
        for (uint256 i; i < count; ++i) {
            if (!_signed(bitmap, i)) continue;
            address member = address(bytes20(set[i * MEMBER_BYTES:i * MEMBER_BYTES + 20]));
            bytes32 r = bytes32(signatures[at:at + 32]);
            bytes32 vs = bytes32(signatures[at + 32:at + 64]);
            if (CompactSignature.recover(digest, r, vs) != member) {
                revert IRootChain.BadSignatures();
            }
            at += 64;
            power += _power(set, i);
            // Each further signature would cost 3,000 gas and change nothing.
            if (3 * power > 2 * total) return;
        }
        revert IRootChain.NotEnoughPower();
    }

    function _signed(bytes calldata bitmap, uint256 i) private pure returns (bool) {
        return (uint8(bitmap[i / 8]) >> (i % 8)) & 1 == 1;
    }

    function _power(bytes calldata set, uint256 i) private pure returns (uint256) {
        return uint64(bytes8(set[i * MEMBER_BYTES + 20:i * MEMBER_BYTES + 28]));
    }
}
