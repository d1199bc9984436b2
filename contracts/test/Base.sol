// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {RootChain} from "../src/RootChain.sol";
import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {CompactSmt} from "../src/libraries/CompactSmt.sol";
import {PlasmaHash} from "../src/libraries/PlasmaHash.sol";
import {Checks} from "./Checks.sol";

/// @notice A RootChain with validators, owners and blocks of one leaf.
abstract contract Base is Checks {
    uint64 internal constant EXIT_PERIOD = 14 days;
    uint64 internal constant HOLD_PERIOD = 7 days;
    uint96 internal constant BOND = 0.1 ether;
    uint256 internal constant ALICE = 0xa11ce;
    uint256 internal constant BOB = 0xb0b;
    uint256 internal constant CAROL = 0xca401;
    uint256 internal constant MALLORY = 0xbad;

    RootChain internal chain;
    bytes32 internal domain;
    uint256[] internal keys;
    bytes internal set;

    receive() external payable {}

    function deploy(uint256 validators) internal {
        delete keys;
        set = "";
        // Equal powers: ascending addresses.
        address last;
        for (uint256 i; i < validators; ++i) {
            uint256 best;
            address lowest = address(type(uint160).max);
            for (uint256 k = 1; k <= validators; ++k) {
                address candidate = vm.addr(k);
                if (candidate > last && candidate < lowest) (best, lowest) = (k, candidate);
            }
            keys.push(best);
            set = abi.encodePacked(set, lowest, uint64(10));
            last = lowest;
        }
        bytes32 setHash = keccak256(abi.encodePacked(uint64(1), set));
        // npm test names the artifact that is deployed elsewhere: optimized, via IR.
        string memory artifact = vm.envOr("ROOT_CHAIN", "src/RootChain.sol:RootChain");
        bytes memory arguments =
            abi.encode(setHash, EXIT_PERIOD, HOLD_PERIOD, BOND, uint16(5_000));
        chain = RootChain(vm.deployCode(artifact, arguments));
        domain = chain.domainSeparator();
        for (uint256 i; i < 4; ++i) {
            vm.deal(vm.addr([ALICE, BOB, CAROL, MALLORY][i]), 1_000 ether);
        }
        vm.deal(address(this), 1_000 ether);
        vm.warp(1_000_000);
    }

    function compact(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, bytes32(uint256(s) | (uint256(v - 27) << 255)));
    }

    // --- blocks --------------------------------------------------------------------------------

    function certify(bytes32[] memory roots, uint256 signers)
        internal
        view
        returns (bytes memory bitmap, bytes memory signatures)
    {
        bytes32 hash = chain.chainHash();
        uint64 number = chain.lastBlock();
        for (uint256 i; i < roots.length; ++i) {
            hash = PlasmaHash.chainHash(hash, ++number, roots[i]);
        }
        bytes32 digest = PlasmaHash.attestation(domain, number, hash, 1);
        bitmap = new bytes((keys.length + 7) / 8);
        for (uint256 i; i < signers; ++i) {
            bitmap[i / 8] |= bytes1(uint8(1 << (i % 8)));
            signatures = abi.encodePacked(signatures, compact(keys[i], digest));
        }
    }

    function quorum() internal view returns (uint256) {
        return keys.length * 2 / 3 + 1;
    }

    function submit(bytes32[] memory roots) internal {
        (bytes memory bitmap, bytes memory signatures) = certify(roots, quorum());
        chain.submitBlocks(chain.lastBlock() + 1, roots, set, bitmap, signatures);
    }

    function submitRoot(bytes32 root) internal returns (uint64) {
        bytes32[] memory roots = new bytes32[](1);
        roots[0] = root;
        submit(roots);
        return chain.lastBlock();
    }

    /// @notice A block that holds nothing of interest.
    function submitOther() internal returns (uint64) {
        return submitRoot(CompactSmt.leaf(999_999, keccak256("other")));
    }

    // --- coins ---------------------------------------------------------------------------------

    /// @notice A state of a coin: what the next transfer spends.
    struct CoinState {
        uint64 coin;
        uint64 blockNumber;
        bytes32 hash;
        uint256 ownerKey;
    }

    function deposit(uint256 key) internal returns (CoinState memory) {
        vm.prank(vm.addr(key));
        uint64 coin = chain.depositETH{value: 1 ether}(1 ether, 1);
        IRootChain.Deposit memory d = chain.deposits(chain.lastDeposit());
        return CoinState(coin, d.depositBlock, PlasmaHash.depositHash(domain, coin, d), key);
    }

    function transferOf(CoinState memory s, uint256 to, uint64 maxBlock)
        internal
        pure
        returns (IRootChain.Transfer memory)
    {
        return IRootChain.Transfer(s.coin, s.blockNumber, s.hash, vm.addr(to), maxBlock);
    }

    /// @notice Includes a transfer as the only leaf of the next block, signed by `signer`.
    function includeBy(CoinState memory s, uint256 to, uint64 maxBlock, uint256 signer)
        internal
        returns (CoinState memory next, IRootChain.Included memory shown)
    {
        IRootChain.Transfer memory t = transferOf(s, to, maxBlock);
        bytes32 hash = PlasmaHash.transferHash(domain, t);
        uint64 number = submitRoot(CompactSmt.leaf(s.coin, hash));
        bytes memory proof = abi.encodePacked(uint8(0), uint64(0), uint8(0));
        next = CoinState(s.coin, number, hash, to);
        shown = IRootChain.Included(number, t, compact(signer, hash), proof);
    }

    function include(CoinState memory s, uint256 to)
        internal
        returns (CoinState memory, IRootChain.Included memory)
    {
        return includeBy(s, to, type(uint64).max, s.ownerKey);
    }

    /// @notice Includes a transfer in a block of about 2^depth transfers: each sibling is there.
    function includeDeep(CoinState memory s, uint256 to, uint256 depth)
        internal
        returns (CoinState memory next, IRootChain.Included memory shown)
    {
        IRootChain.Transfer memory t = transferOf(s, to, type(uint64).max);
        bytes32 hash = PlasmaHash.transferHash(domain, t);
        bytes32 node = CompactSmt.leaf(s.coin, hash);
        bytes memory siblings;
        for (uint256 d = depth; d > 0; --d) {
            bytes32 sibling = keccak256(abi.encode(s.coin, d, hash));
            siblings = abi.encodePacked(sibling, siblings);
            bool right = (s.coin >> (d - 1)) & 1 == 1;
            node = right ? CompactSmt.node(sibling, node) : CompactSmt.node(node, sibling);
        }
        uint64 bitmap = uint64((uint256(1) << depth) - 1);
        bytes memory proof = abi.encodePacked(uint8(depth), bitmap, siblings, uint8(0));
        uint64 number = submitRoot(node);
        next = CoinState(s.coin, number, hash, to);
        shown = IRootChain.Included(number, t, compact(s.ownerKey, hash), proof);
    }

    // --- exits ---------------------------------------------------------------------------------

    function noParent() internal pure returns (IRootChain.Included memory i) {}

    function noAuth() internal pure returns (IRootChain.Authorization memory a) {}

    function exitDeposit(CoinState memory s) internal returns (uint64) {
        vm.prank(vm.addr(s.ownerKey));
        return chain.startDepositExit{value: BOND}(s.coin, 1, noAuth(), 0);
    }

    function exit(uint256 key, IRootChain.Included memory parent, IRootChain.Included memory t)
        internal
        returns (uint64)
    {
        vm.prank(vm.addr(key));
        return chain.startExit{value: BOND}(t.transfer.coin, 1, parent, t, noAuth(), 0);
    }

    function afterPeriod() internal {
        vm.warp(block.timestamp + EXIT_PERIOD + 1);
    }
}
