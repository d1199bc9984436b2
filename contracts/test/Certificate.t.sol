// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {Certificate} from "../src/libraries/Certificate.sol";
import {CompactSignature} from "../src/libraries/CompactSignature.sol";
import {Base} from "./Base.sol";

/// @title Random powers and bitmaps: a certificate passes iff 3 * signed > 2 * total
contract CertificateTest is Base {
    bytes32 private constant DIGEST = keccak256("attested");
    uint64 private constant MAX = type(uint64).max;

    function check(
        bytes calldata members,
        bytes calldata bitmap,
        bytes calldata signatures
    ) external pure {
        Certificate.check(DIGEST, members, bitmap, signatures);
    }

    function make(uint64[] memory powers, uint256 signers)
        private
        pure
        returns (bytes memory members, bytes memory bitmap, bytes memory signatures)
    {
        bitmap = new bytes((powers.length + 7) / 8);
        for (uint256 i; i < powers.length; ++i) {
            members = abi.encodePacked(members, vm.addr(i + 1), powers[i]);
            if ((signers >> i) & 1 == 0) continue;
            bitmap[i / 8] |= bytes1(uint8(1 << (i % 8)));
            signatures = abi.encodePacked(signatures, compact(i + 1, DIGEST));
        }
    }

    function judge(uint64[] memory powers, uint256 signers, bool passes) private {
        (bytes memory members, bytes memory bitmap, bytes memory signatures) =
            make(powers, signers);
        if (!passes) vm.expectRevert(IRootChain.NotEnoughPower.selector);
        this.check(members, bitmap, signatures);
    }

    function test_fuzz_moreThanTwoThirds(uint256 seed, uint256 signers) public {
        uint64[] memory powers = new uint64[](1 + seed % 20);
        // About three of four sign, with small powers: some runs hit two thirds exactly.
        signers |= uint256(keccak256(abi.encode(signers)));
        bool large = seed % 7 == 0; // sums must not overflow
        (uint256 signed, uint256 total) = (0, 0);
        for (uint256 i; i < powers.length; ++i) {
            uint256 random = uint256(keccak256(abi.encode(seed, i)));
            powers[i] = large ? MAX - uint64(random % 2) : uint64(1 + random % 2);
            total += powers[i];
            if ((signers >> i) & 1 == 1) signed += powers[i];
        }
        judge(powers, signers & ((1 << powers.length) - 1), 3 * signed > 2 * total);
    }

    function test_exactlyTwoThirdsIsNotEnough() public {
        uint64[] memory powers = new uint64[](3);
        (powers[0], powers[1], powers[2]) = (40, 20, 30);
        judge(powers, 3, false); // 60 of 90
        powers[1] = 21;
        judge(powers, 3, true); // 61 of 91
        (powers[0], powers[1], powers[2]) = (MAX, MAX, MAX);
        judge(powers, 3, false);
        judge(powers, 7, true);
        judge(powers, 0, false);
    }

    function test_fuzz_bitmapsAreExact(uint256 seed, uint8 bit) public {
        uint64[] memory powers = new uint64[](1 + seed % 20);
        for (uint256 i; i < powers.length; ++i) powers[i] = 1;
        uint256 all = (1 << powers.length) - 1;
        (bytes memory members, bytes memory bitmap, bytes memory signatures) = make(powers, all);
        this.check(members, bitmap, signatures);
        vm.expectRevert(IRootChain.BadBitmap.selector);
        this.check(members, abi.encodePacked(bitmap, uint8(0)), signatures);
        vm.expectRevert(IRootChain.BadBitmap.selector);
        this.check(members, "", signatures);
        uint256 spare = 8 * bitmap.length - powers.length;
        if (spare == 0) return;
        uint256 index = powers.length + bit % spare;
        bitmap[index / 8] |= bytes1(uint8(1 << (index % 8)));
        vm.expectRevert(IRootChain.BadBitmap.selector);
        this.check(members, bitmap, signatures);
    }

    /// @notice ecrecover finds a signer for a high s; for us there is none.
    function test_highSIsRefused() public {
        bytes32 r = bytes32(uint256(0x1234));
        bytes32 s = bytes32(uint256(type(int256).max)); // the highest that 64 bytes can hold
        address member = ecrecover(DIGEST, 27, r, s);
        isTrue(member != address(0), "a signer");
        equal(this.recover(r, s), address(0), "no signer");
        bytes memory members = abi.encodePacked(member, uint64(1));
        vm.expectRevert(IRootChain.BadSignatures.selector);
        this.check(members, hex"01", abi.encodePacked(r, s));
    }

    function recover(bytes32 r, bytes32 vs) external pure returns (address) {
        return CompactSignature.recover(DIGEST, r, vs);
    }

    /// @notice The least set of signers that is needed: there every signature counts.
    function test_fuzz_alteredSignaturesAreRefused(uint16 index, uint8 bit) public {
        uint64[] memory powers = new uint64[](10);
        for (uint256 i; i < powers.length; ++i) powers[i] = 1;
        (bytes memory members, bytes memory bitmap, bytes memory signatures) = make(powers, 0x7f);
        this.check(members, bitmap, signatures);
        signatures[index % signatures.length] ^= bytes1(uint8(1 << (bit % 8)));
        vm.expectRevert(IRootChain.BadSignatures.selector);
        this.check(members, bitmap, signatures);
    }
}
