// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {Certificate} from "../src/libraries/Certificate.sol";
import {CompactSignature} from "../src/libraries/CompactSignature.sol";
import {CompactSmt} from "../src/libraries/CompactSmt.sol";
import {PlasmaHash} from "../src/libraries/PlasmaHash.sol";
import {Checks} from "./Checks.sol";
import {SmtCalls} from "./SmtCalls.sol";

/// @notice What Rust computed, computed again: src/core/vectors/.
contract VectorsTest is Checks, SmtCalls {
    bytes32 private domain;

    function setUp() public {
        domain = vm.parseJsonBytes32(read("domain"), ".separator");
    }

    function read(string memory name) private view returns (string memory) {
        return vm.readFile(string.concat("../src/core/vectors/", name, ".json"));
    }

    function path(string memory list, uint256 i, string memory field)
        private
        pure
        returns (string memory)
    {
        return string.concat(".", list, "[", vm.toString(i), "].", field);
    }

    function number(string memory json, string memory list, uint256 i, string memory field)
        private
        pure
        returns (uint64)
    {
        return uint64(vm.parseJsonUint(json, path(list, i, field)));
    }

    function hash(string memory json, string memory list, uint256 i, string memory field)
        private
        pure
        returns (bytes32)
    {
        return vm.parseJsonBytes32(json, path(list, i, field));
    }

    function more(string memory json, string memory list, uint256 i, string memory field)
        private
        view
        returns (bool)
    {
        return vm.keyExistsJson(json, path(list, i, field));
    }

    function test_domain() public view {
        string memory json = read("domain");
        bytes32 own = PlasmaHash.domainSeparator(
            vm.parseJsonUint(json, ".chain_id"), vm.parseJsonAddress(json, ".root_chain")
        );
        equal(own, domain, "separator");
        equal(
            keccak256(abi.encodePacked(domain)),
            vm.parseJsonBytes32(json, ".chain_hash_0"),
            "chain hash 0"
        );
    }

    function test_transfers() public view {
        string memory json = read("transfers");
        uint256 i;
        for (; more(json, "transfers", i, "digest"); ++i) {
            IRootChain.Transfer memory t = IRootChain.Transfer(
                number(json, "transfers", i, "coin"),
                number(json, "transfers", i, "prev_block"),
                hash(json, "transfers", i, "prev_hash"),
                vm.parseJsonAddress(json, path("transfers", i, "new_owner")),
                number(json, "transfers", i, "max_block")
            );
            bytes32 digest = PlasmaHash.transferHash(domain, t);
            equal(digest, hash(json, "transfers", i, "digest"), "digest");
            bytes memory signature = vm.parseJsonBytes(json, path("transfers", i, "signature"));
            equal(
                this.recover(digest, signature),
                vm.parseJsonAddress(json, path("transfers", i, "signer")),
                "signer"
            );
        }
        isTrue(i > 2, "vectors found");
    }

    function recover(bytes32 digest, bytes calldata signature) external pure returns (address) {
        return CompactSignature.recover(digest, signature);
    }

    function test_signatures() public view {
        string memory json = read("signatures");
        uint256 i;
        for (; more(json, "signatures", i, "digest"); ++i) {
            address signer = this.recover(
                hash(json, "signatures", i, "digest"),
                vm.parseJsonBytes(json, path("signatures", i, "signature"))
            );
            string memory name = vm.parseJsonString(json, path("signatures", i, "name"));
            equal(signer, vm.parseJsonAddress(json, path("signatures", i, "signer")), name);
        }
        isTrue(i > 5, "vectors found");
    }

    function test_tree() public view {
        string memory json = read("tree");
        uint256 i;
        for (; more(json, "leaves", i, "leaf"); ++i) {
            bytes32 leaf = CompactSmt.leaf(
                number(json, "leaves", i, "coin"), hash(json, "leaves", i, "transfer_hash")
            );
            equal(leaf, hash(json, "leaves", i, "leaf"), "leaf");
        }
        isTrue(i > 2, "leaves found");
        for (i = 0; more(json, "nodes", i, "node"); ++i) {
            bytes32 node =
                CompactSmt.node(hash(json, "nodes", i, "left"), hash(json, "nodes", i, "right"));
            equal(node, hash(json, "nodes", i, "node"), "node");
        }
        isTrue(i > 0, "nodes found");
    }

    function proofs(string memory list, bool valid) private view returns (uint256 i) {
        string memory json = read("proofs");
        for (; more(json, list, i, "proof"); ++i) {
            bytes32 root = hash(json, list, i, "root");
            uint64 coin = number(json, list, i, "coin");
            bytes memory proof = vm.parseJsonBytes(json, path(list, i, "proof"));
            bytes32 transferHash = hash(json, list, i, "transfer_hash");
            bool inclusion = vm.parseJsonBool(json, path(list, i, "inclusion"));
            bool passes = inclusion
                ? this.included(root, coin, transferHash, proof)
                : this.excluded(root, coin, proof);
            string memory name = vm.parseJsonString(json, path(list, i, "name"));
            isTrue(passes == valid, name);
            // Never both kinds.
            isTrue(!valid || !inclusion || !this.excluded(root, coin, proof), name);
        }
    }

    function test_validProofs() public view {
        isTrue(proofs("valid", true) > 10, "vectors found");
    }

    function test_invalidProofs() public view {
        isTrue(proofs("invalid", false) > 10, "vectors found");
    }

    function test_deposits() public view {
        string memory json = read("deposits");
        uint256 i;
        for (; more(json, "deposits", i, "hash"); ++i) {
            IRootChain.Deposit memory d;
            d.owner = vm.parseJsonAddress(json, path("deposits", i, "owner"));
            d.assetKind = uint8(number(json, "deposits", i, "asset_kind"));
            d.token = vm.parseJsonAddress(json, path("deposits", i, "token"));
            d.tokenId = vm.parseJsonUint(json, path("deposits", i, "token_id"));
            d.value = vm.parseJsonUint(json, path("deposits", i, "value"));
            d.depositBlock = number(json, "deposits", i, "deposit_block");
            uint64 coin = number(json, "deposits", i, "coin");
            equal(
                PlasmaHash.depositHash(domain, coin, d),
                hash(json, "deposits", i, "hash"),
                "deposit hash"
            );
        }
        isTrue(i > 2, "vectors found");
    }

    function test_chainAndQueue() public view {
        string memory json = read("chain");
        bytes32 chain = vm.parseJsonBytes32(read("domain"), ".chain_hash_0");
        uint256 i;
        for (; more(json, "blocks", i, "root"); ++i) {
            chain = PlasmaHash.chainHash(
                chain, number(json, "blocks", i, "number"), hash(json, "blocks", i, "root")
            );
            equal(chain, hash(json, "blocks", i, "chain_hash"), "chain hash");
        }
        isTrue(i > 2, "blocks found");
        json = read("events");
        bytes32 queue;
        for (i = 0; more(json, "queue", i, "e"); ++i) {
            queue = PlasmaHash.eventHash(queue, vm.parseJsonBytes(json, path("queue", i, "e")));
            equal(queue, hash(json, "queue", i, "event_hash"), "event hash");
        }
        isTrue(i > 2, "events found");
        for (i = 0; more(json, "coin_events", i, "encoded"); ++i) {
            bytes memory e = abi.encode(
                uint8(number(json, "coin_events", i, "kind")),
                number(json, "coin_events", i, "coin")
            );
            bytes memory encoded = vm.parseJsonBytes(json, path("coin_events", i, "encoded"));
            equal(keccak256(e), keccak256(encoded), "coin event");
        }
        isTrue(i > 2, "coin events found");
    }

    function test_digests() public view {
        string memory json = read("digests");
        uint256 i;
        for (; more(json, "attestations", i, "digest"); ++i) {
            bytes32 digest = PlasmaHash.attestation(
                domain,
                number(json, "attestations", i, "block_number"),
                hash(json, "attestations", i, "chain_hash"),
                number(json, "attestations", i, "validator_set_id")
            );
            equal(digest, hash(json, "attestations", i, "digest"), "attestation");
        }
        isTrue(i > 0, "attestations found");
        for (i = 0; more(json, "authorizations", i, "digest"); ++i) {
            bytes32 digest = PlasmaHash.authorization(
                domain,
                number(json, "authorizations", i, "coin"),
                hash(json, "authorizations", i, "state_hash"),
                number(json, "authorizations", i, "not_after")
            );
            equal(digest, hash(json, "authorizations", i, "digest"), "authorization");
        }
        isTrue(i > 0, "authorizations found");
    }

    function check(
        bytes32 digest,
        bytes calldata set,
        bytes calldata bitmap,
        bytes calldata signatures
    ) external pure {
        Certificate.check(digest, set, bitmap, signatures);
    }

    function test_certificates() public {
        string memory json = read("certificates");
        bytes memory set = vm.parseJsonBytes(json, ".set");
        uint64 setId = uint64(vm.parseJsonUint(json, ".set_id"));
        equal(
            keccak256(abi.encodePacked(setId, set)),
            vm.parseJsonBytes32(json, ".set_hash"),
            "set hash"
        );
        bytes32 digest = vm.parseJsonBytes32(json, ".digest");
        uint256 i;
        for (; more(json, "certificates", i, "bitmap"); ++i) {
            string memory name_ = vm.parseJsonString(json, path("certificates", i, "error"));
            bytes memory bitmap = vm.parseJsonBytes(json, path("certificates", i, "bitmap"));
            bytes memory signatures =
                vm.parseJsonBytes(json, path("certificates", i, "signatures"));
            if (bytes(name_).length > 0) {
                vm.expectRevert(bytes4(keccak256(bytes(string.concat(name_, "()")))));
            }
            this.check(digest, set, bitmap, signatures);
        }
        isTrue(i > 2, "certificates found");
    }
}
