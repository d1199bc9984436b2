// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

/// @notice Gas of a call; of a whole transaction where tests run isolated.
struct CallGas {
    uint64 limit;
    uint64 used;
    uint64 memoryUsed;
    int64 refunded;
    uint64 remaining;
}

/// @notice The cheat codes of forge that these tests use (forge-std on npm is stale).
interface Cheats {
    function addr(uint256 key) external pure returns (address);
    function sign(uint256 key, bytes32 digest) external pure returns (uint8, bytes32, bytes32);
    function warp(uint256 time) external;
    function prank(address sender) external;
    function deal(address account, uint256 value) external;
    function expectRevert(bytes4 selector) external;
    function expectRevert() external;
    function expectRevert(bytes calldata data) external;
    function expectPartialRevert(bytes4 selector) external;
    function expectEmit(address emitter) external;
    function load(address account, bytes32 slot) external view returns (bytes32);
    function deployCode(string calldata artifact, bytes calldata arguments)
        external
        returns (address);
    function envOr(string calldata name, string calldata otherwise)
        external
        view
        returns (string memory);
    function lastCallGas() external view returns (CallGas memory);
    function snapshotValue(string calldata name, uint256 value) external;
    function snapshotState() external returns (uint256);
    function revertToState(uint256 id) external returns (bool);
    function assume(bool condition) external pure;
    function readFile(string calldata path) external view returns (string memory);
    function keyExistsJson(string calldata json, string calldata key) external view returns (bool);
    function parseJsonUint(string calldata json, string calldata key)
        external
        pure
        returns (uint256);
    function parseJsonUintArray(string calldata json, string calldata key)
        external
        pure
        returns (uint256[] memory);
    function parseJsonBool(string calldata json, string calldata key) external pure returns (bool);
    function parseJsonString(string calldata json, string calldata key)
        external
        pure
        returns (string memory);
    function parseJsonBytes(string calldata json, string calldata key)
        external
        pure
        returns (bytes memory);
    function parseJsonBytes32(string calldata json, string calldata key)
        external
        pure
        returns (bytes32);
    function parseJsonAddress(string calldata json, string calldata key)
        external
        pure
        returns (address);
    function toString(uint256 value) external pure returns (string memory);
}

abstract contract Checks {
    Cheats internal constant vm = Cheats(address(uint160(uint256(keccak256("hevm cheat code")))));

    error Unequal(bytes32 left, bytes32 right, string what);
    error Untrue(string what);

    function equal(bytes32 left, bytes32 right, string memory what) internal pure {
        if (left != right) revert Unequal(left, right, what);
    }

    function equal(uint256 left, uint256 right, string memory what) internal pure {
        equal(bytes32(left), bytes32(right), what);
    }

    function equal(address left, address right, string memory what) internal pure {
        equal(bytes32(uint256(uint160(left))), bytes32(uint256(uint160(right))), what);
    }

    function isTrue(bool condition, string memory what) internal pure {
        if (!condition) revert Untrue(what);
    }
}
