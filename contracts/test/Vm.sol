// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

/// @title The cheat codes of forge that the tests use
interface Vm {
    function addr(uint256 key) external pure returns (address);
    function assume(bool condition) external pure;
    function chainId(uint256 id) external;
    function deal(address account, uint256 balance) external;
    function expectRevert(bytes4 selector) external;
    function keyExistsJson(string calldata json, string calldata key) external view returns (bool);
    function parseJsonAddress(string calldata json, string calldata key)
        external
        pure
        returns (address);
    function parseJsonBool(string calldata json, string calldata key) external pure returns (bool);
    function parseJsonBytes(string calldata json, string calldata key)
        external
        pure
        returns (bytes memory);
    function parseJsonBytes32(string calldata json, string calldata key)
        external
        pure
        returns (bytes32);
    function parseJsonString(string calldata json, string calldata key)
        external
        pure
        returns (string memory);
    function parseJsonUint(string calldata json, string calldata key)
        external
        pure
        returns (uint256);
    function prank(address sender) external;
    function readFile(string calldata path) external view returns (string memory);
    function sign(uint256 key, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);
    function toString(uint256 value) external pure returns (string memory);
    function warp(uint256 time) external;
}

/// @title What every test contract shares
abstract contract Test {
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    error Unequal(bytes32 got, bytes32 wanted);
    error Untrue(string what);

    function eq(bytes32 got, bytes32 wanted) internal pure {
        if (got != wanted) revert Unequal(got, wanted);
    }

    function eq(uint256 got, uint256 wanted) internal pure {
        if (got != wanted) revert Unequal(bytes32(got), bytes32(wanted));
    }

    function eq(address got, address wanted) internal pure {
        eq(uint256(uint160(got)), uint256(uint160(wanted)));
    }

    function check(bool condition, string memory what) internal pure {
        if (!condition) revert Untrue(what);
    }

    /// @dev r, then s with the parity in its top bit (EIP-2098).
    function compact(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, bytes32(uint256(s) | (uint256(v - 27) << 255)));
    }
}
