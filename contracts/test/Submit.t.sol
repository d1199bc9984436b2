// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {PlasmaHash} from "../src/libraries/PlasmaHash.sol";
import {Base} from "./Base.sol";

contract SubmitTest is Base {
    function setUp() public {
        deploy(4);
    }

    function some(uint256 count) private pure returns (bytes32[] memory roots) {
        roots = new bytes32[](count);
        for (uint256 i; i < count; ++i) roots[i] = bytes32(i + 1);
    }

    function test_rootsAreStored() public {
        bytes32 hash = chain.chainHash();
        submit(some(3));
        for (uint64 i = 1; i < 4; ++i) hash = PlasmaHash.chainHash(hash, i, bytes32(uint256(i)));
        equal(chain.chainHash(), hash, "chain hash");
        submit(some(512));
        equal(chain.lastBlock(), 515, "last block");
        equal(chain.roots(3), bytes32(uint256(3)), "third root");
        equal(chain.roots(515), bytes32(uint256(512)), "last root");
        equal(chain.roots(516), 0, "no more");
    }

    function test_errorsInOrder() public {
        bytes32[] memory roots = some(1);
        (bytes memory bitmap, bytes memory signatures) = certify(roots, 3);
        vm.expectRevert(IRootChain.NotNext.selector);
        chain.submitBlocks(2, some(0), "", "", "");
        vm.expectRevert(IRootChain.NoRoots.selector);
        chain.submitBlocks(1, some(0), "", "", "");
        vm.expectRevert(IRootChain.TooManyRoots.selector);
        chain.submitBlocks(1, some(513), "", "", "");
        vm.expectRevert(IRootChain.ZeroRoot.selector);
        chain.submitBlocks(1, new bytes32[](1), "", "", "");
        vm.expectRevert(IRootChain.WrongSet.selector);
        chain.submitBlocks(1, roots, abi.encodePacked(set, uint8(0)), "", "");
        vm.expectRevert(IRootChain.BadBitmap.selector);
        chain.submitBlocks(1, roots, set, hex"0700", signatures);
        vm.expectRevert(IRootChain.BadBitmap.selector);
        chain.submitBlocks(1, roots, set, hex"17", signatures);
        vm.expectRevert(IRootChain.BadSignatures.selector);
        chain.submitBlocks(1, roots, set, hex"0f", signatures);
        vm.expectRevert(IRootChain.BadSignatures.selector);
        chain.submitBlocks(1, roots, set, hex"0b", signatures);
        (bytes memory two, bytes memory half) = certify(roots, 2);
        vm.expectRevert(IRootChain.NotEnoughPower.selector);
        chain.submitBlocks(1, roots, set, two, half);
        chain.submitBlocks(1, roots, set, bitmap, signatures);
        vm.expectRevert(IRootChain.NotNext.selector);
        chain.submitBlocks(1, roots, set, bitmap, signatures);
    }

    function test_exactlyTwoThirdsIsNotEnough() public {
        deploy(3);
        (bytes memory bitmap, bytes memory signatures) = certify(some(1), 2);
        vm.expectRevert(IRootChain.NotEnoughPower.selector);
        chain.submitBlocks(1, some(1), set, bitmap, signatures);
        submit(some(1));
    }

    function test_fuzz_onlyWhoSignedCounts(uint8 bits) public {
        bits &= 0x0f;
        bytes32[] memory roots = some(2);
        (, bytes memory all) = certify(roots, 4);
        bytes memory signatures;
        uint256 count;
        for (uint256 i; i < 4; ++i) {
            if ((bits >> i) & 1 == 0) continue;
            ++count;
            for (uint256 j; j < 64; ++j) signatures = abi.encodePacked(signatures, all[64 * i + j]);
        }
        if (count < 3) vm.expectRevert(IRootChain.NotEnoughPower.selector);
        chain.submitBlocks(1, roots, set, abi.encodePacked(bits), signatures);
    }

    function test_signaturesOfOtherRootsAreRefused() public {
        (bytes memory bitmap, bytes memory signatures) = certify(some(2), 3);
        vm.expectRevert(IRootChain.BadSignatures.selector);
        chain.submitBlocks(1, some(1), set, bitmap, signatures);
    }
}
