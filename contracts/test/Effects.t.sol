// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {PlasmaHash} from "../src/libraries/PlasmaHash.sol";
import {Base} from "./Base.sol";

/// @title Who gets what: bonds, coins of large deposits, batches; and what a call may not cost
contract EffectsTest is Base {
    uint64 private constant MAX = type(uint64).max;

    function setUp() public {
        deploy(4);
    }

    function half() private pure returns (uint256) {
        return BOND / 2;
    }

    /// @notice CAROL starts somebody's exit; he only signed.
    function byCarol(CoinState memory s, IRootChain.Included memory t) private returns (uint64) {
        bytes32 digest = PlasmaHash.authorization(domain, s.coin, s.hash, MAX);
        IRootChain.Authorization memory auth =
            IRootChain.Authorization(MAX, compact(s.ownerKey, digest));
        vm.prank(vm.addr(CAROL));
        if (t.blockNumber == 0) {
            return chain.startDepositExit{value: BOND}(s.coin, 1, auth, 0);
        }
        return chain.startExit{value: BOND}(s.coin, 1, noParent(), t, auth, 0);
    }

    function test_sweepReturnsTheWinnersOwnBonds() public {
        CoinState memory s = deposit(ALICE);
        (CoinState memory one, IRootChain.Included memory first) = include(s, BOB);
        (, IRootChain.Included memory back) = include(one, ALICE);
        exitDeposit(s); // ALICE's, the oldest
        uint64 bobs = byCarol(one, first);
        uint64 own = exit(ALICE, first, back);
        afterPeriod();
        chain.finalizeExit(s.coin);
        vm.prank(vm.addr(ALICE));
        chain.withdraw(s.coin, address(0xbeef));
        // Also after the coin is gone.
        chain.sweepExit(s.coin, own);
        equal(chain.credits(vm.addr(ALICE)), 2 * uint256(BOND), "both bonds of the winner");
        chain.sweepExit(s.coin, bobs);
        equal(chain.credits(vm.addr(ALICE)), 2 * uint256(BOND) + half(), "half a loser's bond");
        equal(chain.burned(), half(), "half burned");
        equal(chain.credits(vm.addr(BOB)) + chain.credits(vm.addr(CAROL)), 0, "losers");
        vm.expectRevert(IRootChain.ExitClosed.selector);
        chain.sweepExit(s.coin, own);
        vm.expectRevert(IRootChain.ExitClosed.selector);
        chain.sweepExit(s.coin, bobs);
    }

    function test_bondsGoToPayersNotToBeneficiaries() public {
        CoinState memory s = deposit(ALICE);
        (CoinState memory one, IRootChain.Included memory first) = include(s, BOB);
        byCarol(s, noParent()); // CAROL pays for ALICE
        uint64 bobs = exit(BOB, noParent(), first);
        (, IRootChain.Included memory back) = include(one, ALICE);
        bytes32 hash = PlasmaHash.transferHash(domain, back.transfer);
        bytes32 digest = PlasmaHash.authorization(domain, s.coin, hash, MAX);
        vm.prank(vm.addr(MALLORY)); // and MALLORY for a younger exit of ALICE's
        uint64 own = chain.startExit{value: BOND}(
            s.coin, 1, first, back, IRootChain.Authorization(MAX, compact(ALICE, digest)), 0
        );
        afterPeriod();
        chain.finalizeExit(s.coin);
        chain.sweepExit(s.coin, bobs);
        chain.sweepExit(s.coin, own);
        equal(chain.credits(vm.addr(CAROL)), BOND + half(), "the winner's payer");
        equal(chain.credits(vm.addr(MALLORY)), BOND, "the other payer");
        equal(chain.credits(vm.addr(ALICE)) + chain.credits(vm.addr(BOB)), 0, "nobody else");
        vm.prank(vm.addr(CAROL));
        vm.expectRevert(IRootChain.NotBeneficiary.selector);
        chain.withdraw(s.coin, vm.addr(CAROL));
    }

    function test_cancelPaysThePayer() public {
        CoinState memory s = deposit(ALICE);
        uint64 id = byCarol(s, noParent());
        vm.prank(vm.addr(ALICE)); // the beneficiary
        chain.cancelExit(s.coin, id);
        equal(chain.credits(vm.addr(CAROL)), half(), "payer");
        equal(chain.credits(vm.addr(ALICE)), 0, "beneficiary");
        id = byCarol(s, noParent());
        vm.prank(vm.addr(CAROL)); // the payer
        chain.cancelExit(s.coin, id);
        equal(chain.credits(vm.addr(CAROL)), 2 * half(), "payer");
        equal(chain.burned(), 2 * half(), "burned");
        (,, uint64 hold, uint64 head) = chain.coins(s.coin);
        equal(uint256(hold) | head, 0, "no hold, no exit");
    }

    /// @notice Neither the older nor the younger of two may be cancelled.
    function test_noCancelBesideAnotherExit() public {
        CoinState memory s = deposit(ALICE);
        (, IRootChain.Included memory first) = include(s, BOB);
        uint64 older = exitDeposit(s);
        uint64 younger = exit(BOB, noParent(), first);
        vm.prank(vm.addr(BOB));
        vm.expectRevert(IRootChain.OtherExitsOpen.selector);
        chain.cancelExit(s.coin, younger);
        vm.prank(vm.addr(ALICE));
        vm.expectRevert(IRootChain.OtherExitsOpen.selector);
        chain.cancelExit(s.coin, older);
    }

    function test_coinsOfADepositOfAThousand() public {
        chain.depositETH{value: 7}(7, 1);
        vm.deal(vm.addr(ALICE), 1_001 ether);
        vm.prank(vm.addr(ALICE));
        uint64 first = chain.depositETH{value: 1_000 ether}(1 ether, 1_000);
        chain.depositETH{value: 7}(7, 1);
        equal(first, 2, "first coin");
        uint64[3] memory coins = [first, first + 500, first + 999];
        IRootChain.Deposit memory d = chain.deposits(2);
        for (uint256 i; i < 3; ++i) {
            uint64 coin = coins[i];
            bytes32 hash = PlasmaHash.depositHash(domain, coin, d);
            CoinState memory s = CoinState(coin, d.depositBlock, hash, ALICE);
            (, IRootChain.Included memory t) = includeDeep(s, BOB, 10);
            if (i == 1) {
                vm.prank(vm.addr(BOB));
                chain.startExit{value: BOND}(coin, 2, noParent(), t, noAuth(), 0);
            } else {
                vm.prank(vm.addr(ALICE));
                chain.startDepositExit{value: BOND}(coin, 2, noAuth(), 0);
            }
        }
        IRootChain.Authorization memory none = noAuth();
        uint64[2] memory neighbours = [first - 1, first + 1_000];
        for (uint256 i; i < 2; ++i) {
            vm.prank(vm.addr(ALICE));
            vm.expectRevert(IRootChain.WrongDeposit.selector);
            chain.startDepositExit{value: BOND}(neighbours[i], 2, none, 0);
            vm.expectRevert(IRootChain.WrongDeposit.selector);
            chain.coinState(neighbours[i], 2);
        }
        afterPeriod();
        for (uint256 i; i < 3; ++i) {
            chain.finalizeExit(coins[i]);
            vm.prank(vm.addr(i == 1 ? BOB : ALICE));
            chain.withdraw(coins[i], address(0xbeef));
            equal(address(0xbeef).balance, (i + 1) * 1 ether, "one coin's value");
        }
    }

    function test_startExitsIsAllOrNothing() public {
        CoinState memory s = deposit(ALICE);
        (CoinState memory one, IRootChain.Included memory first) = include(s, ALICE);
        (, IRootChain.Included memory second) = include(one, ALICE);
        IRootChain.ExitRequest[] memory r = new IRootChain.ExitRequest[](3);
        for (uint256 i; i < 3; ++i) (r[i].coin, r[i].depositId) = (s.coin, 1);
        r[1].transfer = first;
        (r[2].parent, r[2].transfer) = (first, second);
        vm.deal(vm.addr(ALICE), 10 ether);
        for (uint256 sum; sum <= 4; ++sum) {
            if (sum == 3) continue;
            vm.prank(vm.addr(ALICE));
            vm.expectRevert(IRootChain.WrongBond.selector);
            chain.startExits{value: sum * BOND}(r);
        }
        uint64 number = second.blockNumber;
        second.blockNumber = 1;
        vm.prank(vm.addr(ALICE));
        vm.expectRevert(IRootChain.NotAfterParent.selector);
        chain.startExits{value: 3 * uint256(BOND)}(r);
        equal(chain.lastExit(), 0, "none");
        second.blockNumber = number;
        vm.prank(vm.addr(ALICE));
        chain.startExits{value: 3 * uint256(BOND)}(r);
        (,,, IRootChain.OpenExit[] memory open) = chain.coinState(s.coin, 1);
        equal(open.length, 3, "all");
        for (uint256 i; i < 3; ++i) equal(open[i].exitId, i + 1, "oldest first");
        chain.startExits(new IRootChain.ExitRequest[](0));
    }

    function test_finalizeExitsSkipsWhatCannot() public {
        uint64[] memory coins = new uint64[](6);
        for (uint64 i; i < 4; ++i) {
            CoinState memory s = deposit(ALICE);
            coins[i] = s.coin;
        }
        (coins[4], coins[5]) = (coins[0], 99);
        IRootChain.Authorization memory none = noAuth();
        vm.prank(vm.addr(ALICE));
        chain.startDepositExit{value: BOND}(1, 1, none, 0);
        vm.warp(block.timestamp + 1);
        vm.prank(vm.addr(ALICE));
        chain.startDepositExit{value: BOND}(2, 2, none, 0);
        vm.warp(block.timestamp + EXIT_PERIOD - 1);
        chain.finalizeExits(coins); // the first's last second
        vm.warp(block.timestamp + 1);
        chain.finalizeExits(coins); // the first, not the second, third (no exit), first again
        IRootChain.Status[4] memory got;
        for (uint64 i; i < 4; ++i) (got[i],,,) = chain.coins(coins[i]);
        isTrue(got[0] == IRootChain.Status.Exited, "ripe");
        isTrue(got[1] == IRootChain.Status.Active, "a second too early");
        isTrue(got[2] == IRootChain.Status.Active, "no exit");
        equal(chain.credits(vm.addr(ALICE)), BOND, "one bond back");
    }

    // --- what a call may not cost --------------------------------------------------------------

    /// @notice `count` exits of the coin, each spending the state before.
    function junk(CoinState memory s, uint256 count)
        private
        returns (CoinState memory, IRootChain.Included memory parent)
    {
        for (uint256 i; i < count; ++i) {
            IRootChain.Included memory t;
            (s, t) = include(s, MALLORY);
            exit(MALLORY, parent, t);
            parent = t;
        }
        return (s, parent);
    }

    function gasOf(address from, uint256 value, bytes memory data) private returns (uint256 gas) {
        vm.prank(from);
        gas = gasleft();
        (bool ok,) = address(chain).call{value: value}(data);
        gas -= gasleft();
        isTrue(ok, "passed");
    }

    /// @notice Finalizing costs the same beside none and beside forty other exits.
    function test_finalizeIsConstant() public {
        uint256[2] memory gas;
        for (uint256 i; i < 2; ++i) {
            uint256 state = vm.snapshotState();
            CoinState memory s = deposit(MALLORY);
            exitDeposit(s);
            junk(s, 1 + 40 * i);
            afterPeriod();
            gas[i] = gasOf(address(this), 0, abi.encodeCall(chain.finalizeExit, (s.coin)));
            vm.revertToState(state);
        }
        isTrue(gas[1] < gas[0] + 5_000, "constant");
    }

    /// @notice Younger junk is never walked over, and older junk not with a hint.
    function test_junkDoesNotMakeStartingDear() public {
        uint256[4] memory gas;
        for (uint256 i; i < 4; ++i) {
            uint256 state = vm.snapshotState();
            CoinState memory s = deposit(MALLORY);
            (CoinState memory last, IRootChain.Included memory parent) = junk(s, i == 0 ? 1 : 40);
            if (i < 2) {
                bytes memory data =
                    abi.encodeCall(chain.startDepositExit, (s.coin, 1, noAuth(), 0));
                gas[i] = gasOf(vm.addr(MALLORY), BOND, data);
            } else {
                (, IRootChain.Included memory t) = include(last, BOB);
                uint64 hint = i == 2 ? chain.lastExit() : 0;
                bytes memory data =
                    abi.encodeCall(chain.startExit, (s.coin, 1, parent, t, noAuth(), hint));
                gas[i] = gasOf(vm.addr(BOB), BOND, data);
            }
            vm.revertToState(state);
        }
        isTrue(gas[1] < gas[0] + 5_000, "younger junk");
        isTrue(gas[2] < gas[0] + 120_000, "older junk, with a hint");
        isTrue(gas[2] + 10_000 < gas[3], "what the hint saves");
    }

    /// @notice Closed, younger, foreign and unknown hints count as none.
    function test_badHintsCountAsTheHead() public {
        CoinState memory s = deposit(MALLORY);
        vm.prank(vm.addr(BOB));
        chain.depositETH{value: 1}(1, 1);
        vm.prank(vm.addr(BOB));
        chain.startDepositExit{value: BOND}(2, 2, noAuth(), 0); // exit 1: foreign
        IRootChain.Included[4] memory t;
        exitDeposit(s); // exit 2: will be closed
        for (uint256 i; i < 4; ++i) (s, t[i]) = include(s, ALICE);
        exit(ALICE, noParent(), t[0]); // exit 3: older
        chain.challengeSpent(s.coin, 2, t[0], 0, "");
        exit(ALICE, t[2], t[3]); // exit 4: younger
        for (uint64 hint; hint < 7; ++hint) {
            uint256 state = vm.snapshotState();
            vm.prank(vm.addr(ALICE));
            chain.startExit{value: BOND}(s.coin, 1, t[1], t[2], noAuth(), hint);
            (,,, IRootChain.OpenExit[] memory open) = chain.coinState(s.coin, 1);
            equal(open.length, 3, "complete");
            uint64[3] memory sorted = [uint64(3), 5, 4];
            for (uint256 i; i < 3; ++i) equal(open[i].exitId, sorted[i], "sorted");
            vm.revertToState(state);
        }
    }
}
