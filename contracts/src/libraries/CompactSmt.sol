// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

/// @title Proofs of a plasma block's compact sparse Merkle tree
/// @notice protocol.md section 3. A proof is depth:1, bitmap:8, the non-empty siblings from the
/// root down, and a terminal: `0` own leaf, `1` empty, `2 || coin:8 || transferHash:32` another
/// leaf.
/// The path of a coin is its id's bits from the least significant upward and comes from the id,
/// never from the proof. Every other encoding is refused.
library CompactSmt {
    uint256 private constant SIBLINGS_AT = 9;

    /// @notice Whether `coin` moved by the transfer `transferHash` in the block with `root`.
    function included(bytes32 root, uint64 coin, bytes32 transferHash, bytes calldata proof)
        internal
        pure
        returns (bool)
    {
        uint256 end = _terminalAt(proof);
        if (end == 0 || proof.length != end + 1 || proof[end] != 0x00) return false;
        return _climb(proof, coin, end, leaf(coin, transferHash)) == root;
    }

    /// @notice Whether `coin` did not move in the block with `root`.
    function excluded(bytes32 root, uint64 coin, bytes calldata proof)
        internal
        pure
        returns (bool)
    {
        uint256 end = _terminalAt(proof);
        if (end == 0) return false;
        bytes32 terminal; // empty
        if (proof[end] == 0x02) {
            if (proof.length != end + 41) return false;
            uint64 other = uint64(bytes8(proof[end + 1:end + 9]));
            uint256 differing = uint256(coin ^ other);
            // Another coin, but the same path down to the leaf.
            uint256 path = (uint256(1) << uint8(proof[0])) - 1;
            if (differing == 0 || differing & path != 0) return false;
            terminal = leaf(other, bytes32(proof[end + 9:end + 41]));
        } else if (proof[end] != 0x01 || proof.length != end + 1) {
            return false;
        }
        return _climb(proof, coin, end, terminal) == root;
    }

    function leaf(uint64 coin, bytes32 transferHash) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(uint8(0), coin, transferHash));
    }

    function node(bytes32 left, bytes32 right) internal pure returns (bytes32 hash) {
        assembly ("memory-safe") {
            // Up to 0x41 bytes of memory that nobody owns yet; the free pointer stays.
            let free := mload(0x40)
            mstore8(free, 1)
            mstore(add(free, 1), left)
            mstore(add(free, 33), right)
            hash := keccak256(free, 65)
        }
    }

    /// @dev Where the terminal of a well-formed proof stands; zero: refused.
    function _terminalAt(bytes calldata proof) private pure returns (uint256 terminalAt) {
        if (proof.length < SIBLINGS_AT + 1) return 0;
        uint256 depth = uint8(proof[0]);
        uint256 bitmap = uint64(bytes8(proof[1:9]));
        if (depth > 64 || bitmap >> depth != 0) return 0;
        if (depth > 0 && (bitmap >> (depth - 1)) & 1 == 0) return 0;
        terminalAt = SIBLINGS_AT;
        for (; bitmap != 0; bitmap &= bitmap - 1) terminalAt += 32;
        if (proof.length <= terminalAt) return 0;
    }

    /// @dev The root that the siblings before `end` lead to; zero (no root is) if one is zero.
    function _climb(bytes calldata proof, uint64 coin, uint256 end, bytes32 hash)
        private
        pure
        returns (bytes32)
    {
        uint256 bitmap = uint64(bytes8(proof[1:9]));
        for (uint256 depth = uint8(proof[0]); depth > 0;) {
            --depth;
            bytes32 sibling;
            if ((bitmap >> depth) & 1 == 1) {
                end -= 32;
                sibling = bytes32(proof[end:end + 32]);
                if (sibling == 0) return 0;
            }
            hash = (coin >> depth) & 1 == 1 ? node(sibling, hash) : node(hash, sibling);
        }
        return hash;
    }
}
