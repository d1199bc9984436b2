// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IERC20Errors} from "@openzeppelin/contracts/interfaces/draft-IERC6093.sol";
import {IERC721Errors} from "@openzeppelin/contracts/interfaces/draft-IERC6093.sol";
import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";

import {RootChain} from "../src/RootChain.sol";
import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {PlasmaHash} from "../src/libraries/PlasmaHash.sol";
import {TestERC1155, TestERC20, TestERC721} from "../src/test/TestTokens.sol";
import {Base} from "./Base.sol";

/// @notice Takes a fee of each transfer, or pays a premium on top of it.
contract FeeToken is ERC20 {
    uint256 public fee;
    uint256 public premium;

    constructor() ERC20("Fee", "FEE") {
        _mint(msg.sender, 1_000);
    }

    function set(uint256 fee_, uint256 premium_) external {
        (fee, premium) = (fee_, premium_);
    }

    function _update(address from, address to, uint256 value) internal override {
        super._update(from, to, value);
        if (from == address(0)) return;
        super._update(to, address(1), fee);
        super._update(address(0), to, premium);
    }
}

/// @notice Takes from the receiver instead of giving to him.
contract TakingToken is ERC20 {
    constructor(address victim) ERC20("Taking", "TAKE") {
        _mint(victim, 1_000);
    }

    function transferFrom(address from, address to, uint256 value)
        public
        override
        returns (bool)
    {
        _transfer(to, from, value);
        return true;
    }
}

/// @notice Says "no" without reverting, to deposits or to payments.
contract FalseToken {
    bool public pays;
    uint256 private held;

    function set(bool pays_) external {
        pays = pays_;
    }

    function balanceOf(address) external view returns (uint256) {
        return held;
    }

    function transferFrom(address, address, uint256 value) external returns (bool) {
        if (pays) held += value;
        return pays;
    }

    function transfer(address, uint256 value) external returns (bool) {
        if (pays) held -= value;
        return pays;
    }
}

/// @notice Moves nothing, or takes away what was there; of every kind.
contract EmptyToken {
    uint256 private held = 5;
    bool private takes;

    function set(bool takes_) external {
        takes = takes_;
    }

    function balanceOf(address) external view returns (uint256) {
        return held;
    }

    function balanceOf(address, uint256) external view returns (uint256) {
        return held;
    }

    function transferFrom(address, address, uint256) external returns (bool) {
        if (takes) --held;
        return true;
    }

    function safeTransferFrom(address, address, uint256, uint256, bytes calldata) external {
        if (takes) --held;
    }

    function ownerOf(uint256) external view returns (address) {
        return address(this);
    }

    /// @notice Calls the hook of an ERC-721 without giving anything.
    function pretend(RootChain chain) external {
        chain.onERC721Received(msg.sender, msg.sender, 1, "");
    }
}

/// @notice Returns nothing, as some old tokens do.
contract SilentToken {
    mapping(address => uint256) public balanceOf;

    function transferFrom(address, address to, uint256 value) external {
        balanceOf[to] += value;
    }

    function transfer(address, uint256 value) external {
        balanceOf[msg.sender] -= value;
    }
}

