// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {PlasmaHash} from "../src/libraries/PlasmaHash.sol";
import {Base} from "./Base.sol";

contract ExitsTest is Base {
    function setUp() public {
        deploy(4);
    }

    function paid(uint256 key, uint64 coin) private {
        address owner = vm.addr(key);
        uint256 before = owner.balance;
        chain.finalizeExit(coin);
        vm.prank(owner);
        chain.withdraw(coin, owner);
        vm.prank(owner);
        chain.withdrawCredits(owner);
        equal(owner.balance - before, 1 ether + BOND, "coin and bond");
    }

    function status(uint64 coin) private view returns (IRootChain.Status s) {
        (s,,,) = chain.coins(coin);
    }

    function test_depositExitPays() public {
        CoinState memory s = deposit(ALICE);
        exitDeposit(s);
        afterPeriod();
        paid(ALICE, s.coin);
        isTrue(status(s.coin) == IRootChain.Status.Withdrawn, "withdrawn");
    }

    function test_onceAndTwiceMovedExitsPay() public {
        CoinState memory s = deposit(ALICE);
        (CoinState memory one, IRootChain.Included memory first) = include(s, BOB);
        (, IRootChain.Included memory second) = include(one, CAROL);
        uint64 older = exit(BOB, noParent(), first);
        chain.challengeSpent(s.coin, older, second, 0, "");
        exit(CAROL, first, second);
        afterPeriod();
        paid(CAROL, s.coin);
    }

    function test_finalizeWaits() public {
        CoinState memory s = deposit(ALICE);
        vm.expectRevert(IRootChain.NoExit.selector);
        chain.finalizeExit(s.coin);
        exitDeposit(s);
        vm.warp(block.timestamp + EXIT_PERIOD);
        vm.expectRevert(IRootChain.TooEarly.selector);
        chain.finalizeExit(s.coin);
        vm.warp(block.timestamp + 1);
        chain.finalizeExit(s.coin);
        vm.expectRevert(IRootChain.NotActive.selector);
        chain.finalizeExit(s.coin);
    }

    function test_spentChallengeHoldsTheCoin() public {
        CoinState memory s = deposit(MALLORY);
        (, IRootChain.Included memory spend) = include(s, BOB);
        uint64 id = exitDeposit(s);
        vm.warp(block.timestamp + EXIT_PERIOD);
        vm.prank(vm.addr(CAROL));
        chain.challengeSpent(s.coin, id, spend, 0, "");
        equal(chain.credits(vm.addr(CAROL)), BOND / 2, "reward");
        equal(chain.burned(), BOND / 2, "burned");
        (,, uint64 holdUntil, uint64 head) = chain.coins(s.coin);
        equal(holdUntil, block.timestamp + HOLD_PERIOD, "hold");
        equal(head, 0, "no exit");
        vm.expectRevert(IRootChain.ExitClosed.selector);
        chain.challengeSpent(s.coin, id, spend, 0, "");
        exit(BOB, noParent(), spend);
        afterPeriod();
        paid(BOB, s.coin);
    }

    function test_doubleSpendIsRefuted() public {
        CoinState memory s = deposit(MALLORY);
        (, IRootChain.Included memory first) = include(s, BOB);
        (, IRootChain.Included memory second) = include(s, CAROL);
        uint64 id = exit(CAROL, noParent(), second);
        vm.expectRevert(IRootChain.SameTransfer.selector);
        chain.challengeDoubleSpend(s.coin, id, second);
        chain.challengeDoubleSpend(s.coin, id, first);
        isTrue(chain.exits(s.coin, id).state == IRootChain.ExitState.Closed, "refuted");
        uint64 good = exit(BOB, noParent(), first);
        vm.expectRevert(IRootChain.NotBefore.selector);
        chain.challengeDoubleSpend(s.coin, good, second);
        vm.expectRevert(IRootChain.NoExit.selector);
        chain.challengeDoubleSpend(s.coin, 77, second);
        uint64 ofDeposit = exitDeposit(s);
        vm.expectRevert(IRootChain.DepositExit.selector);
        chain.challengeDoubleSpend(s.coin, ofDeposit, first);
    }

    function test_theOldestWinsAndTheRestIsSwept() public {
        CoinState memory s = deposit(ALICE);
        (CoinState memory one, IRootChain.Included memory first) = include(s, BOB);
        (, IRootChain.Included memory second) = include(one, CAROL);
        uint64 younger = exit(CAROL, first, second);
        uint64 older = exit(BOB, noParent(), first);
        (,,, IRootChain.OpenExit[] memory open) = chain.coinState(s.coin, 1);
        equal(open.length, 2, "open exits");
        equal(open[0].exitId, older, "oldest first");
        vm.expectRevert(IRootChain.NotExited.selector);
        chain.sweepExit(s.coin, younger);
        afterPeriod();
        chain.finalizeExit(s.coin);
        (,,, open) = chain.coinState(s.coin, 1);
        equal(open.length, 1, "open until it is swept");
        equal(open[0].exitId, younger, "the loser");
        vm.expectRevert(IRootChain.ExitClosed.selector);
        chain.sweepExit(s.coin, older);
        chain.sweepExit(s.coin, younger);
        (,,, open) = chain.coinState(s.coin, 1);
        equal(open.length, 0, "neither winner nor swept");
        equal(chain.credits(vm.addr(BOB)), BOND + BOND / 2, "winner");
        equal(chain.credits(vm.addr(CAROL)), 0, "loser");
        vm.prank(vm.addr(CAROL));
        vm.expectRevert(IRootChain.NotBeneficiary.selector);
        chain.withdraw(s.coin, vm.addr(CAROL));
    }

    /// @notice Rearrangement: the operator shows garbage and its valid child before the transfer
    /// that the rightful owner is paid by.
    function test_theParentsBlockDecidesTheAge() public {
        CoinState memory s = deposit(ALICE);
        (CoinState memory garbage, IRootChain.Included memory parent) =
            includeBy(s, MALLORY, type(uint64).max, MALLORY);
        (, IRootChain.Included memory stolen) = include(garbage, MALLORY);
        (, IRootChain.Included memory rightful) = include(s, BOB);
        exit(MALLORY, parent, stolen);
        uint64 id = exit(BOB, noParent(), rightful);
        afterPeriod();
        chain.finalizeExit(s.coin);
        (,,, uint64 winner) = chain.coins(s.coin);
        equal(winner, id, "the rightful owner's");
    }

    function test_aRefutedExitLeavesTheListInBothDirections() public {
        CoinState memory s = deposit(ALICE);
        IRootChain.Included[4] memory t;
        for (uint256 i; i < 4; ++i) (s, t[i]) = include(s, ALICE);
        uint64 oldest = exit(ALICE, noParent(), t[0]);
        uint64 middle = exit(ALICE, t[0], t[1]);
        uint64 youngest = exit(ALICE, t[1], t[2]);
        chain.challengeSpent(s.coin, middle, t[2], 0, "");
        equal(chain.exits(s.coin, oldest).next, youngest, "next");
        equal(chain.exits(s.coin, youngest).prev, oldest, "previous");
        chain.challengeSpent(s.coin, youngest, t[3], 0, "");
        equal(chain.exits(s.coin, oldest).next, 0, "alone");
    }

    function test_cancelOnlyAlone() public {
        CoinState memory s = deposit(ALICE);
        (, IRootChain.Included memory first) = include(s, BOB);
        uint64 id = exit(BOB, noParent(), first);
        vm.expectRevert(IRootChain.NotAuthorised.selector);
        chain.cancelExit(s.coin, id);
        uint64 other = exitDeposit(s);
        vm.prank(vm.addr(BOB));
        vm.expectRevert(IRootChain.OtherExitsOpen.selector);
        chain.cancelExit(s.coin, id);
        chain.challengeSpent(s.coin, other, first, 0, "");
        vm.prank(vm.addr(BOB));
        chain.cancelExit(s.coin, id);
        equal(chain.credits(vm.addr(BOB)), BOND / 2, "bond minus the burned share");
        exit(BOB, noParent(), first);
    }

    function test_startExitErrorsInOrder() public {
        submitOther();
        CoinState memory s = deposit(ALICE);
        equal(s.blockNumber, 1, "deposit block");
        (CoinState memory one, IRootChain.Included memory first) = include(s, BOB);
        IRootChain.Included memory bad = first;
        vm.prank(vm.addr(BOB));
        vm.expectRevert(IRootChain.WrongDeposit.selector);
        chain.startExit{value: BOND}(s.coin, 2, noParent(), first, noAuth(), 0);

        bad.blockNumber = 9;
        refuse(IRootChain.NotIncluded.selector, noParent(), bad);
        bad.blockNumber = 1;
        refuse(IRootChain.NotAfterParent.selector, noParent(), bad);
        bad.blockNumber = 2;
        bytes memory signature = bad.signature;
        bad.signature = compact(MALLORY, one.hash);
        refuse(IRootChain.BadSignature.selector, noParent(), bad);
        bad.signature = abi.encodePacked(signature, uint8(0));
        refuse(IRootChain.BadSignature.selector, noParent(), bad);
        bad.signature = signature;
        bytes memory proof = bad.proof;
        bad.proof = abi.encodePacked(proof, uint8(0));
        refuse(IRootChain.NotIncluded.selector, noParent(), bad);
        bad.proof = proof;
        vm.prank(vm.addr(BOB));
        vm.expectRevert(IRootChain.WrongBond.selector);
        chain.startExit{value: BOND - 1}(s.coin, 1, noParent(), first, noAuth(), 0);
        vm.prank(vm.addr(MALLORY));
        vm.expectRevert(IRootChain.NotAuthorised.selector);
        chain.startExit{value: BOND}(s.coin, 1, noParent(), first, noAuth(), 0);
        exit(BOB, noParent(), first);
        refuse(IRootChain.ExitExists.selector, noParent(), first);

        // A transfer signed for another state, or void in its block.
        CoinState memory wrong = one;
        wrong.hash = keccak256("none");
        (, IRootChain.Included memory garbage) = include(wrong, BOB);
        refuse(IRootChain.NotChild.selector, first, garbage);
        (, IRootChain.Included memory late) = includeBy(s, BOB, 2, ALICE);
        refuse(IRootChain.Expired.selector, noParent(), late);
    }

    function refuse(
        bytes4 error_,
        IRootChain.Included memory parent,
        IRootChain.Included memory transfer
    ) private {
        vm.prank(vm.addr(BOB));
        vm.expectRevert(error_);
        chain.startExit{value: BOND}(1, 1, parent, transfer, noAuth(), 0);
    }

    function test_authorizationLetsATowerExit() public {
        CoinState memory s = deposit(ALICE);
        uint64 notAfter = uint64(block.timestamp);
        bytes32 digest = PlasmaHash.authorization(domain, s.coin, s.hash, notAfter);
        IRootChain.Authorization memory auth =
            IRootChain.Authorization(notAfter, compact(BOB, digest));
        vm.prank(vm.addr(CAROL));
        vm.expectRevert(IRootChain.NotAuthorised.selector);
        chain.startDepositExit{value: BOND}(s.coin, 1, auth, 0);
        auth.signature = compact(ALICE, digest);
        vm.warp(notAfter + 1);
        vm.prank(vm.addr(CAROL));
        vm.expectRevert(IRootChain.NotAuthorised.selector);
        chain.startDepositExit{value: BOND}(s.coin, 1, auth, 0);
        vm.warp(notAfter);
        vm.prank(vm.addr(CAROL));
        chain.startDepositExit{value: BOND}(s.coin, 1, auth, 0);
        afterPeriod();
        chain.finalizeExit(s.coin);
        equal(chain.credits(vm.addr(CAROL)), BOND, "the payer's bond");
        vm.prank(vm.addr(ALICE));
        chain.withdraw(s.coin, vm.addr(ALICE));
    }

    function test_withdrawErrorsInOrder() public {
        CoinState memory s = deposit(ALICE);
        vm.expectRevert(IRootChain.NotExited.selector);
        chain.withdraw(s.coin, address(this));
        exitDeposit(s);
        afterPeriod();
        chain.finalizeExit(s.coin);
        vm.expectRevert(IRootChain.NotBeneficiary.selector);
        chain.withdraw(s.coin, address(this));
        vm.prank(vm.addr(ALICE));
        vm.expectRevert(IRootChain.BadRecipient.selector);
        chain.withdraw(s.coin, address(chain));
        vm.prank(vm.addr(ALICE));
        chain.withdraw(s.coin, address(this));
        vm.prank(vm.addr(ALICE));
        vm.expectRevert(IRootChain.AlreadyWithdrawn.selector);
        chain.withdraw(s.coin, address(this));
        vm.expectRevert(IRootChain.NoCredits.selector);
        chain.withdrawCredits(address(this));
    }

    function test_batches() public {
        vm.deal(address(this), 10_000 ether);
        uint64 first = chain.depositETH{value: 100 ether}(1 ether, 100);
        IRootChain.ExitRequest[] memory requests = new IRootChain.ExitRequest[](100);
        uint64[] memory coins = new uint64[](100);
        for (uint64 i; i < 100; ++i) {
            requests[i].coin = coins[i] = first + i;
            requests[i].depositId = 1;
        }
        uint256 gas = gasleft();
        chain.startExits{value: 100 * uint256(BOND)}(requests);
        isTrue(gas - gasleft() < 16_777_216, "gas of 100 starts");
        afterPeriod();
        gas = gasleft();
        chain.finalizeExits(coins);
        isTrue(gas - gasleft() < 16_777_216, "gas of 100 finalizations");
        chain.finalizeExits(coins);
        gas = gasleft();
        chain.withdrawMany(coins, address(0xdead));
        isTrue(gas - gasleft() < 16_777_216, "gas of 100 withdrawals");
        equal(address(0xdead).balance, 100 ether, "paid");
        vm.expectRevert(IRootChain.WrongBond.selector);
        chain.startExits{value: 1}(new IRootChain.ExitRequest[](0));
    }

    /// @notice Exits of random ages with random hints: the list stays sorted and complete.
    function test_fuzz_listIsSorted(uint256 seed) public {
        CoinState memory s = deposit(ALICE);
        uint256 count = 3 + seed % 4;
        IRootChain.Included[] memory chainOf = new IRootChain.Included[](count);
        for (uint256 i; i < count; ++i) (s, chainOf[i]) = include(s, ALICE);
        uint64 opened;
        for (uint256 round; round < count; ++round) {
            uint256 i = uint256(keccak256(abi.encode(seed, round))) % count;
            uint64 hint = uint64(uint256(keccak256(abi.encode(seed, "hint", round))) % (count + 1));
            IRootChain.Included memory parent = i == 0 ? noParent() : chainOf[i - 1];
            vm.prank(vm.addr(ALICE));
            try chain.startExit{value: BOND}(1, 1, parent, chainOf[i], noAuth(), hint) {
                ++opened;
            } catch {}
        }
        (,,, IRootChain.OpenExit[] memory open) = chain.coinState(1, 1);
        equal(open.length, opened, "complete");
        for (uint256 i = 1; i < open.length; ++i) {
            isTrue(open[i - 1].data.parentBlock < open[i].data.parentBlock, "sorted");
            equal(open[i].data.prev, open[i - 1].exitId, "linked");
        }
    }
}
