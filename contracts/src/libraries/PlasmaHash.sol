// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../interfaces/IRootChain.sol";

/// @title The EIP-712 digests and chained hashes of the protocol
library PlasmaHash {
    bytes32 internal constant DOMAIN_TYPE = keccak256(
        "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
    );
    bytes32 internal constant DEPOSIT_TYPE = keccak256(
        "Deposit(uint64 coin,address owner,uint8 assetKind,address token,"
        "uint256 tokenId,uint256 value,uint64 depositBlock)"
    );
    bytes32 internal constant TRANSFER_TYPE = keccak256(
        "Transfer(uint64 coin,uint64 prevBlock,bytes32 prevHash,address newOwner,uint64 maxBlock)"
    );
    bytes32 internal constant ATTESTATION_TYPE =
        keccak256("RootAttestation(uint64 blockNumber,bytes32 chainHash,uint64 validatorSetId)");
    bytes32 internal constant AUTHORIZATION_TYPE =
        keccak256("ExitAuthorization(uint64 coin,bytes32 stateHash,uint64 notAfter)");

    function domainSeparator(uint256 chainId, address rootChain) internal pure returns (bytes32) {
        return keccak256(
            abi.encode(DOMAIN_TYPE, keccak256("Plasma Cash"), keccak256("1"), chainId, rootChain)
        );
    }

    function digest(bytes32 domain, bytes32 structHash) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(hex"1901", domain, structHash));
    }

    function depositHash(bytes32 domain, uint64 coin, IRootChain.Deposit memory d)
        internal
        pure
        returns (bytes32)
    {
        return digest(
            domain,
            keccak256(
                abi.encode(
                    DEPOSIT_TYPE,
                    coin,
                    d.owner,
                    d.assetKind,
                    d.token,
                    d.tokenId,
                    d.value,
                    d.depositBlock
                )
            )
        );
    }

    function transferHash(bytes32 domain, IRootChain.Transfer memory t)
        internal
        pure
        returns (bytes32)
    {
        return digest(
            domain,
            keccak256(
                abi.encode(TRANSFER_TYPE, t.coin, t.prevBlock, t.prevHash, t.newOwner, t.maxBlock)
            )
        );
    }

    function attestation(bytes32 domain, uint64 number, bytes32 chainHash_, uint64 setId)
        internal
        pure
        returns (bytes32)
    {
        return digest(domain, keccak256(abi.encode(ATTESTATION_TYPE, number, chainHash_, setId)));
    }

    function authorization(bytes32 domain, uint64 coin, bytes32 stateHash, uint64 notAfter)
        internal
        pure
        returns (bytes32)
    {
        return digest(domain, keccak256(abi.encode(AUTHORIZATION_TYPE, coin, stateHash, notAfter)));
    }

    function chainHash(bytes32 previous, uint64 number, bytes32 root)
        internal
        pure
        returns (bytes32)
    {
        return keccak256(abi.encodePacked(previous, number, root));
    }

    function eventHash(bytes32 previous, bytes memory e) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(previous, keccak256(e)));
    }
}
