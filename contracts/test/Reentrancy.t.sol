// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";

import {RootChain} from "../src/RootChain.sol";
import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {TestERC1155} from "../src/test/TestTokens.sol";
import {Base} from "./Base.sol";

/// @notice Calls RootChain with `again` whenever it gets control, and keeps the answer.
abstract contract Striker {
    RootChain internal immutable chain;
    bytes public again;
    bytes public answer;
    uint256 public strikes;

    constructor(RootChain chain_) {
        chain = chain_;
    }

    function arm(bytes calldata again_) external {
        again = again_;
        delete answer;
        strikes = 0;
    }

    function strike() internal {
        if (again.length == 0) return;
        (bool ok, bytes memory data) = address(chain).call(again);
        require(!ok, "re-entered");
        answer = data;
        ++strikes;
    }
}

/// @notice Owns coins and calls back whenever it is paid.
contract HostileReceiver is Striker {
    constructor(RootChain chain_) payable Striker(chain_) {}

    function run(bytes calldata call_, uint256 value) external {
        (bool ok, bytes memory data) = address(chain).call{value: value}(call_);
        if (ok) return;
        assembly {
            revert(add(data, 32), mload(data))
        }
    }

    receive() external payable {
        strike();
    }

    function onERC1155Received(address, address, uint256, uint256, bytes calldata)
        external
        returns (bytes4)
    {
        strike();
        return this.onERC1155Received.selector;
    }
}

/// @notice A token of every kind that calls back from each of its functions that may.
contract HostileToken is Striker {
    uint256 private held;

    constructor(RootChain chain_) Striker(chain_) {}

    function balanceOf(address) external view returns (uint256) {
        return held;
    }

    function balanceOf(address, uint256) external view returns (uint256) {
        return held;
    }

    function ownerOf(uint256) external view returns (address) {
        return address(chain);
    }

    function permit(address, address, uint256, uint256, uint8, bytes32, bytes32) external {
        strike();
    }

    /// @dev Of ERC-20 and of ERC-721.
    function transferFrom(address, address to, uint256 value) external returns (bool) {
        if (to == address(chain)) held += value;
        strike();
        return true;
    }

    function transfer(address, uint256) external returns (bool) {
        strike();
        return true;
    }

    function safeTransferFrom(address from, address to, uint256 id, uint256 sum, bytes calldata)
        external
    {
        if (to == address(chain)) {
            held += sum;
            chain.onERC1155Received(address(chain), from, id, sum, "");
        }
        strike();
    }
}

