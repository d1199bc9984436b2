// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {ERC1155} from "@openzeppelin/contracts/token/ERC1155/ERC1155.sol";
import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";
import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";

/// @title Tokens of the devnet and the tests: anybody mints
contract TestERC20 is ERC20Permit {
    constructor() ERC20("Test Token", "TST") ERC20Permit("Test Token") {}

    function mint(address to, uint256 value) external {
        _mint(to, value);
    }
}

contract TestERC721 is ERC721 {
    constructor() ERC721("Test NFT", "TNFT") {}

    function mint(address to, uint256 id) external {
        _mint(to, id);
    }
}

contract TestERC1155 is ERC1155 {
    constructor() ERC1155("") {}

    function mint(address to, uint256 id, uint256 value) external {
        _mint(to, id, value, "");
    }
}
