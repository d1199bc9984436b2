// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {CompactSmt} from "../src/libraries/CompactSmt.sol";
import {Checks} from "./Checks.sol";
import {SmtCalls} from "./SmtCalls.sol";

/// @title Proofs of random trees, made here from the definition, verify; no altered one does
contract CompactSmtTest is Checks, SmtCalls {
    uint64[] private coins;

    function hashOf(uint64 coin) private pure returns (bytes32) {
        return keccak256(abi.encode("transfer", coin));
    }

    /// @dev Distinct coins; few low bits differ, so that paths are long and exclusion proofs of
    /// both kinds occur.
    function grow(uint256 seed, uint256 count) private {
        delete coins;
        for (uint256 i; coins.length < count; ++i) {
            uint256 random = uint256(keccak256(abi.encode(seed, i)));
            uint256 high = ((random >> 8) & 3) << (8 + (random >> 16) % 54);
            uint64 coin = uint64((random & 7) | high);
            bool known;
            for (uint256 j; j < coins.length; ++j) known = known || coins[j] == coin;
            if (!known) coins.push(coin);
        }
    }

    /// @dev Leaves under the subtree of `path`'s low `depth` bits, and one of them.
    function below(uint64 path, uint256 depth) private view returns (uint256 count, uint64 any) {
        uint256 mask = (uint256(1) << depth) - 1;
        for (uint256 i; i < coins.length; ++i) {
            if ((coins[i] ^ path) & mask == 0) (count, any) = (count + 1, coins[i]);
        }
    }

    function subtree(uint64 path, uint256 depth) private view returns (bytes32) {
        (uint256 count, uint64 any) = below(path, depth);
        if (count == 0) return 0;
        if (count == 1) return CompactSmt.leaf(any, hashOf(any));
        uint64 bit = uint64(1) << uint64(depth);
        return keccak256(
            abi.encodePacked(
                uint8(1), subtree(path & ~bit, depth + 1), subtree(path | bit, depth + 1)
            )
        );
    }

    /// @return inTree whether this is an inclusion proof
    function prove(uint64 coin) private view returns (bool inTree, bytes memory proof) {
        uint256 depth;
        uint64 bitmap;
        bytes memory siblings;
        (uint256 count, uint64 any) = below(coin, 0);
        while (count > 1) {
            bytes32 sibling = subtree(coin ^ (uint64(1) << uint64(depth)), depth + 1);
            if (sibling != 0) {
                bitmap |= uint64(1) << uint64(depth);
                siblings = abi.encodePacked(siblings, sibling);
            }
            (count, any) = below(coin, ++depth);
        }
        inTree = count == 1 && any == coin;
        proof = abi.encodePacked(uint8(depth), bitmap, siblings);
        if (inTree) proof = abi.encodePacked(proof, uint8(0));
        else if (count == 0) proof = abi.encodePacked(proof, uint8(1));
        else proof = abi.encodePacked(proof, uint8(2), any, hashOf(any));
    }

    function judge(bytes32 root, uint64 coin, bytes memory proof, bool inclusion)
        private
        view
        returns (bool)
    {
        return inclusion
            ? this.included(root, coin, hashOf(coin), proof)
            : this.excluded(root, coin, proof);
    }

    function test_fuzz_proofsOfRandomTreesVerify(uint256 seed, uint64 stranger) public {
        grow(seed, 1 + seed % 12);
        bytes32 root = subtree(0, 0);
        for (uint256 i; i < coins.length; ++i) {
            (bool inTree, bytes memory proof) = prove(coins[i]);
            isTrue(inTree && judge(root, coins[i], proof, true), "own proof");
            isTrue(!this.excluded(root, coins[i], proof), "never both");
            neighbours(root, coins[i] ^ uint64(1 << (seed % 64)));
        }
        neighbours(root, stranger);
    }

    function neighbours(bytes32 root, uint64 coin) private view {
        (bool inTree, bytes memory proof) = prove(coin);
        isTrue(judge(root, coin, proof, inTree), "proof of any coin");
        isTrue(!judge(root, coin, proof, !inTree), "never both");
    }

    function test_fuzz_noAlteredProofVerifies(uint256 seed, uint64 coin) public {
        grow(seed, 2 + seed % 8);
        bytes32 root = subtree(0, 0);
        if (seed & 1 == 0) coin = coins[(seed >> 8) % coins.length];
        (bool inTree, bytes memory proof) = prove(coin);
        isTrue(judge(root, coin, proof, inTree), "unaltered");

        bytes32 altered = root ^ bytes32(uint256(1) << ((seed >> 16) % 256));
        isTrue(!judge(altered, coin, proof, inTree), "root");
        isTrue(!judge(0, coin, proof, inTree), "no root");
        if (inTree) {
            isTrue(!this.included(root, coin, keccak256("another"), proof), "transfer");
            uint64 neighbour = coin ^ uint64(1 << (seed % 64));
            isTrue(!this.included(root, neighbour, hashOf(coin), proof), "coin");
        }
        isTrue(!judge(root, coin, abi.encodePacked(proof, uint8(0)), inTree), "trailing byte");
        for (uint256 i; i < proof.length; ++i) {
            bytes memory other = bytes.concat(proof);
            other[i] ^= bytes1(uint8(1 << ((seed >> 24) % 8)));
            isTrue(!judge(root, coin, other, inTree), "altered byte");
            other = new bytes(i);
            for (uint256 j; j < i; ++j) other[j] = proof[j];
            isTrue(!judge(root, coin, other, inTree), "cut off");
        }
    }

    function test_fuzz_garbageNeverReverts(bytes calldata proof, bytes32 root, uint64 coin)
        public
        view
    {
        isTrue(!this.included(root, coin, hashOf(coin), proof), "inclusion");
        isTrue(!this.excluded(root, coin, proof), "exclusion");
    }

    function test_paddedProofsAreRefused() public {
        // One coin: no depth, and no other encoding of it.
        coins = [7];
        bytes32 root = subtree(0, 0);
        isTrue(judge(root, 7, hex"00000000000000000000", true), "lone leaf");
        isTrue(!judge(root, 7, hex"01000000000000000000", true), "deeper than the tree");
        // An operator's root with an empty sibling at the bottom, left out or present but zero.
        bytes32 padded = CompactSmt.node(0, root);
        isTrue(!judge(padded, 7, hex"01000000000000000000", true), "empty sibling at the bottom");
        bytes memory zero = abi.encodePacked(uint8(1), uint64(1), bytes32(0), uint8(0));
        isTrue(!judge(padded, 7, zero, true), "zero sibling");
        // The other leaf has the same coin, or stands on another path.
        bytes memory same = abi.encodePacked(uint8(0), uint64(0), uint8(2), uint64(7), hashOf(7));
        isTrue(!judge(root, 7, same, false), "same coin");
        isTrue(judge(root, 8, same, false), "another coin");
    }

    function test_leavesOutOfPlaceAreRefused() public {
        coins = [2, 3];
        bytes32 three = CompactSmt.leaf(3, hashOf(3));
        bytes memory own = abi.encodePacked(uint8(1), uint64(1), three, uint8(0));
        isTrue(judge(subtree(0, 0), 2, own, true), "two coins");
        // A sibling too many, above the leaf.
        bytes memory more = abi.encodePacked(uint8(1), uint64(3), three, three, uint8(0));
        isTrue(!judge(subtree(0, 0), 2, more, true), "bitmap beyond depth");
        // An operator's tree that hides coin 2 behind the leaf of an odd coin.
        bytes32 root = CompactSmt.node(CompactSmt.leaf(5, hashOf(5)), three);
        bytes memory hidden =
            abi.encodePacked(uint8(1), uint64(1), three, uint8(2), uint64(5), hashOf(5));
        isTrue(!judge(root, 2, hidden, false), "leaf of another path");
    }
}
