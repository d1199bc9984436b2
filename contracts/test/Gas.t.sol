// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {PlasmaHash} from "../src/libraries/PlasmaHash.sol";
import {TestERC1155, TestERC20, TestERC721} from "../src/test/TestTokens.sol";
import {Base} from "./Base.sol";

/// @notice Gas of whole transactions, their 21,000 and calldata included.
/// @dev Every call is a transaction of its own (isolate), so that slots are cold. snapshots/
/// holds the figures; any change fails until `npm run gas` has written the new ones.
/// forge-config: default.isolate = true
contract GasTest is Base {
    uint256 private constant CAP = 16_777_216; // EIP-7825
    /// @notice Depth of a proof in a block of 1, about 1,000 and about 1,000,000 transfers.
    uint256[3] private depths = [0, 10, 20];
    string[3] private sizes = ["1", "1,000", "1,000,000"];
    address private immutable alice = vm.addr(ALICE);
    address private immutable bob = vm.addr(BOB);
    address private immutable carol = vm.addr(CAROL);
    address private immutable me = address(this);

    function setUp() public {
        deploy(4);
        submitOther();
        // What is there in any used contract: the queue, ids, somebody else's burned bond.
        CoinState memory s = deposit(MALLORY);
        (, IRootChain.Included memory t) = include(s, MALLORY);
        chain.challengeSpent(s.coin, exitDeposit(s), t, 0, "");
    }

    function measure(string memory what, address from, uint256 value, bytes memory data) private {
        vm.prank(from);
        (bool ok,) = address(chain).call{value: value}(data);
        isTrue(ok, what);
        record(what);
    }

    function record(string memory what) private {
        uint256 gas = vm.lastCallGas().used;
        isTrue(gas < CAP, what);
        vm.snapshotValue(what, gas);
    }

    function named(string memory what, uint256 i) private view returns (string memory) {
        return string.concat(what, ", blocks of ", sizes[i]);
    }

    // --- deposits, roots -----------------------------------------------------------------------

    function test_deposits() public {
        TestERC20 erc20 = new TestERC20();
        TestERC721 erc721 = new TestERC721();
        TestERC1155 erc1155 = new TestERC1155();
        erc20.mint(me, 1_000);
        erc20.approve(address(chain), 1_000);
        erc721.mint(me, 1);
        erc721.mint(me, 2);
        erc721.setApprovalForAll(address(chain), true);
        erc1155.mint(alice, 1, 10);
        vm.prank(alice);
        erc1155.setApprovalForAll(address(chain), true);
        address t = address(erc20);
        measure("deposit ETH, 1 coin", me, 1, abi.encodeCall(chain.depositETH, (1, 1)));
        bytes memory data = abi.encodeCall(chain.depositETH, (1, 1_000));
        measure("deposit ETH, 1,000 coins", me, 1_000, data);
        measure("deposit ERC-20", me, 0, abi.encodeCall(chain.depositERC20, (t, 10, 10)));
        t = address(erc721);
        measure("deposit ERC-721 by call", me, 0, abi.encodeCall(chain.depositERC721, (t, 1)));
        erc721.safeTransferFrom(me, address(chain), 2);
        record("deposit ERC-721 by hook");
        data = abi.encodeCall(chain.depositERC1155, (address(erc1155), 1, 1, 5));
        measure("deposit ERC-1155 by call", alice, 0, data);
        data = abi.encode(alice, 5);
        vm.prank(alice);
        erc1155.safeTransferFrom(alice, address(chain), 1, 5, data);
        record("deposit ERC-1155 by hook");
    }

    function submission(uint256 validators, uint256 count, string memory what) private {
        deploy(validators);
        submitOther();
        bytes32[] memory roots = new bytes32[](count);
        for (uint256 i; i < count; ++i) roots[i] = bytes32(i + 1);
        (bytes memory bitmap, bytes memory signatures) = certify(roots, quorum());
        bytes memory data =
            abi.encodeCall(chain.submitBlocks, (2, roots, set, bitmap, signatures));
        measure(what, me, 0, data);
    }

    function test_submit() public {
        submission(4, 1, "submitBlocks, 4 validators, 1 root");
        submission(4, 10, "submitBlocks, 4 validators, 10 roots");
        submission(4, 512, "submitBlocks, 4 validators, 512 roots");
        submission(100, 1, "submitBlocks, 100 validators, 1 root");
        submission(100, 10, "submitBlocks, 100 validators, 10 roots");
    }

    // --- single exits --------------------------------------------------------------------------

    function startCall(
        CoinState memory s,
        IRootChain.Included memory parent,
        IRootChain.Included memory t
    ) private view returns (bytes memory) {
        uint64 id = chain.lastDeposit();
        return abi.encodeCall(chain.startExit, (s.coin, id, parent, t, noAuth(), 0));
    }

    function test_starts() public {
        CoinState memory s = deposit(ALICE);
        bytes memory data = abi.encodeCall(chain.startDepositExit, (s.coin, 2, noAuth(), 0));
        measure("startDepositExit", alice, BOND, data);
        for (uint256 i; i < 3; ++i) {
            s = deposit(ALICE);
            (CoinState memory one, IRootChain.Included memory first) =
                includeDeep(s, BOB, depths[i]);
            (, IRootChain.Included memory second) = includeDeep(one, CAROL, depths[i]);
            data = startCall(s, first, second);
            uint256 state = vm.snapshotState();
            measure(named("startExit, moved twice", i), carol, BOND, data);
            vm.revertToState(state);
            data = startCall(s, noParent(), first);
            measure(named("startExit, moved once", i), bob, BOND, data);
        }
        tower();
    }

    function tower() private {
        CoinState memory s = deposit(ALICE);
        uint64 until = type(uint64).max;
        IRootChain.Authorization memory auth = IRootChain.Authorization(
            until, compact(ALICE, PlasmaHash.authorization(domain, s.coin, s.hash, until))
        );
        uint64 id = chain.lastDeposit();
        bytes memory data = abi.encodeCall(chain.startDepositExit, (s.coin, id, auth, 0));
        measure("startDepositExit by a watchtower", bob, BOND, data);
    }

    function test_challenges() public {
        for (uint256 i; i < 3; ++i) {
            CoinState memory s = deposit(ALICE);
            (CoinState memory one, IRootChain.Included memory first) =
                includeDeep(s, BOB, depths[i]);
            (CoinState memory again, IRootChain.Included memory replay) =
                includeDeep(s, BOB, depths[i]);
            (, IRootChain.Included memory spend) = includeDeep(again, CAROL, depths[i]);
            (, IRootChain.Included memory direct) = includeDeep(one, CAROL, depths[i]);
            (, IRootChain.Included memory other) = includeDeep(s, CAROL, depths[i]);
            // An exit of BOB's state is open, a younger one of CAROL's too.
            uint64 id = start(bob, noParent(), first);
            uint64 theft = start(carol, noParent(), other);
            bytes memory data =
                abi.encodeCall(chain.challengeDoubleSpend, (s.coin, theft, first));
            measure(named("challengeDoubleSpend", i), me, 0, data);
            data = abi.encodeCall(chain.challengeSpent, (s.coin, id, direct, 0, ""));
            uint256 state = vm.snapshotState();
            measure(named("challengeSpent", i), me, 0, data);
            vm.revertToState(state);
            data = abi.encodeCall(
                chain.challengeSpent, (s.coin, id, spend, again.blockNumber, replay.proof)
            );
            measure(named("challengeSpent by another inclusion", i), me, 0, data);
        }
    }

    function start(
        address from,
        IRootChain.Included memory parent,
        IRootChain.Included memory t
    ) private returns (uint64) {
        uint64 id = chain.lastDeposit();
        vm.prank(from);
        return chain.startExit{value: BOND}(t.transfer.coin, id, parent, t, noAuth(), 0);
    }

    function test_endings() public {
        CoinState memory s = deposit(ALICE);
        (CoinState memory one, IRootChain.Included memory first) = include(s, BOB);
        (CoinState memory two, IRootChain.Included memory second) = include(one, CAROL);
        (, IRootChain.Included memory third) = include(two, BOB);
        cancel(s.coin, first);
        start(bob, noParent(), first);
        uint64 foreign = start(carol, first, second);
        uint64 own = start(bob, second, third);
        afterPeriod();
        measure("finalizeExit", me, 0, abi.encodeCall(chain.finalizeExit, (s.coin)));
        bytes memory data = abi.encodeCall(chain.sweepExit, (s.coin, foreign));
        measure("sweepExit, another beneficiary", me, 0, data);
        data = abi.encodeCall(chain.sweepExit, (s.coin, own));
        measure("sweepExit, the same beneficiary", me, 0, data);
        measure("withdrawCredits", bob, 0, abi.encodeCall(chain.withdrawCredits, (bob)));
    }

    function cancel(uint64 coin, IRootChain.Included memory first) private {
        uint256 state = vm.snapshotState();
        uint64 id = start(bob, noParent(), first);
        measure("cancelExit", bob, 0, abi.encodeCall(chain.cancelExit, (coin, id)));
        vm.revertToState(state);
    }

    // --- batches -------------------------------------------------------------------------------

    function batch(string memory what, uint256 count) private pure returns (string memory) {
        return string.concat(what, " of ", vm.toString(count));
    }

    function test_batchesOfNeverMovedCoins() public {
        uint256[3] memory counts = [uint256(1), 10, 100];
        for (uint256 i; i < 3; ++i) {
            uint64 first = chain.depositETH{value: counts[i]}(1, uint16(counts[i]));
            life("startExits", "never moved", requestsOf(first, counts[i]));
        }
    }

    function requestsOf(uint64 first, uint256 count)
        private
        view
        returns (IRootChain.ExitRequest[] memory requests)
    {
        requests = new IRootChain.ExitRequest[](count);
        for (uint256 i; i < count; ++i) {
            requests[i].coin = first + uint64(i);
            requests[i].depositId = chain.lastDeposit();
        }
    }

    /// @notice Starts, finalizes and withdraws; of what is worth a line in the table.
    function life(string memory what, string memory which, IRootChain.ExitRequest[] memory all)
        private
    {
        uint256 count = all.length;
        uint64[] memory coins = new uint64[](count);
        for (uint256 i; i < count; ++i) coins[i] = all[i].coin;
        what = string.concat(batch(what, count), ", ", which);
        measure(what, me, count * BOND, abi.encodeCall(chain.startExits, (all)));
        afterPeriod();
        bytes memory data = abi.encodeCall(chain.finalizeExits, (coins));
        measure(batch("finalizeExits", count), me, 0, data);
        data = abi.encodeCall(chain.withdrawMany, (coins, bob));
        measure(batch("withdrawMany, ETH", count), me, 0, data);
    }

    function moved(uint256 count, uint256 depth, bool twice)
        private
        returns (IRootChain.ExitRequest[] memory requests)
    {
        vm.prank(alice);
        uint64 first = chain.depositETH{value: count}(1, uint16(count));
        requests = requestsOf(first, count);
        IRootChain.Deposit memory d = chain.deposits(chain.lastDeposit());
        for (uint256 i; i < count; ++i) {
            uint64 coin = first + uint64(i);
            bytes32 hash = PlasmaHash.depositHash(domain, coin, d);
            CoinState memory s = CoinState(coin, d.depositBlock, hash, ALICE);
            if (twice) (s, requests[i].parent) = includeDeep(s, BOB, depth);
            (, requests[i].transfer) = includeDeep(s, CAROL, depth);
        }
    }

    function test_batchesOfMovedCoins() public {
        for (uint256 i; i < 3; ++i) {
            string memory once = named("startExits of 64, moved once", i);
            string memory twice = named("startExits of 64, moved twice", i);
            bytes memory data = abi.encodeCall(chain.startExits, (moved(64, depths[i], false)));
            measure(once, carol, 64 * BOND, data);
            data = abi.encodeCall(chain.startExits, (moved(64, depths[i], true)));
            vm.prank(carol);
            (bool ok,) = address(chain).call{value: 64 * BOND}(data);
            isTrue(ok, twice);
            vm.snapshotValue(twice, vm.lastCallGas().used);
        }
    }

    function test_withdrawalsOfTokens() public {
        TestERC20 erc20 = new TestERC20();
        TestERC721 erc721 = new TestERC721();
        TestERC1155 erc1155 = new TestERC1155();
        erc20.mint(me, 1_000);
        erc20.approve(address(chain), 1_000);
        erc721.mint(me, 1);
        erc721.approve(address(chain), 1);
        erc1155.mint(alice, 1, 100);
        uint64 first = chain.depositERC721(address(erc721), 1);
        chain.startExits{value: BOND}(requestsOf(first, 1));
        chain.depositERC20(address(erc20), 1, 101);
        chain.startExits{value: 101 * BOND}(requestsOf(first + 1, 101));
        vm.prank(alice);
        erc1155.safeTransferFrom(alice, address(chain), 1, 100, abi.encode(me, 100));
        chain.startExits{value: 100 * BOND}(requestsOf(first + 102, 100));
        afterPeriod();
        uint64[] memory coins = new uint64[](202);
        for (uint64 i; i < 202; ++i) coins[i] = first + i;
        chain.finalizeExits(coins);
        measure("withdraw, ERC-721", me, 0, abi.encodeCall(chain.withdraw, (first, bob)));
        measure("withdraw, ERC-20", me, 0, abi.encodeCall(chain.withdraw, (first + 1, bob)));
        uint64[] memory hundred = new uint64[](100);
        for (uint64 i; i < 100; ++i) hundred[i] = first + 2 + i;
        bytes memory data = abi.encodeCall(chain.withdrawMany, (hundred, bob));
        measure("withdrawMany, ERC-20 of 100", me, 0, data);
        for (uint64 i; i < 100; ++i) hundred[i] = first + 102 + i;
        data = abi.encodeCall(chain.withdrawMany, (hundred, bob));
        measure("withdrawMany, ERC-1155 of 100", me, 0, data);
    }
}
