// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {PlasmaHash} from "../src/libraries/PlasmaHash.sol";
import {Base} from "./Base.sol";

/// @title Malformed signatures and proofs, at each place of RootChain that takes one
contract ProofsTest is Base {
    uint256 private constant ORDER =
        0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141;
    uint64 private constant MAX = type(uint64).max;

    IRootChain.Included private first; // ALICE to BOB
    IRootChain.Included private second; // BOB to CAROL
    IRootChain.Included private other; // ALICE to MALLORY, later than first
    CoinState private s;
    uint64 private ofDeposit;
    uint64 private ofOther;

    function setUp() public {
        deploy(4);
        s = deposit(ALICE);
        CoinState memory one;
        (one, first) = includeDeep(s, BOB, 3);
        (, second) = includeDeep(one, CAROL, 20);
        (, other) = include(s, MALLORY);
        ofDeposit = exitDeposit(s);
        ofOther = exit(MALLORY, noParent(), other);
    }

    /// @notice The same r and the other s, with the other parity: the same signer by ecrecover.
    function highS(uint256 key, bytes32 digest) private pure returns (bytes memory) {
        (, bytes32 r, bytes32 low) = vm.sign(key, digest);
        // s above half the order has its top bit set: in 64 bytes it reads as another s.
        return abi.encodePacked(r, bytes32(ORDER - uint256(low)));
    }

    function badSignatures(uint256 key, bytes32 digest) private pure returns (bytes[8] memory) {
        bytes memory good = compact(key, digest);
        (uint8 v, bytes32 r, bytes32 low) = vm.sign(key, digest);
        bytes memory short = new bytes(63);
        for (uint256 i; i < 63; ++i) short[i] = good[i];
        return [
            highS(key, digest),
            bytes(""),
            short,
            abi.encodePacked(good, uint8(0)),
            abi.encodePacked(r, low, v),
            new bytes(64),
            abi.encodePacked(bytes32(0), low),
            abi.encodePacked(r, bytes32(0))
        ];
    }

    function test_malformedSignaturesOfTransfers() public {
        bytes32 hash = PlasmaHash.transferHash(domain, first.transfer);
        bytes[8] memory bad = badSignatures(ALICE, hash);
        for (uint256 i; i < bad.length; ++i) {
            first.signature = bad[i];
            everyUse(IRootChain.BadSignature.selector);
        }
        first.signature = compact(MALLORY, hash);
        everyUse(IRootChain.BadSignature.selector);
    }

    function test_signaturesOfAnotherChainOrContract() public {
        bytes32[2] memory foreign = [
            PlasmaHash.domainSeparator(block.chainid + 1, address(chain)),
            PlasmaHash.domainSeparator(block.chainid, address(this))
        ];
        for (uint256 i; i < foreign.length; ++i) {
            first.signature = compact(ALICE, PlasmaHash.transferHash(foreign[i], first.transfer));
            everyUse(IRootChain.BadSignature.selector);
        }
    }

    /// @notice `first` as exiting transfer, as spend and as double spend.
    function everyUse(bytes4 error_) private {
        vm.prank(vm.addr(BOB));
        vm.expectRevert(error_);
        chain.startExit{value: BOND}(s.coin, 1, noParent(), first, noAuth(), 0);
        vm.expectRevert(error_);
        chain.challengeSpent(s.coin, ofDeposit, first, 0, "");
        vm.expectRevert(error_);
        chain.challengeDoubleSpend(s.coin, ofOther, first);
    }

    /// @notice A proof `p` of three siblings; `change` says what is wrong with it.
    function altered(bytes memory p, uint256 change) private pure returns (bytes memory) {
        (bytes memory siblings, bytes memory two) = (new bytes(96), new bytes(64));
        for (uint256 i; i < 96; ++i) siblings[i] = p[9 + i];
        for (uint256 i; i < 64; ++i) two[i] = p[9 + i];
        if (change == 0) return abi.encodePacked(p, uint8(0)); // trailing byte
        if (change == 1) return abi.encodePacked(p, bytes32(0)); // trailing word
        if (change == 2) return abi.encodePacked(uint8(3), uint64(7), siblings, two, uint8(0));
        if (change == 3) return abi.encodePacked(uint8(4), uint64(15), siblings, two, uint8(0));
        if (change == 4) return abi.encodePacked(uint8(3), uint64(5), siblings, uint8(0));
        if (change == 5) return abi.encodePacked(uint8(3), uint64(15), siblings, uint8(0));
        if (change == 6) return abi.encodePacked(uint8(4), uint64(7), siblings, uint8(0));
        if (change == 7) return abi.encodePacked(uint8(3), uint64(7), two, uint8(0));
        if (change == 8) return abi.encodePacked(uint8(3), uint64(7), siblings, uint8(1));
        if (change == 9) return abi.encodePacked(uint8(3), uint64(7), siblings);
        if (change == 10) return abi.encodePacked(uint8(65), uint64(7), siblings, uint8(0));
        if (change == 11) return abi.encodePacked(uint8(2), uint64(3), two, uint8(0));
        return "";
    }

    function test_malformedProofs() public {
        bytes memory good = first.proof;
        for (uint256 change; change < 13; ++change) {
            first.proof = altered(good, change);
            everyUse(IRootChain.NotIncluded.selector);
            // As parent, and as further inclusion of an exiting transfer.
            vm.prank(vm.addr(CAROL));
            vm.expectRevert(IRootChain.NotIncluded.selector);
            chain.startExit{value: BOND}(s.coin, 1, first, second, noAuth(), 0);
        }
        first.proof = good;
        first.blockNumber = MAX;
        everyUse(IRootChain.NotIncluded.selector);
        first.blockNumber = second.blockNumber;
        everyUse(IRootChain.NotIncluded.selector);
        first.blockNumber = 0;
        vm.expectRevert(IRootChain.NotIncluded.selector);
        chain.challengeSpent(s.coin, ofDeposit, first, 0, "");
        vm.expectRevert(IRootChain.NotIncluded.selector);
        chain.challengeDoubleSpend(s.coin, ofOther, first);
    }

    function test_malformedInclusionsOfTheExitingTransfer() public {
        uint64 id = exit(BOB, noParent(), first);
        for (uint256 change; change < 13; ++change) {
            bytes memory proof = altered(first.proof, change);
            vm.expectRevert(IRootChain.NotSameTransfer.selector);
            chain.challengeSpent(s.coin, id, second, first.blockNumber, proof);
        }
        chain.challengeSpent(s.coin, id, second, first.blockNumber, first.proof);
    }

    function test_proofsOfEveryDepth() public {
        CoinState memory now_ = s;
        IRootChain.Included memory parent;
        uint8[4] memory depths = [1, 10, 20, 64];
        for (uint256 i; i < depths.length; ++i) {
            IRootChain.Included memory t;
            (now_, t) = includeDeep(now_, BOB, depths[i]);
            now_.ownerKey = BOB;
            exit(BOB, parent, t);
            parent = t;
        }
        equal(chain.lastExit(), 2 + depths.length, "exits");
    }

    // --- authorizations ------------------------------------------------------------------------

    function tower(bytes4 error_, uint64 notAfter, bytes memory signature) private {
        vm.prank(vm.addr(CAROL));
        if (error_ != 0) vm.expectRevert(error_);
        chain.startExit{value: BOND}(
            s.coin, 1, noParent(), first, IRootChain.Authorization(notAfter, signature), 0
        );
    }

    function test_malformedAuthorizations() public {
        bytes32 hash = PlasmaHash.transferHash(domain, first.transfer);
        uint64 until = uint64(block.timestamp);
        bytes32 digest = PlasmaHash.authorization(domain, s.coin, hash, until);
        bytes[8] memory bad = badSignatures(BOB, digest);
        for (uint256 i; i < bad.length; ++i) {
            // In 64 bytes a high s reads as another s, of another signer.
            bool other_ = i == 0 || bad[i].length == 0;
            tower(
                other_ ? IRootChain.NotAuthorised.selector : IRootChain.BadSignature.selector,
                until,
                bad[i]
            );
        }
        tower(0, until, compact(BOB, digest));
    }

    /// @notice Another coin, state, end, signer, chain or contract than those of this exit.
    function test_authorizationsOfSomethingElse() public {
        bytes4 no = IRootChain.NotAuthorised.selector;
        bytes32 hash = PlasmaHash.transferHash(domain, first.transfer);
        uint64 until = uint64(block.timestamp);
        bytes32 foreign = PlasmaHash.domainSeparator(block.chainid + 1, address(chain));
        tower(no, until, compact(BOB, PlasmaHash.authorization(foreign, s.coin, hash, until)));
        foreign = PlasmaHash.domainSeparator(block.chainid, address(this));
        tower(no, until, compact(BOB, PlasmaHash.authorization(foreign, s.coin, hash, until)));
        tower(no, until, compact(BOB, PlasmaHash.authorization(domain, 2, hash, until)));
        tower(no, until, compact(BOB, PlasmaHash.authorization(domain, s.coin, s.hash, until)));
        tower(no, until, compact(BOB, PlasmaHash.authorization(domain, s.coin, hash, until + 1)));
        tower(no, until, compact(ALICE, PlasmaHash.authorization(domain, s.coin, hash, until)));
        bytes32 past = PlasmaHash.authorization(domain, s.coin, hash, until - 1);
        tower(no, until - 1, compact(BOB, past));
    }

    /// @notice An authorization opens one exit; it is no use again while that one is not cancelled.
    function test_authorizationIsUsedOnce() public {
        bytes32 hash = PlasmaHash.transferHash(domain, first.transfer);
        bytes memory signature =
            compact(BOB, PlasmaHash.authorization(domain, s.coin, hash, MAX));
        tower(0, MAX, signature);
        tower(IRootChain.ExitExists.selector, MAX, signature);
        chain.challengeSpent(s.coin, 3, second, 0, "");
        tower(IRootChain.ExitExists.selector, MAX, signature);
    }

    // --- certificates --------------------------------------------------------------------------

    function test_certificatesOfAnotherChainOrContract() public {
        bytes32[] memory roots = new bytes32[](1);
        roots[0] = keccak256("root");
        uint64 number = chain.lastBlock() + 1;
        bytes32 hash = PlasmaHash.chainHash(chain.chainHash(), number, roots[0]);
        bytes32[3] memory digests = [
            PlasmaHash.attestation(
                PlasmaHash.domainSeparator(block.chainid + 1, address(chain)), number, hash, 1
            ),
            PlasmaHash.attestation(
                PlasmaHash.domainSeparator(block.chainid, address(this)), number, hash, 1
            ),
            PlasmaHash.attestation(domain, number, hash, 2)
        ];
        for (uint256 i; i < digests.length; ++i) {
            bytes memory signatures;
            for (uint256 j; j < 3; ++j) {
                signatures = abi.encodePacked(signatures, compact(keys[j], digests[i]));
            }
            vm.expectRevert(IRootChain.BadSignatures.selector);
            chain.submitBlocks(number, roots, set, hex"07", signatures);
        }
    }

    function test_malformedSignaturesOfCertificates() public {
        bytes32[] memory roots = new bytes32[](1);
        roots[0] = keccak256("root");
        uint64 number = chain.lastBlock() + 1;
        bytes32 hash = PlasmaHash.chainHash(chain.chainHash(), number, roots[0]);
        bytes32 digest = PlasmaHash.attestation(domain, number, hash, 1);
        bytes[8] memory bad = badSignatures(keys[2], digest);
        bytes memory two = abi.encodePacked(compact(keys[0], digest), compact(keys[1], digest));
        for (uint256 i; i < bad.length; ++i) {
            vm.expectRevert(IRootChain.BadSignatures.selector);
            chain.submitBlocks(number, roots, set, hex"07", abi.encodePacked(two, bad[i]));
        }
        bytes memory all = abi.encodePacked(two, compact(keys[2], digest));
        chain.submitBlocks(number, roots, set, hex"07", all);
    }
}
