// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {Base} from "./Base.sol";

/// @title Refuted exits: holds, replayed inclusions, the order of the errors, and the bonds
contract ChallengesTest is Base {
    uint256 private constant START = 1_000_000;
    bytes private constant LONE = hex"00000000000000000000";

    function setUp() public {
        deploy(4);
    }

    function test_holdEndsAfterItsLastSecond() public {
        CoinState memory s = deposit(MALLORY);
        (, IRootChain.Included memory first) = include(s, BOB);
        uint64 bad = exitDeposit(s);
        exit(BOB, noParent(), first);
        vm.warp(START + EXIT_PERIOD);
        chain.challengeSpent(s.coin, bad, first, 0, "");
        vm.warp(START + EXIT_PERIOD + 1);
        vm.expectRevert(IRootChain.OnHold.selector);
        chain.finalizeExit(s.coin);
        vm.warp(START + EXIT_PERIOD + HOLD_PERIOD);
        vm.expectRevert(IRootChain.OnHold.selector);
        chain.finalizeExit(s.coin);
        uint64[] memory coins = new uint64[](1);
        coins[0] = s.coin;
        chain.finalizeExits(coins);
        (IRootChain.Status status,,,) = chain.coins(s.coin);
        isTrue(status == IRootChain.Status.Active, "skipped");
        vm.warp(START + EXIT_PERIOD + HOLD_PERIOD + 1);
        chain.finalizeExit(s.coin);
    }

    function test_onlyTheOldestHoldsAndBondsAreConserved() public {
        CoinState memory s = deposit(ALICE);
        (CoinState memory one, IRootChain.Included memory first) = include(s, BOB);
        (, IRootChain.Included memory second) = include(one, CAROL);
        exitDeposit(s);
        uint64 younger = exit(BOB, noParent(), first);
        chain.challengeSpent(s.coin, younger, second, 0, "");
        (,, uint64 holdUntil,) = chain.coins(s.coin);
        equal(holdUntil, 0, "no hold");
        vm.warp(START + EXIT_PERIOD + 1);
        chain.finalizeExit(s.coin);
        uint256 owed = chain.burned() + chain.credits(address(this))
            + chain.credits(vm.addr(ALICE)) + chain.credits(vm.addr(BOB));
        equal(owed, 2 * uint256(BOND), "bonds");
        equal(address(chain).balance, 1 ether + owed, "balance");
    }

    /// @notice The exiting transfer is in two blocks, and the second inclusion was spent.
    function test_anyInclusionOfTheTransferCounts() public {
        CoinState memory s = deposit(ALICE);
        (, IRootChain.Included memory first) = include(s, BOB);
        (CoinState memory again, IRootChain.Included memory replay) = include(s, BOB);
        (, IRootChain.Included memory spend) = include(again, CAROL);
        uint64 id = exit(BOB, noParent(), first);
        vm.expectRevert(IRootChain.NotChild.selector);
        chain.challengeSpent(s.coin, id, spend, 0, "");
        vm.expectRevert(IRootChain.NotSameTransfer.selector);
        chain.challengeSpent(s.coin, id, spend, 99, LONE);
        vm.expectRevert(IRootChain.NotSameTransfer.selector);
        chain.challengeSpent(s.coin, id, spend, spend.blockNumber, LONE);
        vm.expectRevert(IRootChain.SameTransfer.selector);
        chain.challengeDoubleSpend(s.coin, id, replay);
        chain.challengeSpent(s.coin, id, spend, again.blockNumber, LONE);
        isTrue(chain.exits(s.coin, id).state == IRootChain.ExitState.Closed, "closed");
    }

    function test_spentErrorsInOrder() public {
        CoinState memory s = deposit(ALICE);
        (, IRootChain.Included memory spend) = includeBy(s, BOB, 1, ALICE);
        (, IRootChain.Included memory forged) = includeBy(s, BOB, 9, MALLORY);
        (, IRootChain.Included memory late) = includeBy(s, BOB, 2, ALICE);
        (, IRootChain.Included memory loose) =
            include(CoinState(s.coin, 0, keccak256("none"), ALICE), BOB);
        IRootChain.Included memory absent = spend;
        vm.expectRevert(IRootChain.NoExit.selector);
        chain.challengeSpent(s.coin, 1, spend, 0, "");
        uint64 id = exitDeposit(s);
        vm.expectRevert(IRootChain.NotSameTransfer.selector);
        chain.challengeSpent(s.coin, id, loose, 1, LONE);
        vm.expectRevert(IRootChain.NotChild.selector);
        chain.challengeSpent(s.coin, id, loose, 0, "");
        vm.expectRevert(IRootChain.BadSignature.selector);
        chain.challengeSpent(s.coin, id, forged, 0, "");
        vm.expectRevert(IRootChain.Expired.selector);
        chain.challengeSpent(s.coin, id, late, 0, "");
        absent.blockNumber = 2;
        vm.expectRevert(IRootChain.NotIncluded.selector);
        chain.challengeSpent(s.coin, id, absent, 0, "");
        vm.warp(START + EXIT_PERIOD + 1);
        chain.finalizeExit(s.coin);
        absent.blockNumber = 1;
        vm.expectRevert(IRootChain.NotActive.selector);
        chain.challengeSpent(s.coin, id, absent, 0, "");
    }
}
