// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IERC1155Receiver} from "@openzeppelin/contracts/token/ERC1155/IERC1155Receiver.sol";
import {IERC721Receiver} from "@openzeppelin/contracts/token/ERC721/IERC721Receiver.sol";
import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";

import {RootChain} from "../src/RootChain.sol";
import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {TestERC1155} from "../src/test/TestTokens.sol";
import {Base} from "./Base.sol";

/// @notice Owns coins and calls back into RootChain with `again` whenever it is paid.
contract HostileReceiver {
    RootChain private immutable chain;
    bytes public again;
    bytes public answer;

    constructor(RootChain chain_) payable {
        chain = chain_;
    }

    function arm(bytes calldata again_) external {
        again = again_;
    }

    function run(bytes calldata call_, uint256 value) external {
        (bool ok, bytes memory data) = address(chain).call{value: value}(call_);
        if (ok) return;
        assembly {
            revert(add(data, 32), mload(data))
        }
    }

    function strike() private {
        if (again.length == 0) return;
        (bool ok, bytes memory data) = address(chain).call(again);
        require(!ok, "re-entered");
        answer = data;
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

/// @notice Refuses every payment.
contract Refusing {}

/// @notice An ERC-721 and ERC-1155 that calls RootChain's hooks from inside its own transfer.
contract HookedToken {
    RootChain private immutable chain;
    address public operator;
    uint256 private held;

    constructor(RootChain chain_) {
        chain = chain_;
    }

    function arm(address operator_) external {
        operator = operator_;
    }

    function transferFrom(address from, address, uint256 id) external {
        chain.onERC721Received(operator, from, id, "");
    }

    function ownerOf(uint256) external view returns (address) {
        return address(chain);
    }

    function balanceOf(address, uint256) external view returns (uint256) {
        return held;
    }

    function safeTransferFrom(address from, address, uint256 id, uint256 sum, bytes calldata)
        external
    {
        held += sum;
        chain.onERC1155Received(operator, from, id, sum, "");
    }
}

contract HostileTest is Base {
    bytes private constant GUARD =
        abi.encodeWithSelector(ReentrancyGuard.ReentrancyGuardReentrantCall.selector);

    function setUp() public {
        deploy(4);
    }

    function exited(HostileReceiver receiver) private {
        receiver.run(abi.encodeCall(chain.depositETH, (1 ether, 1)), 1 ether);
        receiver.run(abi.encodeCall(chain.startDepositExit, (1, 1, noAuth(), 0)), BOND);
        afterPeriod();
        chain.finalizeExit(1);
    }

    function test_noStateChangingFunctionIsReentered() public {
        HostileReceiver receiver = new HostileReceiver{value: 2 ether}(chain);
        exited(receiver);
        bytes[] memory calls = new bytes[](20);
        uint64[] memory coins = new uint64[](1);
        coins[0] = 1;
        address me = address(receiver);
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
        for (uint256 i; i < calls.length; ++i) {
            uint256 state = vm.snapshotState();
            receiver.arm(calls[i]);
            receiver.run(abi.encodeCall(chain.withdraw, (1, me)), 0);
            equal(keccak256(receiver.answer()), keccak256(GUARD), vm.toString(i));
            receiver.run(abi.encodeCall(chain.withdrawCredits, (me)), 0);
            equal(keccak256(receiver.answer()), keccak256(GUARD), vm.toString(i));
            equal(me.balance, 2 ether, "paid once");
            equal(address(chain).balance, 0, "nothing left, nothing taken");
            vm.revertToState(state);
        }
    }

    function test_aRefusedPaymentChangesNothing() public {
        deposit(ALICE);
        vm.prank(vm.addr(ALICE));
        chain.startDepositExit{value: BOND}(1, 1, noAuth(), 0);
        afterPeriod();
        chain.finalizeExit(1);
        address refusing = address(new Refusing());
        vm.prank(vm.addr(ALICE));
        vm.expectRevert(IRootChain.EthTransferFailed.selector);
        chain.withdraw(1, refusing);
        vm.prank(vm.addr(ALICE));
        vm.expectRevert(IRootChain.EthTransferFailed.selector);
        chain.withdrawCredits(refusing);
        vm.prank(vm.addr(ALICE));
        chain.withdraw(1, vm.addr(ALICE));
        vm.prank(vm.addr(ALICE));
        vm.expectRevert(IRootChain.BadRecipient.selector);
        chain.withdrawCredits(address(0));
    }

    /// @notice A batch that pays one coin twice is refused as a whole.
    function test_withdrawManyPaysACoinOnce() public {
        HostileReceiver receiver = new HostileReceiver{value: 2 ether}(chain);
        exited(receiver);
        uint64[] memory twice = new uint64[](2);
        (twice[0], twice[1]) = (1, 1);
        vm.prank(address(receiver));
        vm.expectRevert(IRootChain.AlreadyWithdrawn.selector);
        chain.withdrawMany(twice, address(0xdead));
        equal(address(chain).balance, 1 ether + BOND, "nothing left");
    }

    function test_hooksInsideOurOwnTransfers() public {
        HookedToken token = new HookedToken(chain);
        // Our own transfer: the hook does nothing, exactly one deposit is made.
        token.arm(address(chain));
        chain.depositERC721(address(token), 5);
        equal(chain.lastDeposit(), 1, "one deposit by call");
        chain.depositERC1155(address(token), 5, 10, 2);
        equal(chain.lastDeposit(), 2, "one deposit by call");
        equal(chain.lastCoin(), 3, "coins");
        // Somebody else's transfer inside ours would be a second deposit.
        token.arm(address(this));
        vm.expectRevert(ReentrancyGuard.ReentrancyGuardReentrantCall.selector);
        chain.depositERC721(address(token), 6);
        vm.expectRevert(ReentrancyGuard.ReentrancyGuardReentrantCall.selector);
        chain.depositERC1155(address(token), 6, 10, 2);
        equal(chain.eventCount(), 2, "events");
    }

    function test_theReceiverOfAnErc1155CannotReenter() public {
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
        receiver.arm(abi.encodeCall(chain.depositETH, (0, 1)));
        vm.prank(vm.addr(ALICE));
        chain.withdraw(1, address(receiver));
        equal(keccak256(receiver.answer()), keccak256(GUARD), "guarded");
        equal(token.balanceOf(address(receiver), 3), 10, "paid");
    }

    function test_interfaces() public view {
        isTrue(chain.supportsInterface(type(IERC1155Receiver).interfaceId), "ERC-1155");
        isTrue(chain.supportsInterface(type(IERC721Receiver).interfaceId), "ERC-721");
        isTrue(!chain.supportsInterface(0xffffffff), "ERC-165");
    }
}
