// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {Certificate} from "../src/libraries/Certificate.sol";
import {CompactSignature} from "../src/libraries/CompactSignature.sol";
import {CompactSmt} from "../src/libraries/CompactSmt.sol";
import {PlasmaHash} from "../src/libraries/PlasmaHash.sol";
import {Test} from "./Vm.sol";

/// @title The libraries agree with the vectors that the Rust core made
contract VectorsTest is Test {
    string private json;
    bytes32 private domain;

    function setUp() external {
        load("domain");
        domain = b32("", "separator");
    }

    // Calldata entrances of the libraries.
    function included(bytes32 root, uint64 coin, bytes32 hash, bytes calldata proof)
        external
        pure
        returns (bool)
    {
        return CompactSmt.included(root, coin, hash, proof);
    }

    function excluded(bytes32 root, uint64 coin, bytes calldata proof)
        external
        pure
        returns (bool)
    {
        return CompactSmt.excluded(root, coin, proof);
    }

    function recover(bytes32 digest, bytes calldata signature) external pure returns (address) {
        return CompactSignature.recover(digest, signature);
    }

    function certificate(bytes32 digest, bytes calldata set, bytes calldata b, bytes calldata s)
        external
        pure
    {
        Certificate.check(digest, set, b, s);
    }

    function testDomain() external {
        load("domain");
        eq(PlasmaHash.domainSeparator(num("", "chain_id"), adr("", "root_chain")), domain);
        eq(keccak256(abi.encodePacked(domain)), b32("", "chain_hash_0"));
    }

    function testDeposits() external {
        load("deposits");
        uint256 i;
        for (string memory p; has(p = item("deposits", i)); ++i) {
            IRootChain.Deposit memory d;
            d.owner = adr(p, "owner");
            d.assetKind = uint8(num(p, "asset_kind"));
            d.token = adr(p, "token");
            d.tokenId = num(p, "token_id");
            d.value = num(p, "value");
            d.depositBlock = uint64(num(p, "deposit_block"));
            eq(PlasmaHash.depositHash(domain, uint64(num(p, "coin")), d), b32(p, "hash"));
        }
        check(i > 0, "no deposits");
    }

    function testTransfers() external {
        load("transfers");
        uint256 i;
        for (string memory p; has(p = item("transfers", i)); ++i) {
            bytes32 digest = PlasmaHash.transferHash(
                domain,
                IRootChain.Transfer(
                    uint64(num(p, "coin")),
                    uint64(num(p, "prev_block")),
                    b32(p, "prev_hash"),
                    adr(p, "new_owner"),
                    uint64(num(p, "max_block"))
                )
            );
            eq(digest, b32(p, "digest"));
            eq(this.recover(digest, raw(p, "signature")), adr(p, "signer"));
        }
        check(i > 0, "no transfers");
    }

    function testSignatures() external {
        load("signatures");
        uint256 i;
        for (string memory p; has(p = item("signatures", i)); ++i) {
            address signer = this.recover(b32(p, "digest"), raw(p, "signature"));
            eq(signer, adr(p, "signer"));
            check((signer != address(0)) == flag(p, "valid"), "validity");
        }
        check(i > 0, "no signatures");
    }

    function testDigests() external {
        load("digests");
        uint256 i;
        for (string memory p; has(p = item("attestations", i)); ++i) {
            eq(
                PlasmaHash.attestation(
                    domain,
                    uint64(num(p, "block_number")),
                    b32(p, "chain_hash"),
                    uint64(num(p, "validator_set_id"))
                ),
                b32(p, "digest")
            );
        }
        check(i > 0, "no attestations");
        i = 0;
        for (string memory p; has(p = item("authorizations", i)); ++i) {
            eq(
                PlasmaHash.authorization(
                    domain,
                    uint64(num(p, "coin")),
                    b32(p, "state_hash"),
                    uint64(num(p, "not_after"))
                ),
                b32(p, "digest")
            );
        }
        check(i > 0, "no authorizations");
    }

    function testTree() external {
        load("tree");
        uint256 i;
        for (string memory p; has(p = item("leaves", i)); ++i) {
            eq(CompactSmt.leaf(uint64(num(p, "coin")), b32(p, "transfer_hash")), b32(p, "leaf"));
        }
        check(i > 0, "no leaves");
        i = 0;
        for (string memory p; has(p = item("nodes", i)); ++i) {
            eq(CompactSmt.node(b32(p, "left"), b32(p, "right")), b32(p, "node"));
        }
        check(i > 0, "no nodes");
    }

    function testValidProofs() external {
        proofs("valid", true);
    }

    function testInvalidProofs() external {
        proofs("invalid", false);
    }

    function proofs(string memory array, bool valid) private {
        load("proofs");
        uint256 i;
        for (string memory p; has(p = item(array, i)); ++i) {
            (bytes32 root, uint64 coin) = (b32(p, "root"), uint64(num(p, "coin")));
            bytes memory proof = raw(p, "proof");
            bool got = flag(p, "inclusion")
                ? this.included(root, coin, b32(p, "transfer_hash"), proof)
                : this.excluded(root, coin, proof);
            check(got == valid, string.concat(array, ": ", str(p, "name")));
        }
        check(i > 0, "no proofs");
    }

    function testChain() external {
        load("chain");
        bytes32 chain = keccak256(abi.encodePacked(domain));
        uint256 i;
        for (string memory p; has(p = item("blocks", i)); ++i) {
            chain = PlasmaHash.chainHash(chain, uint64(num(p, "number")), b32(p, "root"));
            eq(chain, b32(p, "chain_hash"));
        }
        check(i > 0, "no blocks");
    }

    function testEvents() external {
        load("events");
        bytes32 hash;
        uint256 i;
        for (string memory p; has(p = item("queue", i)); ++i) {
            hash = PlasmaHash.eventHash(hash, raw(p, "e"));
            eq(hash, b32(p, "event_hash"));
            eq(num(p, "n"), i + 1);
        }
        check(i > 0, "no queue");
        i = 0;
        for (string memory p; has(p = item("coin_events", i)); ++i) {
            bytes memory e = abi.encode(uint8(num(p, "kind")), uint64(num(p, "coin")));
            eq(keccak256(e), keccak256(raw(p, "encoded")));
        }
        check(i > 0, "no coin events");
    }

    function testCertificates() external {
        load("certificates");
        bytes memory set = raw("", "set");
        eq(keccak256(abi.encodePacked(uint64(num("", "set_id")), set)), b32("", "set_hash"));
        bytes32 digest = b32("", "digest");
        eq(
            PlasmaHash.attestation(
                domain, uint64(num("", "number")), b32("", "chain_hash"), uint64(num("", "set_id"))
            ),
            digest
        );
        uint256 i;
        for (string memory p; has(p = item("certificates", i)); ++i) {
            string memory name = str(p, "error");
            bytes memory want = bytes(name).length == 0
                ? bytes("")
                : abi.encodePacked(bytes4(keccak256(abi.encodePacked(name, "()"))));
            bytes memory got;
            try this.certificate(digest, set, raw(p, "bitmap"), raw(p, "signatures")) {}
            catch (bytes memory reason) {
                got = reason;
            }
            check(keccak256(got) == keccak256(want), str(p, "name"));
        }
        check(i > 0, "no certificates");
    }

    function load(string memory name) private {
        json = vm.readFile(string.concat("../src/core/vectors/", name, ".json"));
    }

    function item(string memory array, uint256 i) private pure returns (string memory) {
        return string.concat(".", array, "[", vm.toString(i), "]");
    }

    function has(string memory p) private view returns (bool) {
        return vm.keyExistsJson(json, p);
    }

    function key(string memory p, string memory k) private pure returns (string memory) {
        return string.concat(p, ".", k);
    }

    function num(string memory p, string memory k) private view returns (uint256) {
        return vm.parseJsonUint(json, key(p, k));
    }

    function adr(string memory p, string memory k) private view returns (address) {
        return vm.parseJsonAddress(json, key(p, k));
    }

    function b32(string memory p, string memory k) private view returns (bytes32) {
        return vm.parseJsonBytes32(json, key(p, k));
    }

    function raw(string memory p, string memory k) private view returns (bytes memory) {
        return vm.parseJsonBytes(json, key(p, k));
    }

    function str(string memory p, string memory k) private view returns (string memory) {
        return vm.parseJsonString(json, key(p, k));
    }

    function flag(string memory p, string memory k) private view returns (bool) {
        return vm.parseJsonBool(json, key(p, k));
    }
}
