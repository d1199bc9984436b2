// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {CompactSmt} from "../src/libraries/CompactSmt.sol";

/// @notice The library takes proofs from calldata: these calls give tests that entrance.
abstract contract SmtCalls {
    function included(bytes32 root, uint64 coin, bytes32 hash, bytes calldata proof)
        external
        pure
        returns (bool)
    {
        return CompactSmt.included(root, coin, hash, proof);
    }

    function excluded(bytes32 root, uint64 coin, bytes calldata proof)
        external
        pure
        returns (bool)
    {
        return CompactSmt.excluded(root, coin, proof);
    }
}
