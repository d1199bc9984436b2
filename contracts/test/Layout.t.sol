// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {RootChain} from "../src/RootChain.sol";
import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {PlasmaHash} from "../src/libraries/PlasmaHash.sol";
import {TestERC1155} from "../src/test/TestTokens.sol";
import {Base} from "./Base.sol";

/// @title What others read: storage slots (formats.md), the queue's events, evidence; code size
contract LayoutTest is Base {
    uint256 private constant DEPOSITS = 8;
    uint256 private constant COINS = 9;
    uint256 private constant EXITS = 10;
    uint256 private constant USED = 11;

    function setUp() public {
        deploy(4);
    }

    function slot(uint256 base, uint256 i) private view returns (uint256) {
        return uint256(vm.load(address(chain), bytes32(base + i)));
    }

    function entry(uint256 mapping_, uint256 key) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(key, mapping_)));
    }

    function packed(address low, uint256 rest) private pure returns (uint256) {
        return uint256(uint160(low)) | (rest << 160);
    }

    function test_depositSlots() public {
        TestERC1155 token = new TestERC1155();
        submitOther();
        chain.depositETH{value: 5}(5, 1);
        token.mint(vm.addr(ALICE), 77, 600);
        vm.prank(vm.addr(ALICE));
        token.safeTransferFrom(
            vm.addr(ALICE), address(chain), 77, 600, abi.encode(vm.addr(BOB), 300)
        );
        uint256 base = entry(DEPOSITS, 2);
        equal(
            slot(base, 0),
            packed(vm.addr(BOB), 2 | (uint256(300) << 64) | (uint256(4) << 80)),
            "owner, firstCoin, count, kind"
        );
        equal(slot(base, 1), packed(address(token), 1), "token, depositBlock");
        equal(slot(base, 2), 2, "value");
        equal(slot(base, 3), 77, "tokenId");
    }

    function test_coinAndExitSlots() public {
        CoinState memory s = deposit(ALICE);
        (CoinState memory one, IRootChain.Included memory first) = include(s, BOB);
        (CoinState memory two, IRootChain.Included memory second) = include(one, CAROL);
        uint256 coin = entry(COINS, s.coin);
        equal(slot(coin, 0), 0, "no storage before the first exit");
        uint64 older = exit(BOB, noParent(), first);
        uint64 younger = exit(CAROL, first, second);
        equal(slot(coin, 0), (1 << 8) | (uint256(older) << 136), "depositId, head");

        uint256 base = uint256(keccak256(abi.encode(uint256(younger), entry(EXITS, s.coin))));
        equal(
            slot(base, 0),
            uint256(one.blockNumber) | (uint256(two.blockNumber) << 64) | (uint256(older) << 128),
            "p, k, prev, next"
        );
        equal(
            slot(base, 1), packed(vm.addr(CAROL), block.timestamp | (1 << 40)), "beneficiary, open"
        );
        equal(slot(base, 2), packed(vm.addr(CAROL), BOND), "payer, bond");
        equal(bytes32(slot(base, 3)), two.hash, "transferHash");
        equal(bytes32(slot(base, 4)), one.hash, "parentHash");
        equal(slot(base, 5), packed(vm.addr(BOB), 0), "parentOwner");
        bytes32 key = keccak256(abi.encodePacked(s.coin, one.blockNumber, two.blockNumber));
        equal(slot(uint256(keccak256(abi.encode(key, USED))), 0), 1, "used");

        chain.challengeSpent(s.coin, older, second, 0, "");
        uint256 hold = block.timestamp + HOLD_PERIOD;
        equal(slot(coin, 0), (1 << 8) | (hold << 72) | (uint256(younger) << 136), "hold, head");
        afterPeriod();
        chain.finalizeExit(s.coin);
        equal(
            slot(coin, 0),
            1 | (1 << 8) | (hold << 72) | (uint256(younger) << 136),
            "status, the winner"
        );
        equal(uint8(slot(base, 1) >> 200), 3, "won");
    }

    function test_depositExitSlots() public {
        submitOther();
        CoinState memory s = deposit(ALICE);
        uint64 id = exitDeposit(s);
        uint256 base = uint256(keccak256(abi.encode(uint256(id), entry(EXITS, s.coin))));
        equal(slot(base, 0), 1, "p = d, k = 0");
        equal(bytes32(slot(base, 3)), s.hash, "the deposit's hash");
        equal(slot(base, 4) | slot(base, 5), 0, "unused");
        bytes32 key = keccak256(abi.encodePacked(s.coin, uint64(1), uint64(0)));
        isTrue(chain.used(key), "used");
    }

    /// @notice The next call queues exactly this event.
    function queues(bytes memory e) private {
        uint64 n = chain.eventCount() + 1;
        vm.expectEmit(address(chain));
        emit IRootChain.Queued(n, e);
    }

    function test_queueOverACoinsLife() public {
        CoinState memory s = deposit(ALICE);
        (CoinState memory one, IRootChain.Included memory first) = include(s, BOB);
        (, IRootChain.Included memory second) = include(one, CAROL);
        bytes memory started = abi.encode(uint8(2), s.coin);
        bytes memory thawed = abi.encode(uint8(3), s.coin);
        bytes memory finalized = abi.encode(uint8(4), s.coin);
        bytes32 hash = chain.eventHash();
        queues(started);
        exitDeposit(s);
        queues(started);
        uint64 bobs = exit(BOB, noParent(), first);
        chain.challengeSpent(s.coin, 1, first, 0, "");
        equal(chain.eventCount(), 3, "another exit is open: not thawed");
        queues(thawed);
        chain.challengeSpent(s.coin, bobs, second, 0, "");
        queues(started);
        uint64 carols = exit(CAROL, first, second);
        queues(thawed);
        vm.prank(vm.addr(CAROL));
        chain.cancelExit(s.coin, carols);
        queues(started);
        exit(CAROL, first, second);
        afterPeriod();
        queues(finalized);
        chain.finalizeExit(s.coin);
        vm.prank(vm.addr(CAROL));
        chain.withdraw(s.coin, vm.addr(CAROL));
        equal(chain.eventCount(), 8, "events");
        bytes[7] memory all = [started, started, thawed, started, thawed, started, finalized];
        for (uint256 i; i < 7; ++i) hash = PlasmaHash.eventHash(hash, all[i]);
        equal(chain.eventHash(), hash, "event hash");
    }

    function shows(IRootChain.Included memory i) private {
        vm.expectEmit(address(chain));
        emit IRootChain.Evidence(
            i.transfer.coin, i.blockNumber, i.transfer, i.signature, i.proof
        );
    }

    function test_evidenceAndEventsOfTheGame() public {
        CoinState memory s = deposit(ALICE);
        (CoinState memory one, IRootChain.Included memory first) = include(s, BOB);
        (CoinState memory two, IRootChain.Included memory second) = include(one, CAROL);
        (, IRootChain.Included memory third) = include(two, ALICE);
        (, IRootChain.Included memory other) = include(one, MALLORY);
        (address bob, address carol) = (vm.addr(BOB), vm.addr(CAROL));

        vm.expectEmit(address(chain));
        emit IRootChain.ExitStarted(s.coin, 1, (1 << 64) | 2, 1, 2, two.hash, carol, carol);
        shows(first);
        shows(second);
        exit(CAROL, first, second);
        exit(MALLORY, first, other);

        vm.expectEmit(address(chain));
        emit IRootChain.ExitChallenged(s.coin, 2, 2, 2, address(this), false, 0);
        shows(second);
        chain.challengeDoubleSpend(s.coin, 2, second);
        uint64 hold = uint64(block.timestamp) + HOLD_PERIOD;
        vm.expectEmit(address(chain));
        emit IRootChain.ExitChallenged(s.coin, 1, 1, 3, address(this), true, hold);
        shows(third);
        chain.challengeSpent(s.coin, 1, third, 0, "");

        exit(ALICE, second, third);
        exit(BOB, noParent(), first);
        afterPeriod();
        vm.expectEmit(address(chain));
        emit IRootChain.ExitFinalized(s.coin, 4, bob);
        chain.finalizeExit(s.coin);
        vm.expectEmit(address(chain));
        emit IRootChain.ExitSwept(s.coin, 3);
        chain.sweepExit(s.coin, 3);
        vm.expectEmit(address(chain));
        emit IRootChain.Withdrawn(s.coin, carol);
        vm.prank(bob);
        chain.withdraw(s.coin, carol);
    }

    function test_codeSize() public view {
        isTrue(address(chain).code.length <= 24_576, "EIP-170");
    }

    function test_constructor() public {
        equal(chain.chainHash(), keccak256(abi.encodePacked(domain)), "chain hash 0");
        equal(chain.eventHash(), 0, "event hash 0");
        RootChain odd = new RootChain(keccak256("set"), 1, 1, 1, 10_000);
        equal(odd.bond(), 1, "bond");
    }

    // One refusal a test: forge ends a test at the revert of a `new`, expected or not.

    function test_constructorRefusesNoSet() public {
        vm.expectRevert(IRootChain.BadParameters.selector);
        new RootChain(0, 2, 1, 1, 1);
    }

    function test_constructorRefusesAHoldAboveThePeriod() public {
        vm.expectRevert(IRootChain.BadParameters.selector);
        new RootChain(keccak256("set"), 1, 2, 1, 1);
    }

    function test_constructorRefusesToBurnMoreThanAll() public {
        vm.expectRevert(IRootChain.BadParameters.selector);
        new RootChain(keccak256("set"), 2, 1, 1, 10_001);
    }
}