/// @title No function that changes the state can be called from inside another, by any hook
contract ReentrancyTest is Base {
    bytes private constant GUARD =
        abi.encodeWithSelector(ReentrancyGuard.ReentrancyGuardReentrantCall.selector);

    function setUp() public {
        deploy(4);
    }

    /// @notice Every function that changes the state, with arguments of coin 1.
    function everyCall(address me) private view returns (bytes[20] memory calls) {
        uint64[] memory coins = new uint64[](1);
        coins[0] = 1;
        calls[0] = abi.encodeCall(chain.withdraw, (1, me));
        calls[1] = abi.encodeCall(chain.withdrawMany, (coins, me));
        calls[2] = abi.encodeCall(chain.withdrawCredits, (me));
        calls[3] = abi.encodeCall(chain.depositETH, (0, 1));
        calls[4] = abi.encodeCall(chain.depositERC20, (me, 1, 1));
        calls[5] = abi.encodeCall(chain.depositERC20WithPermit, (me, 1, 1, 0, 0, 0, 0));
        calls[6] = abi.encodeCall(chain.depositERC721, (me, 1));
        calls[7] = abi.encodeCall(chain.depositERC1155, (me, 1, 1, 1));
        calls[8] = abi.encodeCall(chain.onERC721Received, (me, me, 1, ""));
        calls[9] = abi.encodeCall(chain.onERC1155Received, (me, me, 1, 1, ""));
        calls[10] = abi.encodeCall(chain.submitBlocks, (1, new bytes32[](0), "", "", ""));
        calls[11] = abi.encodeCall(
            chain.startExit, (1, 1, noParent(), noParent(), noAuth(), 0)
        );
        calls[12] = abi.encodeCall(chain.startDepositExit, (1, 1, noAuth(), 0));
        calls[13] = abi.encodeCall(chain.startExits, (new IRootChain.ExitRequest[](0)));
        calls[14] = abi.encodeCall(chain.challengeSpent, (1, 1, noParent(), 0, ""));
        calls[15] = abi.encodeCall(chain.challengeDoubleSpend, (1, 1, noParent()));
        calls[16] = abi.encodeCall(chain.finalizeExit, (1));
        calls[17] = abi.encodeCall(chain.finalizeExits, (coins));
        calls[18] = abi.encodeCall(chain.sweepExit, (1, 1));
        calls[19] = abi.encodeCall(chain.cancelExit, (1, 1));
    }

    function refused(Striker by, uint256 i) private view {
        equal(by.strikes(), 1, string.concat("called back, call ", vm.toString(i)));
        equal(keccak256(by.answer()), keccak256(GUARD), vm.toString(i));
    }

    function exited(HostileReceiver receiver) private {
        receiver.run(abi.encodeCall(chain.depositETH, (1 ether, 1)), 1 ether);
        receiver.run(abi.encodeCall(chain.startDepositExit, (1, 1, noAuth(), 0)), BOND);
        afterPeriod();
        chain.finalizeExit(1);
    }

    function test_fromTheReceiverOfEther() public {
        HostileReceiver receiver = new HostileReceiver{value: 2 ether}(chain);
        exited(receiver);
        address me = address(receiver);
        uint64[] memory coins = new uint64[](1);
        coins[0] = 1;
        bytes[20] memory calls = everyCall(me);
        for (uint256 i; i < calls.length; ++i) {
            uint256 state = vm.snapshotState();
            receiver.arm(calls[i]);
            bytes memory pay = i % 2 == 0
                ? abi.encodeCall(chain.withdraw, (1, me))
                : abi.encodeCall(chain.withdrawMany, (coins, me));
            receiver.run(pay, 0);
            refused(receiver, i);
            receiver.arm(calls[i]);
            receiver.run(abi.encodeCall(chain.withdrawCredits, (me)), 0);
            refused(receiver, i);
            equal(me.balance, 2 ether, "paid once");
            equal(address(chain).balance, 0, "nothing left, nothing taken");
            vm.revertToState(state);
        }
    }

    /// @notice The coin is withdrawn before it is paid, not only guarded.
    function test_theCoinIsWithdrawnBeforeItIsPaid() public {
        StatusReader reader = new StatusReader{value: 2 ether}(chain);
        reader.depositAndExit(BOND);
        afterPeriod();
        chain.finalizeExit(1);
        reader.withdraw();
        isTrue(reader.seen() == IRootChain.Status.Withdrawn, "withdrawn");
        equal(reader.credits(), BOND, "credits before");
        reader.withdrawCredits();
        equal(reader.credits(), 0, "no credits while they are paid");
    }

    function test_fromTheReceiverOfAnErc1155() public {
        TestERC1155 token = new TestERC1155();
        HostileReceiver receiver = new HostileReceiver(chain);
        token.mint(vm.addr(ALICE), 3, 10);
        vm.prank(vm.addr(ALICE));
        token.safeTransferFrom(
            vm.addr(ALICE), address(chain), 3, 10, abi.encode(vm.addr(ALICE), 1)
        );
        vm.prank(vm.addr(ALICE));
        chain.startDepositExit{value: BOND}(1, 1, noAuth(), 0);
        afterPeriod();
        chain.finalizeExit(1);
        bytes[20] memory calls = everyCall(address(receiver));
        for (uint256 i; i < calls.length; ++i) {
            uint256 state = vm.snapshotState();
            receiver.arm(calls[i]);
            vm.prank(vm.addr(ALICE));
            chain.withdraw(1, address(receiver));
            refused(receiver, i);
            equal(token.balanceOf(address(receiver), 3), 10, "paid");
            vm.revertToState(state);
        }
    }

    function test_fromTheTokenOfADeposit() public {
        HostileToken token = new HostileToken(chain);
        address t = address(token);
        bytes[20] memory calls = everyCall(t);
        for (uint256 i; i < calls.length; ++i) {
            uint256 state = vm.snapshotState();
            token.arm(calls[i]);
            chain.depositERC20(t, 5, 2);
            refused(token, i);
            token.arm(calls[i]);
            chain.depositERC721(t, 5);
            refused(token, i);
            token.arm(calls[i]);
            chain.depositERC1155(t, 5, 6, 2);
            refused(token, i);
            equal(chain.lastDeposit(), 3, "one deposit each");
            token.arm(calls[i]);
            chain.depositERC20WithPermit(t, 5, 2, 0, 0, 0, 0);
            equal(token.strikes(), 2, "permit and transfer");
            equal(keccak256(token.answer()), keccak256(GUARD), "guarded");
            equal(chain.lastDeposit(), 4, "one deposit each");
            equal(chain.eventCount(), 4, "one event each");
            vm.revertToState(state);
        }
    }

    function test_fromTheTokenOfAWithdrawal() public {
        HostileToken token = new HostileToken(chain);
        address t = address(token);
        chain.depositERC20(t, 5, 1);
        chain.depositERC721(t, 5);
        chain.depositERC1155(t, 5, 6, 1);
        for (uint64 coin = 1; coin <= 3; ++coin) {
            chain.startDepositExit{value: BOND}(coin, coin, noAuth(), 0);
        }
        afterPeriod();
        for (uint64 coin = 1; coin <= 3; ++coin) chain.finalizeExit(coin);
        bytes[20] memory calls = everyCall(t);
        for (uint256 i; i < calls.length; ++i) {
            uint256 state = vm.snapshotState();
            for (uint64 coin = 1; coin <= 3; ++coin) {
                token.arm(calls[i]);
                chain.withdraw(coin, address(0xbeef));
                refused(token, i);
            }
            vm.revertToState(state);
        }
    }
}

/// @notice Owns a coin and looks at its status, and at its own credits, while it is paid.
contract StatusReader {
    RootChain private immutable chain;
    IRootChain.Status public seen;
    uint256 public credits;

    constructor(RootChain chain_) payable {
        chain = chain_;
    }

    function depositAndExit(uint256 bond) external {
        chain.depositETH{value: 1 ether}(1 ether, 1);
        chain.startDepositExit{value: bond}(1, 1, IRootChain.Authorization(0, ""), 0);
    }

    function withdraw() external {
        chain.withdraw(1, address(this));
    }

    function withdrawCredits() external {
        chain.withdrawCredits(address(this));
    }

    receive() external payable {
        (seen,,,) = chain.coins(1);
        credits = chain.credits(address(this));
    }
}
