// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @title Signatures of 64 bytes: r, then s with the parity in its top bit (EIP-2098)
library CompactSignature {
    /// @notice The signer; zero for a wrong length, r or s out of range, high s.
    function recover(bytes32 digest, bytes calldata signature) internal pure returns (address) {
        if (signature.length != 64) return address(0);
        return recover(digest, bytes32(signature[:32]), bytes32(signature[32:]));
    }

    /// @notice The signer; zero for r or s out of range, high s.
    function recover(bytes32 digest, bytes32 r, bytes32 vs) internal pure returns (address) {
        // ecrecover refuses r and s of zero or at least the order; ECDSA refuses a high s.
        (address signer, ECDSA.RecoverError err,) = ECDSA.tryRecover(digest, r, vs);
        return err == ECDSA.RecoverError.NoError ? signer : address(0);
    }
}
