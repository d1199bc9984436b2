// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IERC1155Receiver} from "@openzeppelin/contracts/token/ERC1155/IERC1155Receiver.sol";
import {IERC721Receiver} from "@openzeppelin/contracts/token/ERC721/IERC721Receiver.sol";
import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";

import {RootChain} from "../src/RootChain.sol";
import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {Base} from "./Base.sol";

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
    function setUp() public {
        deploy(4);
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

    /// @notice A batch that pays one coin twice, or one of another owner, is refused as a whole.
    function test_withdrawManyIsAllOrNothing() public {
        CoinState memory s = deposit(ALICE);
        CoinState memory other = deposit(BOB);
        exitDeposit(s);
        vm.prank(vm.addr(BOB));
        chain.startDepositExit{value: BOND}(other.coin, 2, noAuth(), 0);
        afterPeriod();
        uint64[] memory two = new uint64[](2);
        (two[0], two[1]) = (s.coin, other.coin);
        chain.finalizeExits(two);
        vm.prank(vm.addr(ALICE));
        vm.expectRevert(IRootChain.NotBeneficiary.selector);
        chain.withdrawMany(two, address(0xdead));
        two[1] = s.coin;
        vm.prank(vm.addr(ALICE));
        vm.expectRevert(IRootChain.AlreadyWithdrawn.selector);
        chain.withdrawMany(two, address(0xdead));
        equal(address(chain).balance, 2 ether + 2 * uint256(BOND), "nothing left");
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

    function test_interfaces() public view {
        isTrue(chain.supportsInterface(type(IERC1155Receiver).interfaceId), "ERC-1155");
        isTrue(chain.supportsInterface(type(IERC721Receiver).interfaceId), "ERC-721");
        isTrue(!chain.supportsInterface(0xffffffff), "ERC-165");
    }
}
