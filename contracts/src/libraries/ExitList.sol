// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../interfaces/IRootChain.sol";

/// @title The open exits of one coin, a doubly linked list sorted by age, oldest first
/// @notice Id 0 is the sentinel: the head's predecessor and the tail's successor.
library ExitList {
    /// @notice `(parentBlock << 64) | blockNumber`; smaller is older. The parent's block decides:
    /// with the exiting transfer's own block an old attack pays a thief after three blocks.
    function age(IRootChain.Exit storage e) internal view returns (uint128) {
        return (uint128(e.parentBlock) << 64) | e.blockNumber;
    }

    /// @notice Links exit `id` at its place and returns the head. `hint` is an open, older exit;
    /// anything else counts as the head, so that removing the hinted exit cannot make an owner's
    /// call revert. Younger exits are never walked over.
    function insert(
        mapping(uint64 => IRootChain.Exit) storage exits,
        uint64 head,
        uint64 id,
        uint64 hint
    ) internal returns (uint64) {
        uint128 own = age(exits[id]);
        uint64 before;
        IRootChain.Exit storage hinted = exits[hint];
        if (hinted.state == IRootChain.ExitState.Open && hint != id && age(hinted) < own) {
            before = hint;
        }
        uint64 next = before == 0 ? head : exits[before].next;
        while (next != 0 && age(exits[next]) < own) {
            before = next;
            next = exits[next].next;
        }
        exits[id].prev = before;
        exits[id].next = next;
        if (next != 0) exits[next].prev = id;
        if (before == 0) return id;
        exits[before].next = id;
        return head;
    }

    /// @notice Unlinks exit `id` and returns the head.
    function remove(
        mapping(uint64 => IRootChain.Exit) storage exits,
        uint64 head,
        uint64 id
    ) internal returns (uint64) {
        (uint64 prev, uint64 next) = (exits[id].prev, exits[id].next);
        if (next != 0) exits[next].prev = prev;
        if (prev == 0) return next;
        exits[prev].next = next;
        return head;
    }
}