contract DepositsTest is Base {
    TestERC20 private erc20;
    TestERC721 private erc721;
    TestERC1155 private erc1155;

    function setUp() public {
        deploy(4);
        erc20 = new TestERC20();
        erc721 = new TestERC721();
        erc1155 = new TestERC1155();
        erc20.mint(address(this), 1_000_000);
        erc20.approve(address(chain), type(uint256).max);
        erc721.mint(address(this), 7);
        erc721.setApprovalForAll(address(chain), true);
        erc1155.mint(vm.addr(ALICE), 3, 1_000);
    }

    /// @notice Exactly one deposit was made, of these coins, and the queue has exactly its event.
    function made(uint64 id, address owner, uint64 first, uint16 count, uint8 kind, uint256 value)
        private
        view
        returns (IRootChain.Deposit memory d)
    {
        equal(chain.lastDeposit(), id, "one deposit");
        equal(chain.eventCount(), id, "one event");
        equal(chain.lastCoin(), first + count - 1, "coins");
        d = chain.deposits(id);
        equal(d.owner, owner, "owner");
        equal(d.firstCoin, first, "first coin");
        equal(d.count, count, "count");
        equal(d.assetKind, kind, "kind");
        equal(d.value, value, "value");
    }

    function test_eth() public {
        chain.depositETH{value: 30}(10, 3);
        IRootChain.Deposit memory d = made(1, address(this), 1, 3, 1, 10);
        bytes memory e = abi.encode(
            uint8(1),
            uint64(1),
            uint64(1),
            uint16(3),
            address(this),
            uint8(1),
            address(0),
            0,
            10,
            d.depositBlock
        );
        equal(e.length, 320, "event length");
        equal(chain.eventHash(), PlasmaHash.eventHash(0, e), "queue hash");
        submitOther();
        chain.depositETH{value: 1_000}(1, 1_000);
        d = made(2, address(this), 4, 1_000, 1, 1);
        equal(d.depositBlock, 1, "deposit block");
    }

    function test_ethErrors() public {
        vm.expectRevert(IRootChain.WrongAmount.selector);
        chain.depositETH{value: 29}(10, 3);
        vm.expectRevert(IRootChain.BadCount.selector);
        chain.depositETH{value: 0}(10, 0);
        vm.expectRevert(IRootChain.BadCount.selector);
        chain.depositETH{value: 1_001}(1, 1_001);
        vm.expectRevert(IRootChain.ZeroValue.selector);
        chain.depositETH{value: 0}(0, 1);
        // Twice this is 2, but for the overflow.
        vm.expectRevert(IRootChain.WrongAmount.selector);
        chain.depositETH{value: 2}((uint256(1) << 255) + 1, 2);
        (bool ok,) = address(chain).call{value: 1}("");
        isTrue(!ok, "no plain ether");
    }

    function test_fuzz_eth(uint96 value, uint16 count, uint256 sent) public {
        count = uint16(1 + count % 1_000);
        value = uint96(1 + value % 1 ether);
        sent %= 1_000 ether;
        vm.deal(address(this), 2_000 ether);
        if (sent != uint256(value) * count) vm.expectRevert(IRootChain.WrongAmount.selector);
        chain.depositETH{value: sent}(value, count);
        chain.depositETH{value: uint256(value) * count}(value, count);
    }

    function test_erc20() public {
        chain.depositERC20(address(erc20), 50, 4);
        made(1, address(this), 1, 4, 2, 50);
        equal(erc20.balanceOf(address(chain)), 200, "pulled");
    }

    function permitOf(uint256 key, uint256 value)
        private
        view
        returns (uint8 v, bytes32 r, bytes32 s)
    {
        bytes32 permit = keccak256(
            abi.encode(
                keccak256(
                    "Permit(address owner,address spender,uint256 value,"
                    "uint256 nonce,uint256 deadline)"
                ),
                vm.addr(key),
                address(chain),
                value,
                0,
                block.timestamp
            )
        );
        return vm.sign(
            key, keccak256(abi.encodePacked(hex"1901", erc20.DOMAIN_SEPARATOR(), permit))
        );
    }

    function depositByPermit(address token, uint8 v, bytes32 r, bytes32 s) private {
        vm.prank(vm.addr(ALICE));
        chain.depositERC20WithPermit(token, 50, 2, block.timestamp, v, r, s);
    }

    function test_permitIsTheWholeApproval() public {
        erc20.mint(vm.addr(ALICE), 100);
        (uint8 v, bytes32 r, bytes32 s) = permitOf(ALICE, 100);
        depositByPermit(address(erc20), v, r, s);
        made(1, vm.addr(ALICE), 1, 2, 2, 50);
        equal(erc20.allowance(vm.addr(ALICE), address(chain)), 0, "used up");
    }

    function test_permitUsedBySomebodyElseBefore() public {
        address alice = vm.addr(ALICE);
        erc20.mint(alice, 100);
        (uint8 v, bytes32 r, bytes32 s) = permitOf(ALICE, 100);
        erc20.permit(alice, address(chain), 100, block.timestamp, v, r, s);
        depositByPermit(address(erc20), v, r, s);
        made(1, alice, 1, 2, 2, 50);
    }

    function test_failingPermitsAreIgnored() public {
        address alice = vm.addr(ALICE);
        erc20.mint(alice, 100);
        // Signed by somebody else: there is no allowance, the transfer decides.
        (uint8 v, bytes32 r, bytes32 s) = permitOf(BOB, 100);
        vm.expectPartialRevert(IERC20Errors.ERC20InsufficientAllowance.selector);
        depositByPermit(address(erc20), v, r, s);
        // No code: no token.
        vm.expectRevert();
        depositByPermit(address(0xdead), v, r, s);
        // A token that knows no permits, with an allowance.
        SilentToken silent = new SilentToken();
        depositByPermit(address(silent), v, r, s);
        made(1, alice, 1, 2, 2, 50);
        vm.prank(alice);
        erc20.approve(address(chain), 100);
        depositByPermit(address(erc20), v, r, s);
        made(2, alice, 3, 2, 2, 50);
        vm.expectRevert(IRootChain.WrongAmount.selector);
        chain.depositERC20WithPermit(address(erc20), type(uint256).max, 2, 0, v, r, s);
    }

    function test_feesOnTransferAreRefused() public {
        FeeToken fee = new FeeToken();
        fee.approve(address(chain), 1_000);
        fee.set(1, 0);
        vm.expectRevert(IRootChain.WrongAmount.selector);
        chain.depositERC20(address(fee), 100, 1);
        vm.expectRevert(IRootChain.WrongAmount.selector);
        chain.depositERC20(address(fee), 50, 2);
        fee.set(0, 1);
        vm.expectRevert(IRootChain.WrongAmount.selector);
        chain.depositERC20(address(fee), 100, 1);
        // What arrives decides, not the kind of token.
        fee.set(3, 3);
        chain.depositERC20(address(fee), 50, 2);
        made(1, address(this), 1, 2, 2, 50);
    }

    function test_falseReturningTokens() public {
        FalseToken no = new FalseToken();
        bytes memory failed =
            abi.encodeWithSelector(SafeERC20.SafeERC20FailedOperation.selector, address(no));
        vm.expectRevert(failed);
        chain.depositERC20(address(no), 100, 1);
        no.set(true);
        chain.depositERC20(address(no), 100, 1);
        made(1, address(this), 1, 1, 2, 100);
        chain.startDepositExit{value: BOND}(1, 1, noAuth(), 0);
        afterPeriod();
        chain.finalizeExit(1);
        no.set(false);
        vm.expectRevert(failed);
        chain.withdraw(1, address(this));
        (IRootChain.Status status,,,) = chain.coins(1);
        isTrue(status == IRootChain.Status.Exited, "not yet withdrawn");
        no.set(true);
        chain.withdraw(1, address(this));
    }

    function test_noReturnTokens() public {
        SilentToken silent = new SilentToken();
        chain.depositERC20(address(silent), 100, 1);
        made(1, address(this), 1, 1, 2, 100);
        chain.startDepositExit{value: BOND}(1, 1, noAuth(), 0);
        afterPeriod();
        chain.finalizeExit(1);
        chain.withdraw(1, address(this));
        equal(silent.balanceOf(address(chain)), 0, "paid");
    }

    function test_tokensThatTakeAreRefused() public {
        TakingToken taking = new TakingToken(address(chain));
        vm.expectRevert(IRootChain.WrongAmount.selector);
        chain.depositERC20(address(taking), 5, 2);
    }

    function test_tokensThatGiveNothingAreRefused() public {
        EmptyToken empty = new EmptyToken();
        for (uint256 i; i < 2; ++i) {
            empty.set(i == 1);
            vm.expectRevert(IRootChain.WrongAmount.selector);
            chain.depositERC20(address(empty), 5, 1);
            vm.expectRevert(IRootChain.WrongAmount.selector);
            chain.depositERC721(address(empty), 1);
            vm.expectRevert(IRootChain.WrongAmount.selector);
            chain.depositERC1155(address(empty), 1, 5, 1);
        }
        vm.expectRevert(IRootChain.WrongAmount.selector);
        empty.pretend(chain);
        vm.expectRevert();
        chain.depositERC20(address(0xdead), 100, 1);
        equal(chain.lastDeposit(), 0, "no deposit");
    }

    function test_depositsOfNobodysTokens() public {
        vm.expectPartialRevert(IERC20Errors.ERC20InsufficientAllowance.selector);
        vm.prank(vm.addr(BOB));
        chain.depositERC20(address(erc20), 1, 1);
        vm.expectPartialRevert(IERC721Errors.ERC721IncorrectOwner.selector);
        vm.prank(vm.addr(BOB));
        chain.depositERC721(address(erc721), 7);
        vm.expectRevert(IRootChain.BadCount.selector);
        chain.depositERC20(address(erc20), 1, 0);
        vm.expectRevert(IRootChain.BadCount.selector);
        chain.depositERC20(address(erc20), 1, 1_001);
    }

    function test_erc721() public {
        chain.depositERC721(address(erc721), 7);
        made(1, address(this), 1, 1, 3, 1);
        erc721.mint(address(this), 8);
        erc721.safeTransferFrom(address(this), address(chain), 8);
        made(2, address(this), 2, 1, 3, 1);
        erc721.mint(address(this), 9);
        erc721.safeTransferFrom(address(this), address(chain), 9, abi.encode(vm.addr(BOB), 1));
        made(3, vm.addr(BOB), 3, 1, 3, 1);
        erc721.mint(address(this), 10);
        vm.expectRevert(IRootChain.BadCount.selector);
        erc721.safeTransferFrom(address(this), address(chain), 10, abi.encode(vm.addr(BOB), 2));
        vm.expectRevert(IRootChain.BadHookData.selector);
        erc721.safeTransferFrom(address(this), address(chain), 10, hex"01");
        vm.expectRevert(IRootChain.BadOwner.selector);
        erc721.safeTransferFrom(address(this), address(chain), 10, abi.encode(address(chain), 1));
        bytes[4] memory bad = [
            abi.encode(vm.addr(BOB), 1 << 16),
            abi.encode(1 << 160, 1),
            abi.encodePacked(abi.encode(vm.addr(BOB), 1), uint8(0)),
            abi.encode(vm.addr(BOB))
        ];
        for (uint256 i; i < bad.length; ++i) {
            vm.expectRevert(IRootChain.BadHookData.selector);
            erc721.safeTransferFrom(address(this), address(chain), 10, bad[i]);
        }
        vm.expectRevert(IRootChain.BadOwner.selector);
        erc721.safeTransferFrom(address(this), address(chain), 10, abi.encode(address(0), 1));
    }

    function test_erc1155() public {
        address alice = vm.addr(ALICE);
        vm.prank(alice);
        erc1155.setApprovalForAll(address(chain), true);
        vm.prank(alice);
        chain.depositERC1155(address(erc1155), 3, 10, 5);
        IRootChain.Deposit memory d = made(1, alice, 1, 5, 4, 10);
        equal(d.tokenId, 3, "token id");
        vm.prank(alice);
        erc1155.safeTransferFrom(alice, address(chain), 3, 12, abi.encode(vm.addr(BOB), 4));
        made(2, vm.addr(BOB), 6, 4, 4, 3);
        vm.prank(alice);
        vm.expectRevert(IRootChain.WrongAmount.selector);
        erc1155.safeTransferFrom(alice, address(chain), 3, 13, abi.encode(vm.addr(BOB), 4));
        vm.prank(alice);
        vm.expectRevert(IRootChain.BadCount.selector);
        erc1155.safeTransferFrom(alice, address(chain), 3, 13, abi.encode(vm.addr(BOB), 0));
        vm.prank(alice);
        vm.expectRevert(IRootChain.ZeroValue.selector);
        erc1155.safeTransferFrom(alice, address(chain), 3, 0, abi.encode(vm.addr(BOB), 4));
        vm.prank(alice);
        vm.expectRevert(IRootChain.BadCount.selector);
        chain.depositERC1155(address(erc1155), 3, 10, 0);
        vm.prank(alice);
        erc1155.safeTransferFrom(alice, address(chain), 3, 7, "");
        made(3, alice, 10, 1, 4, 7);
        uint256[] memory two = new uint256[](2);
        vm.prank(alice);
        vm.expectRevert(IRootChain.BatchRefused.selector);
        erc1155.safeBatchTransferFrom(alice, address(chain), two, two, "");
    }

    function test_everyKindIsPaidOut() public {
        chain.depositERC20(address(erc20), 50, 1);
        chain.depositERC721(address(erc721), 7);
        erc1155.mint(address(0xbeef), 3, 10);
        vm.prank(address(0xbeef));
        erc1155.safeTransferFrom(
            address(0xbeef), address(chain), 3, 10, abi.encode(address(this), 1)
        );
        for (uint64 coin = 1; coin <= 3; ++coin) {
            chain.startDepositExit{value: BOND}(coin, coin, noAuth(), 0);
        }
        afterPeriod();
        uint256 before = erc20.balanceOf(address(this));
        for (uint64 coin = 1; coin <= 3; ++coin) {
            chain.finalizeExit(coin);
            chain.withdraw(coin, coin == 3 ? address(0xbeef) : address(this));
        }
        equal(erc20.balanceOf(address(this)) - before, 50, "ERC-20");
        equal(erc721.ownerOf(7), address(this), "ERC-721");
        equal(erc1155.balanceOf(address(0xbeef), 3), 10, "ERC-1155");
    }
}
