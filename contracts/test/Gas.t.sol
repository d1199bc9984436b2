// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {Base} from "./Base.sol";

/// @notice Gas of single transactions with their 21,000 and calldata; `npm run gas` prints it.
/// @dev Every call is a transaction of its own (isolate), so that slots are cold. The figures are
/// the snapshot, and the README's: one that moves by more than 1 % either way fails.
/// forge-config: default.isolate = true
contract GasTest is Base {
    event Gas(string what, uint256 gas);

    function setUp() public {
        deploy(4);
    }

    function some(uint256 count) private pure returns (bytes32[] memory roots) {
        roots = new bytes32[](count);
        for (uint256 i; i < count; ++i) roots[i] = bytes32(i + 1);
    }

    function submission(uint256 validators, uint256 count, string memory what, uint256 snapshot)
        private
    {
        deploy(validators);
        submitOther();
        bytes32[] memory roots = some(count);
        (bytes memory bitmap, bytes memory signatures) = certify(roots, quorum());
        // From memory: reading the set from this test's storage is not the transaction's gas.
        bytes memory members = set;
        uint256 before = gasleft();
        chain.submitBlocks(2, roots, members, bitmap, signatures);
        used(what, before - gasleft(), snapshot);
    }

    function used(string memory what, uint256 gas, uint256 snapshot) private {
        emit Gas(what, gas);
        isTrue(gas * 100 <= snapshot * 101 && gas * 100 >= snapshot * 99, what);
    }

    function test_deposits() public {
        chain.depositETH{value: 1}(1, 1);
        uint256 before = gasleft();
        chain.depositETH{value: 1}(1, 1);
        used("deposit 1 coin", before - gasleft(), 104_829);
        before = gasleft();
        chain.depositETH{value: 1_000}(1, 1_000);
        used("deposit 1,000 coins", before - gasleft(), 104_858);
    }

    function test_submit() public {
        submission(4, 1, "submit 1 root, 4 validators", 85_655);
        submission(4, 10, "submit 10 roots, 4 validators", 293_270);
        submission(100, 1, "submit 1 root, 100 validators", 513_488);
        submission(100, 10, "submit 10 roots, 100 validators", 745_789);
    }

    function test_exits() public {
        CoinState memory s = deposit(ALICE);
        (CoinState memory one, IRootChain.Included memory first) = include(s, BOB);
        (, IRootChain.Included memory second) = include(one, CAROL);
        CoinState memory other = deposit(BOB);
        vm.prank(vm.addr(BOB));
        uint256 before = gasleft();
        chain.startDepositExit{value: BOND}(other.coin, 2, noAuth(), 0);
        used("startDepositExit", before - gasleft(), 210_679);
        vm.prank(vm.addr(CAROL));
        before = gasleft();
        chain.startExit{value: BOND}(s.coin, 1, first, second, noAuth(), 0);
        used("startExit with a parent", before - gasleft(), 280_839);
        afterPeriod();
        before = gasleft();
        chain.finalizeExit(s.coin);
        used("finalizeExit", before - gasleft(), 73_224);
        vm.prank(vm.addr(CAROL));
        before = gasleft();
        chain.withdraw(s.coin, vm.addr(CAROL));
        used("withdraw", before - gasleft(), 44_097);
    }
}
