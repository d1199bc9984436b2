// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {CompactSmt} from "../src/libraries/CompactSmt.sol";
import {PlasmaHash} from "../src/libraries/PlasmaHash.sol";
import {Base} from "./Base.sol";

/// @title The order of the checks, which exit-game.md fixes
/// @notice Each call breaks every later rule too, so that it can only pass in the right order.
contract OrderTest is Base {
    uint64 private constant MAX = type(uint64).max;
    bytes private constant LONE = hex"00000000000000000000";
    bytes private constant TRAILING = hex"0000000000000000000000";

    function setUp() public {
        deploy(4);
    }

    /// @notice Includes any transfer at coin 1, signed by anybody.
    function place(IRootChain.Transfer memory t, uint256 signer)
        private
        returns (IRootChain.Included memory)
    {
        bytes32 hash = PlasmaHash.transferHash(domain, t);
        uint64 number = submitRoot(CompactSmt.leaf(1, hash));
        return IRootChain.Included(number, t, compact(signer, hash), LONE);
    }

    function to(uint64 coin, uint64 prevBlock, bytes32 prevHash, uint256 owner, uint64 maxBlock)
        private
        pure
        returns (IRootChain.Transfer memory)
    {
        return IRootChain.Transfer(coin, prevBlock, prevHash, vm.addr(owner), maxBlock);
    }

    function hashOf(IRootChain.Included memory shown) private view returns (bytes32) {
        return PlasmaHash.transferHash(domain, shown.transfer);
    }

    /// @notice The same, but in a block where it is not.
    function moved(IRootChain.Included memory shown, uint64 number)
        private
        pure
        returns (IRootChain.Included memory)
    {
        return IRootChain.Included(number, shown.transfer, shown.signature, shown.proof);
    }

    function start(
        bytes4 error_,
        uint256 caller,
        uint64 depositId,
        IRootChain.Included memory parent,
        IRootChain.Included memory transfer
    ) private {
        vm.prank(vm.addr(caller));
        vm.expectRevert(error_);
        chain.startExit(1, depositId, parent, transfer, noAuth(), 0);
    }

    function test_startExit() public {
        IRootChain.Included memory otherCoin = place(to(2, 0, 0, BOB, 0), MALLORY);
        IRootChain.Included memory early = place(to(1, 0, 0, BOB, 0), MALLORY);
        CoinState memory s = deposit(ALICE);
        equal(s.blockNumber, 2, "deposit block");
        (CoinState memory one, IRootChain.Included memory first) = include(s, BOB);
        uint64 p = one.blockNumber;
        IRootChain.Included memory foreign = place(to(2, 0, 0, CAROL, 0), MALLORY);
        IRootChain.Included memory loose = place(to(1, p, keccak256("no"), CAROL, 0), MALLORY);
        IRootChain.Included memory forged = place(to(1, p, one.hash, CAROL, 0), MALLORY);
        IRootChain.Included memory late = place(to(1, p, one.hash, CAROL, p), BOB);
        IRootChain.Included memory good = place(to(1, p, one.hash, CAROL, MAX), BOB);

        start(IRootChain.WrongDeposit.selector, MALLORY, 2, moved(early, 99), moved(foreign, 1));
        start(IRootChain.NotIncluded.selector, MALLORY, 1, moved(otherCoin, 99), moved(foreign, 1));
        start(IRootChain.WrongCoin.selector, MALLORY, 1, otherCoin, moved(foreign, 1));
        start(IRootChain.BeforeDeposit.selector, MALLORY, 1, early, moved(foreign, 1));
        start(IRootChain.NotAfterParent.selector, MALLORY, 1, first, moved(foreign, p));
        IRootChain.Included memory longer = moved(foreign, foreign.blockNumber);
        longer.proof = TRAILING;
        start(IRootChain.NotIncluded.selector, MALLORY, 1, first, longer);
        start(IRootChain.WrongCoin.selector, MALLORY, 1, first, foreign);
        start(IRootChain.NotChild.selector, MALLORY, 1, first, loose);
        start(IRootChain.BadSignature.selector, MALLORY, 1, first, forged);
        start(IRootChain.Expired.selector, MALLORY, 1, first, late);
        start(IRootChain.NotAuthorised.selector, MALLORY, 1, first, good);
        start(IRootChain.WrongBond.selector, CAROL, 1, first, good);
        exit(CAROL, first, good);
        start(IRootChain.NotAuthorised.selector, MALLORY, 1, first, good);
        start(IRootChain.ExitExists.selector, CAROL, 1, first, good);
        afterPeriod();
        chain.finalizeExit(1);
        start(IRootChain.NotActive.selector, MALLORY, 2, moved(early, 99), moved(foreign, 1));
    }

    function test_startDepositExit() public {
        CoinState memory s = deposit(ALICE);
        IRootChain.Authorization memory auth = noAuth();
        vm.expectRevert(IRootChain.WrongDeposit.selector);
        chain.startDepositExit(s.coin + 1, 1, auth, 0);
        vm.expectRevert(IRootChain.WrongDeposit.selector);
        chain.startDepositExit(0, 1, auth, 0);
        vm.expectRevert(IRootChain.WrongDeposit.selector);
        chain.startDepositExit(s.coin, 0, auth, 0);
        vm.expectRevert(IRootChain.NotAuthorised.selector);
        chain.startDepositExit(s.coin, 1, auth, 0);
        auth = IRootChain.Authorization(MAX, new bytes(65));
        vm.expectRevert(IRootChain.BadSignature.selector);
        chain.startDepositExit(s.coin, 1, auth, 0);
        // The owner needs no authorization, and a bad one does him no harm.
        vm.prank(vm.addr(ALICE));
        vm.expectRevert(IRootChain.WrongBond.selector);
        chain.startDepositExit(s.coin, 1, auth, 0);
        exitDeposit(s);
        vm.prank(vm.addr(ALICE));
        vm.expectRevert(IRootChain.ExitExists.selector);
        chain.startDepositExit(s.coin, 1, auth, 0);
        afterPeriod();
        chain.finalizeExit(s.coin);
        vm.expectRevert(IRootChain.NotActive.selector);
        chain.startDepositExit(s.coin, 2, auth, 0);
    }

    function test_noChildOfABadNewOwner() public {
        CoinState memory s = deposit(ALICE);
        IRootChain.Transfer memory t = transferOf(s, BOB, MAX);
        t.newOwner = address(0);
        start(IRootChain.NotChild.selector, MALLORY, 1, noParent(), place(t, ALICE));
        t.newOwner = address(chain);
        start(IRootChain.NotChild.selector, MALLORY, 1, noParent(), place(t, ALICE));
        // prevBlock and prevHash must both fit.
        t = transferOf(s, BOB, MAX);
        t.prevBlock += 1;
        start(IRootChain.NotChild.selector, MALLORY, 1, noParent(), place(t, ALICE));
    }

    function test_signaturesOfAnotherDomainAreRefused() public {
        CoinState memory s = deposit(ALICE);
        IRootChain.Included memory shown = place(transferOf(s, BOB, MAX), ALICE);
        bytes32 foreign = PlasmaHash.domainSeparator(block.chainid + 1, address(chain));
        shown.signature = compact(ALICE, PlasmaHash.transferHash(foreign, shown.transfer));
        start(IRootChain.BadSignature.selector, BOB, 1, noParent(), shown);
        foreign = PlasmaHash.domainSeparator(block.chainid, address(this));
        shown.signature = compact(ALICE, PlasmaHash.transferHash(foreign, shown.transfer));
        start(IRootChain.BadSignature.selector, BOB, 1, noParent(), shown);
    }

    function spent(
        bytes4 error_,
        uint64 id,
        IRootChain.Included memory spend,
        uint64 includedAt
    ) private {
        vm.expectRevert(error_);
        chain.challengeSpent(1, id, spend, includedAt, TRAILING);
    }

    function test_challengeSpent() public {
        CoinState memory s = deposit(ALICE);
        // What will be included in block 4, and a spend of it that the operator includes before.
        IRootChain.Transfer memory t = transferOf(s, BOB, MAX);
        bytes32 hash = PlasmaHash.transferHash(domain, t);
        IRootChain.Included memory before = place(to(1, 4, hash, CAROL, 0), BOB);
        submitOther();
        submitOther();
        IRootChain.Included memory shown = place(t, ALICE);
        equal(shown.blockNumber, 4, "block");
        IRootChain.Included memory foreign = place(to(2, 0, 0, CAROL, 0), MALLORY);
        IRootChain.Included memory loose = place(to(1, 4, keccak256("no"), CAROL, 0), MALLORY);
        IRootChain.Included memory forged = place(to(1, 4, hash, CAROL, 0), MALLORY);
        IRootChain.Included memory late = place(to(1, 4, hash, CAROL, 4), BOB);
        IRootChain.Included memory good = place(to(1, 4, hash, CAROL, MAX), BOB);

        spent(IRootChain.NoExit.selector, 1, moved(foreign, 99), 4);
        uint64 id = exit(BOB, noParent(), shown);
        spent(IRootChain.NoExit.selector, id + 1, moved(foreign, 99), 4);
        spent(IRootChain.NotSameTransfer.selector, id, moved(foreign, 99), 4);
        spent(IRootChain.NotIncluded.selector, id, moved(foreign, 99), 0);
        spent(IRootChain.WrongCoin.selector, id, foreign, 0);
        spent(IRootChain.NotChild.selector, id, loose, 0);
        spent(IRootChain.BadSignature.selector, id, forged, 0);
        spent(IRootChain.NotAfterParent.selector, id, before, 0);
        spent(IRootChain.Expired.selector, id, late, 0);
        chain.challengeSpent(1, id, good, 0, "");
        spent(IRootChain.ExitClosed.selector, id, moved(foreign, 99), 4);
        exitDeposit(s);
        afterPeriod();
        vm.warp(block.timestamp + HOLD_PERIOD);
        chain.finalizeExit(1);
        spent(IRootChain.NotActive.selector, 99, moved(foreign, 99), 4);
    }

    /// @notice The operator foresees the deposit, and includes its spend before it is made.
    function test_noInclusionUpToTheParentsBlockCounts() public {
        uint256 state = vm.snapshotState();
        submitOther();
        CoinState memory foreseen = deposit(ALICE);
        vm.revertToState(state);
        IRootChain.Transfer memory t = transferOf(foreseen, BOB, MAX);
        place(t, ALICE);
        CoinState memory s = deposit(ALICE);
        equal(s.hash, foreseen.hash, "the deposit");
        // Of the transfer in block 2, and of the next one in block 4: included in block 1 and 3.
        IRootChain.Included memory shown = place(t, ALICE);
        IRootChain.Transfer memory next = to(1, 4, hashOf(shown), CAROL, MAX);
        place(next, BOB);
        IRootChain.Included memory parent = place(t, ALICE);
        IRootChain.Included memory last = place(next, BOB);
        IRootChain.Included memory ofFirst = place(to(1, 1, hashOf(shown), MALLORY, MAX), BOB);
        IRootChain.Included memory ofNext = place(to(1, 3, hashOf(last), MALLORY, MAX), CAROL);

        uint64 id = exit(BOB, noParent(), shown);
        vm.expectRevert(IRootChain.NotSameTransfer.selector);
        chain.challengeSpent(1, id, ofFirst, 1, LONE);
        id = exit(CAROL, parent, last);
        vm.expectRevert(IRootChain.NotSameTransfer.selector);
        chain.challengeSpent(1, id, ofNext, 3, LONE);
    }

    /// @notice A deposit stands at its own block, wherever else the operator includes its hash.
    function test_depositsAreSpentAtTheirBlock() public {
        submitOther();
        CoinState memory s = deposit(ALICE);
        uint64 again = submitRoot(CompactSmt.leaf(1, s.hash));
        IRootChain.Included memory ofAgain = place(to(1, again, s.hash, CAROL, MAX), ALICE);
        IRootChain.Included memory spend = place(transferOf(s, BOB, MAX), ALICE);
        uint64 id = exitDeposit(s);
        vm.expectRevert(IRootChain.NotSameTransfer.selector);
        chain.challengeSpent(1, id, ofAgain, again, LONE);
        chain.challengeSpent(1, id, spend, 0, "");
    }

    /// @notice A proof with a zero sibling leads to zero, which is the root of blocks to come.
    function test_nothingIsInABlockThatIsNotStored() public {
        bytes memory toZero = abi.encodePacked(uint8(1), uint64(1), bytes32(0), uint8(0));
        CoinState memory s = deposit(ALICE);
        IRootChain.Included memory unstored = place(transferOf(s, BOB, MAX), ALICE);
        (unstored.blockNumber, unstored.proof) = (99, toZero);
        start(IRootChain.NotIncluded.selector, BOB, 1, noParent(), unstored);

        IRootChain.Included memory shown = place(transferOf(s, BOB, MAX), ALICE);
        IRootChain.Included memory spend = place(to(1, 99, hashOf(shown), CAROL, MAX), BOB);
        uint64 id = exit(BOB, noParent(), shown);
        vm.expectRevert(IRootChain.NotSameTransfer.selector);
        chain.challengeSpent(1, id, spend, 99, toZero);
    }

    /// @notice Garbage that pays nobody is spent by nobody: no signature recovers to zero.
    function test_nobodysStateIsNotSpentByABadSignature() public {
        CoinState memory s = deposit(ALICE);
        IRootChain.Transfer memory t = transferOf(s, BOB, MAX);
        t.newOwner = address(0);
        IRootChain.Included memory parent = place(t, MALLORY);
        IRootChain.Transfer memory last =
            to(1, parent.blockNumber, hashOf(parent), CAROL, MAX);
        IRootChain.Included memory shown = place(last, MALLORY);
        shown.signature = new bytes(64);
        start(IRootChain.BadSignature.selector, CAROL, 1, parent, shown);
    }

    function test_validUpToItsLastBlock() public {
        CoinState memory s = deposit(ALICE);
        exit(BOB, noParent(), place(transferOf(s, BOB, 1), ALICE));
    }

    function doubleSpent(bytes4 error_, uint64 id, IRootChain.Included memory other) private {
        vm.expectRevert(error_);
        chain.challengeDoubleSpend(1, id, other);
    }

    function test_challengeDoubleSpend() public {
        CoinState memory s = deposit(ALICE);
        // The parent will be in block 3; its other spend is included before it.
        IRootChain.Transfer memory t = transferOf(s, BOB, MAX);
        bytes32 hash = PlasmaHash.transferHash(domain, t);
        IRootChain.Included memory before = place(to(1, 3, hash, ALICE, 0), BOB);
        submitOther();
        IRootChain.Included memory parent = place(t, ALICE);
        equal(parent.blockNumber, 3, "block");
        IRootChain.Included memory foreign = place(to(2, 0, 0, ALICE, 0), MALLORY);
        IRootChain.Included memory loose = place(to(1, 3, keccak256("no"), ALICE, 0), MALLORY);
        IRootChain.Included memory forged = place(to(1, 3, hash, ALICE, 0), MALLORY);
        IRootChain.Included memory late = place(to(1, 3, hash, ALICE, 3), BOB);
        IRootChain.Included memory good = place(to(1, 3, hash, ALICE, MAX), BOB);
        IRootChain.Included memory shown = place(to(1, 3, hash, CAROL, MAX), BOB);
        IRootChain.Included memory younger = place(to(1, 3, hash, MALLORY, MAX), BOB);
        IRootChain.Included memory again = place(shown.transfer, BOB);

        doubleSpent(IRootChain.NoExit.selector, 1, moved(foreign, 99));
        uint64 ofDeposit = exitDeposit(s);
        doubleSpent(IRootChain.DepositExit.selector, ofDeposit, moved(foreign, 99));
        uint64 id = exit(CAROL, parent, shown);
        doubleSpent(IRootChain.NotIncluded.selector, id, moved(shown, 99));
        doubleSpent(IRootChain.SameTransfer.selector, id, again);
        doubleSpent(IRootChain.WrongCoin.selector, id, foreign);
        doubleSpent(IRootChain.NotChild.selector, id, loose);
        doubleSpent(IRootChain.BadSignature.selector, id, forged);
        doubleSpent(IRootChain.NotAfterParent.selector, id, before);
        doubleSpent(IRootChain.Expired.selector, id, late);
        doubleSpent(IRootChain.NotBefore.selector, id, younger);
        chain.challengeDoubleSpend(1, id, good);
        doubleSpent(IRootChain.ExitClosed.selector, id, moved(foreign, 99));
        afterPeriod();
        chain.finalizeExit(1);
        doubleSpent(IRootChain.NotActive.selector, 99, moved(foreign, 99));
        equal(hashOf(again), hashOf(shown), "the same transfer twice");
    }

    function test_cancelAndSweep() public {
        CoinState memory s = deposit(ALICE);
        (, IRootChain.Included memory first) = include(s, BOB);
        vm.expectRevert(IRootChain.NoExit.selector);
        chain.cancelExit(1, 1);
        uint64 older = exitDeposit(s);
        uint64 younger = exit(BOB, noParent(), first);
        vm.expectRevert(IRootChain.NotExited.selector);
        chain.sweepExit(1, 99);
        vm.expectRevert(IRootChain.NotAuthorised.selector);
        chain.cancelExit(1, older);
        vm.prank(vm.addr(ALICE));
        vm.expectRevert(IRootChain.OtherExitsOpen.selector);
        chain.cancelExit(1, older);
        chain.challengeSpent(1, older, first, 0, "");
        vm.expectRevert(IRootChain.ExitClosed.selector);
        chain.cancelExit(1, older);
        afterPeriod();
        chain.finalizeExit(1);
        vm.expectRevert(IRootChain.NotActive.selector);
        chain.cancelExit(1, 99);
        vm.expectRevert(IRootChain.NoExit.selector);
        chain.sweepExit(1, 99);
        vm.expectRevert(IRootChain.ExitClosed.selector);
        chain.sweepExit(1, older);
        vm.expectRevert(IRootChain.ExitClosed.selector);
        chain.sweepExit(1, younger);
    }
}
