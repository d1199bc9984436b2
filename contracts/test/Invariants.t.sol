// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {Checks} from "./Checks.sol";
import {Player} from "./Player.sol";

/// @title What holds after every call of a random game (Player)
contract InvariantsTest is Checks {
    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    uint256 private constant WHOLE_GAME = 1_500; // the depth in foundry.toml

    Player private player;
    IRootChain private chain;

    function setUp() public {
        player = new Player();
        chain = player.rootChain();
    }

    function targetContracts() external view returns (address[] memory all) {
        all = new address[](1);
        all[0] = address(player);
    }

    function targetSelectors() external view returns (FuzzSelector[] memory all) {
        all = new FuzzSelector[](1);
        bytes4[] memory s = new bytes4[](19);
        // Twice: what the others need, and what seldom passes.
        (s[0], s[1], s[2]) = (player.move.selector, player.move.selector, player.wait.selector);
        (s[3], s[4]) = (player.start.selector, player.start.selector);
        (s[5], s[6]) = (player.makeDeposit.selector, player.startDeposit.selector);
        (s[7], s[8]) = (player.spent.selector, player.doubleSpent.selector);
        (s[9], s[10]) = (player.finalize.selector, player.finalizeAll.selector);
        (s[11], s[12]) = (player.sweep.selector, player.cancel.selector);
        (s[13], s[14]) = (player.withdraw.selector, player.withdrawCredits.selector);
        (s[15], s[16]) = (player.startMany.selector, player.doubleSpent.selector);
        (s[17], s[18]) = (player.wait.selector, player.startMany.selector);
        all[0] = FuzzSelector(address(player), s);
    }

    /// @dev One campaign for all: each has its own otherwise, of the same games.
    function invariant_game() public view {
        payoutsAndEscrow();
        listsAreSortedAndComplete();
        equal(chain.eventCount(), player.events(), "every event is queued, and no other");
    }

    /// @notice The winner of a coin is paid at most once, and what is owed is there, per asset.
    function payoutsAndEscrow() private view {
        uint256[5] memory owed;
        uint64 last = chain.lastCoin();
        for (uint64 coin = 1; coin <= last; ++coin) {
            IRootChain.Deposit memory d = player.depositOf(coin);
            (IRootChain.Status s,,,) = chain.coins(coin);
            bool gone = s == IRootChain.Status.Withdrawn;
            equal(player.payouts(coin), gone ? 1 : 0, "at most one payout");
            if (!gone) owed[d.assetKind] += d.value;
            if (!gone && d.assetKind == 3) {
                equal(player.holding(address(chain), coin), 1, "ERC-721 escrow");
            }
        }
        equal(player.erc20().balanceOf(address(chain)), owed[2], "ERC-20 escrow");
        equal(player.erc1155().balanceOf(address(chain), 1), owed[4], "ERC-1155 escrow");
        (uint256 credited, uint256 held) = bonds();
        equal(address(chain).balance, owed[1] + credited + held + chain.burned(), "ETH escrow");
        equal(
            player.bondsIn(), player.bondsOut() + credited + held + chain.burned(), "bonds"
        );
    }

    function bonds() private view returns (uint256 credited, uint256 held) {
        for (uint256 i; i < 4; ++i) credited += chain.credits(vm.addr(player.people(i)));
        uint64 last = chain.lastCoin();
        for (uint64 coin = 1; coin <= last; ++coin) {
            uint64[] memory ids = player.exitsOf(coin);
            for (uint256 i; i < ids.length; ++i) {
                IRootChain.Exit memory e = chain.exits(coin, ids[i]);
                if (e.state == IRootChain.ExitState.Open) held += e.bond;
            }
        }
    }

    /// @notice Every open exit of an active coin is in its list, once, by age, in both directions.
    function listsAreSortedAndComplete() private view {
        uint64 last = chain.lastCoin();
        for (uint64 coin = 1; coin <= last; ++coin) {
            (IRootChain.Status s,,, uint64 head) = chain.coins(coin);
            uint64[] memory ids = player.exitsOf(coin);
            uint256 open;
            for (uint256 i; i < ids.length; ++i) {
                if (chain.exits(coin, ids[i]).state == IRootChain.ExitState.Open) ++open;
            }
            if (s == IRootChain.Status.Active) walk(coin, head, open);
            else isTrue(chain.exits(coin, head).state == IRootChain.ExitState.Won, "the winner");
        }
    }

    function walk(uint64 coin, uint64 head, uint256 open) private view {
        uint64 prev;
        uint256 age;
        for (uint64 id = head; id != 0;) {
            IRootChain.Exit memory e = chain.exits(coin, id);
            isTrue(e.state == IRootChain.ExitState.Open, "open");
            equal(e.prev, prev, "the way back");
            isTrue(prev == 0 || player.ageOf(e) > age, "sorted by age");
            isTrue(open > 0, "complete");
            isTrue(chain.used(player.keyOf(coin, e.parentBlock, e.blockNumber)), "used");
            (prev, id, age, open) = (id, e.next, player.ageOf(e), open - 1);
        }
        equal(open, 0, "complete");
    }

    /// @notice A game in which something never happens proves nothing.
    function afterInvariant() external view {
        if (player.steps() < WHOLE_GAME) return; // a failure that forge has cut short
        bytes32[19] memory all = [
            bytes32("depositETH"),
            "depositERC20",
            "depositERC20WithPermit",
            "depositERC721",
            "depositERC1155",
            "submitBlocks",
            "startExit",
            "startDepositExit",
            "startExits",
            "challengeSpent",
            "by inclusion",
            "challengeDoubleSpend",
            "finalizeExit",
            "finalizeExits",
            "sweepExit",
            "cancelExit",
            "withdraw",
            "withdrawMany",
            "withdrawCredits"
        ];
        for (uint256 i; i < all.length; ++i) {
            isTrue(player.passed(all[i]) > 0, string(abi.encodePacked(all[i])));
        }
    }
}
