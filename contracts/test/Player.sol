// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IRootChain} from "../src/interfaces/IRootChain.sol";
import {CompactSmt} from "../src/libraries/CompactSmt.sol";
import {PlasmaHash} from "../src/libraries/PlasmaHash.sol";
import {TestERC1155, TestERC20, TestERC721} from "../src/test/TestTokens.sol";
import {Base} from "./Base.sol";

/// @title Four people and an operator who play with several coins, mostly by the rules
/// @notice Each function looks for a call that should pass, from a random start; one in eight is
/// altered. What must hold during a call is checked here, what must hold after it by the test.
contract Player is Base {
    uint256 private constant STRANGER = 0x666;
    uint256 private constant MOVES_MAX = 9;
    uint256 private constant WAYS = 7; // to deposit: each is used at the start
    uint256 private constant STEPS_PER_COIN = 50; // so that new coins come to the end
    uint256 private constant FINALIZE_GAS = 80_000;
    bytes private constant LONE = hex"00000000000000000000";

    /// @notice A transfer in a block; of the operator's making if it is not valid.
    struct Move {
        IRootChain.Included shown;
        bytes32 hash;
        uint256 parent; // index in moves + 1; 0: the deposit
        uint256 ownerKey;
        bool valid;
    }

    struct Track {
        CoinState origin;
        uint64 depositId;
        Move[] moves;
        uint64[] exits;
        uint64 holdUntil;
        uint256 payouts;
    }

    mapping(uint64 coin => Track) private tracks;
    mapping(bytes32 what => uint256) public passed;
    TestERC20 public erc20 = new TestERC20();
    TestERC721 public erc721 = new TestERC721();
    TestERC1155 public erc1155 = new TestERC1155();
    uint256[4] public people = [ALICE, BOB, CAROL, MALLORY];
    uint256 public bondsIn;
    uint256 public bondsOut;
    uint256 public events;
    uint256 public steps;
    /// @dev Of the order of the calls alone: forge's seed decides that, but not its arguments.
    bytes32 private entropy;

    constructor() {
        deploy(1);
        for (uint256 i; i < 4; ++i) {
            address who = vm.addr(people[i]);
            vm.deal(who, 1_000_000 ether);
            vm.prank(who);
            erc20.approve(address(chain), type(uint256).max);
            vm.prank(who);
            erc721.setApprovalForAll(address(chain), true);
            vm.prank(who);
            erc1155.setApprovalForAll(address(chain), true);
        }
        for (uint256 way; way < WAYS; ++way) depositBy(way % 4, way, 1);
    }

    modifier step() {
        ++steps;
        entropy = keccak256(abi.encode(entropy, msg.sig));
        _;
    }

    // --- chance --------------------------------------------------------------------------------

    function chance(uint256 below) private returns (uint256) {
        entropy = keccak256(abi.encode(entropy));
        return uint256(entropy) % below;
    }

    function anyCoin() private returns (uint64) {
        return uint64(1 + chance(chain.lastCoin()));
    }

    /// @notice Mostly a coin that is still in play, if there is one.
    function liveCoin() private returns (uint64 coin) {
        coin = anyCoin();
        if (chance(16) == 0) return coin;
        uint64 last = chain.lastCoin();
        for (uint64 i; i < last; ++i) {
            (IRootChain.Status s,,,) = chain.coins(coin);
            if (s == IRootChain.Status.Active) return coin;
            coin = coin % last + 1;
        }
    }

    function someone() private returns (uint256) {
        return people[chance(4)];
    }

    function call(bytes32 what, address from, uint256 value, bytes memory data)
        private
        returns (bool ok)
    {
        vm.prank(from);
        uint256 gas = gasleft();
        (ok,) = address(chain).call{value: value}(data);
        gas -= gasleft();
        isTrue(what != "finalizeExit" || gas < FINALIZE_GAS, "finalize is O(1)");
        if (ok) ++passed[what];
        uint64 last = chain.lastCoin();
        for (uint64 coin = 1; coin <= last; ++coin) noteHold(coin);
    }

    function noteHold(uint64 coin) private {
        (IRootChain.Status s,, uint64 hold,) = chain.coins(coin);
        Track storage t = tracks[coin];
        isTrue(hold >= t.holdUntil, "a hold only grows");
        isTrue(s == IRootChain.Status.Active || hold == t.holdUntil, "no hold after the end");
        t.holdUntil = hold;
    }

    // --- deposits, blocks, time ----------------------------------------------------------------

    function makeDeposit() public step {
        if (chain.lastCoin() >= WAYS + steps / STEPS_PER_COIN) return;
        depositBy(chance(4), chance(WAYS), uint16(1 + chance(3)));
    }

    /// @notice A deposit of one of the `people`, in one of the `WAYS`.
    function depositBy(uint256 person, uint256 way, uint16 count) private {
        uint64 first = chain.lastCoin() + 1;
        address who = vm.addr(people[person]);
        if (way < 3) depositFungible(way, who, count);
        else if (way < 5) depositOne(way, who, first);
        else depositErc1155(way, who, count);
        if (way == 3 || way == 4) count = 1;
        ++events;
        uint64 id = chain.lastDeposit();
        IRootChain.Deposit memory d = chain.deposits(id);
        for (uint64 coin = first; coin < first + count; ++coin) {
            bytes32 hash = PlasmaHash.depositHash(domain, coin, d);
            tracks[coin].origin = CoinState(coin, d.depositBlock, hash, people[person]);
            tracks[coin].depositId = id;
        }
        equal(chain.lastCoin() + 1, first + count, "coins");
    }

    function depositFungible(uint256 way, address who, uint16 count) private {
        if (way == 0) {
            bytes memory eth = abi.encodeCall(chain.depositETH, (1 ether, count));
            isTrue(call("depositETH", who, count * 1 ether, eth), "ether");
            return;
        }
        erc20.mint(who, 5 * uint256(count));
        address token = address(erc20);
        if (way == 1) {
            bytes memory data = abi.encodeCall(chain.depositERC20, (token, 5, count));
            isTrue(call("depositERC20", who, 0, data), "ERC-20");
        } else {
            // The permit fails, but the allowance is there.
            bytes memory data =
                abi.encodeCall(chain.depositERC20WithPermit, (token, 5, count, 0, 0, 0, 0));
            isTrue(call("depositERC20WithPermit", who, 0, data), "permit");
        }
    }

    function depositOne(uint256 way, address who, uint256 id) private {
        erc721.mint(who, id);
        if (way == 3) {
            bytes memory data = abi.encodeCall(chain.depositERC721, (address(erc721), id));
            isTrue(call("depositERC721", who, 0, data), "ERC-721");
        } else {
            vm.prank(who);
            erc721.safeTransferFrom(who, address(chain), id);
        }
    }

    function depositErc1155(uint256 way, address who, uint16 count) private {
        uint256 sum = 7 * uint256(count);
        erc1155.mint(who, 1, sum);
        if (way == 5) {
            bytes memory data =
                abi.encodeCall(chain.depositERC1155, (address(erc1155), 1, 7, count));
            isTrue(call("depositERC1155", who, 0, data), "ERC-1155");
        } else {
            vm.prank(who);
            erc1155.safeTransferFrom(who, address(chain), 1, sum, abi.encode(who, count));
        }
    }

    function wait() public step {
        vm.warp(block.timestamp + 1 + chance(3 days));
    }

    /// @notice A block with a transfer of a coin: valid, forged, expired, or a replay.
    function move() public step {
        uint64 coin = liveCoin();
        Track storage t = tracks[coin];
        uint256 count = t.moves.length;
        if (count >= MOVES_MAX) return;
        uint256 kind = chance(10);
        // The newest state is spent, or its parent once more, or any; of a replay the replay.
        uint256 which = chance(3);
        uint256 from = which == 0 ? chance(count + 1) : count;
        if (which == 1 && count > 0) from = t.moves[count - 1].parent;
        if (kind > 7 && count > 0) {
            Move memory again = t.moves[chance(count)];
            place(again.shown.transfer, again);
            from = count + 1;
        }
        CoinState memory s = from == 0 ? t.origin : stateOf(t.moves[from - 1]);
        uint64 until = kind == 1 ? chain.lastBlock() : type(uint64).max;
        uint256 to = someone();
        Move memory m;
        m.parent = from;
        m.ownerKey = to;
        m.valid = kind != 1 && kind != 2 && (from == 0 || t.moves[from - 1].valid);
        IRootChain.Transfer memory transfer = transferOf(s, to, until);
        m.hash = PlasmaHash.transferHash(domain, transfer);
        m.shown.signature = compact(kind == 2 ? STRANGER : s.ownerKey, m.hash);
        place(transfer, m);
    }

    function place(IRootChain.Transfer memory transfer, Move memory m) private {
        m.shown.transfer = transfer;
        m.shown.proof = LONE;
        m.shown.blockNumber = submitRoot(CompactSmt.leaf(transfer.coin, m.hash));
        tracks[transfer.coin].moves.push(m);
        ++passed["submitBlocks"];
    }

    function stateOf(Move memory m) private pure returns (CoinState memory) {
        return CoinState(m.shown.transfer.coin, m.shown.blockNumber, m.hash, m.ownerKey);
    }

    // --- exits ---------------------------------------------------------------------------------

    function startDeposit() public step {
        startOf(liveCoin(), 0);
    }

    function start() public step {
        uint64 coin = liveCoin();
        Track storage t = tracks[coin];
        uint256 count = t.moves.length;
        if (count == 0) return;
        uint256 first = chance(count);
        // A move that was not exited yet, and is valid; or any.
        for (uint256 i; i < count; ++i) {
            uint256 index = (first + i) % count;
            Move storage m = t.moves[index];
            if ((m.valid && !isUsed(t, m)) || chance(8) == 0) {
                startOf(coin, index + 1);
                return;
            }
        }
    }

    function startOf(uint64 coin, uint256 state) private {
        (IRootChain.ExitRequest memory r, CoinState memory s) = request(coin, state);
        address from = vm.addr(s.ownerKey);
        if (chance(4) == 0) (from, r.auth) = (vm.addr(someone()), tower(s));
        bool ok;
        if (state == 0) {
            bytes memory data =
                abi.encodeCall(chain.startDepositExit, (coin, r.depositId, r.auth, r.hint));
            ok = call("startDepositExit", from, bondOf(), data);
        } else {
            bytes memory data = abi.encodeCall(
                chain.startExit, (coin, r.depositId, r.parent, r.transfer, r.auth, r.hint)
            );
            ok = call("startExit", from, bondOf(), data);
        }
        if (ok) started(coin, state, chain.lastExit());
    }

    /// @notice Two exits by a watchtower, of the same coin or not: both or none.
    function startMany() public step {
        IRootChain.ExitRequest[] memory two = new IRootChain.ExitRequest[](2);
        uint256[2] memory state;
        for (uint256 i; i < 2; ++i) {
            uint64 coin = liveCoin();
            state[i] = chance(tracks[coin].moves.length + 1);
            CoinState memory s;
            (two[i], s) = request(coin, state[i]);
            two[i].auth = tower(s);
        }
        bytes memory data = abi.encodeCall(chain.startExits, (two));
        if (!call("startExits", vm.addr(someone()), 2 * bondOf(), data)) return;
        started(two[0].coin, state[0], chain.lastExit() - 1);
        started(two[1].coin, state[1], chain.lastExit());
    }

    /// @notice Of the deposit (0), or of a move (its index + 1); and the state that exits.
    function request(uint64 coin, uint256 state)
        private
        returns (IRootChain.ExitRequest memory r, CoinState memory s)
    {
        Track storage t = tracks[coin];
        r.coin = coin;
        r.depositId = t.depositId;
        r.hint = uint64(chance(chain.lastExit() + 1));
        if (state == 0) return (r, t.origin);
        Move storage m = t.moves[state - 1];
        if (m.parent != 0) r.parent = t.moves[m.parent - 1].shown;
        r.transfer = m.shown;
        s = stateOf(m);
    }

    function isUsed(Track storage t, Move storage m) private view returns (bool) {
        return chain.used(keyOf(m.shown.transfer.coin, parentBlock(t, m), m.shown.blockNumber));
    }

    function keyOf(uint64 coin, uint64 p, uint64 k) public pure returns (bytes32) {
        return keccak256(abi.encodePacked(coin, p, k));
    }

    function parentBlock(Track storage t, Move storage m) private view returns (uint64) {
        return m.parent == 0 ? t.origin.blockNumber : t.moves[m.parent - 1].shown.blockNumber;
    }

    function tower(CoinState memory s)
        private
        returns (IRootChain.Authorization memory)
    {
        uint64 until = uint64(block.timestamp);
        if (chance(8) == 0) --until;
        bytes32 digest = PlasmaHash.authorization(domain, s.coin, s.hash, until);
        return IRootChain.Authorization(until, compact(s.ownerKey, digest));
    }

    function bondOf() private returns (uint256) {
        return chance(8) == 0 ? BOND - 1 : BOND;
    }

    function started(uint64 coin, uint256 state, uint64 id) private {
        Track storage t = tracks[coin];
        // Of an invalid parent valid children are made, and may be exited until they are spent.
        bool fair = state == 0 || t.moves[state - 1].valid || t.moves[state - 1].parent != 0;
        isTrue(fair, "forged, expired or of nothing");
        t.exits.push(id);
        bondsIn += BOND;
        ++events;
    }

    // --- challenges ----------------------------------------------------------------------------

    function spent() public step {
        uint64 last = chain.lastCoin();
        uint64 coin = anyCoin();
        for (uint64 i; i < last && !spentOf(coin); ++i) coin = coin % last + 1;
    }

    function spentOf(uint64 coin) private returns (bool) {
        Track storage t = tracks[coin];
        for (uint256 i; i < t.exits.length; ++i) {
            uint64 id = t.exits[i];
            IRootChain.Exit memory e = chain.exits(coin, id);
            if (e.state != IRootChain.ExitState.Open && chance(64) != 0) continue;
            uint64 k = e.blockNumber == 0 ? e.parentBlock : e.blockNumber;
            for (uint256 j; j < t.moves.length; ++j) {
                IRootChain.Included storage m = t.moves[j].shown;
                if (m.transfer.prevHash != e.transferHash && chance(64) != 0) continue;
                uint64 further = m.transfer.prevBlock == k ? 0 : m.transfer.prevBlock;
                bytes memory data =
                    abi.encodeCall(chain.challengeSpent, (coin, id, m, further, LONE));
                bytes32 what = further == 0 ? bytes32("challengeSpent") : bytes32("by inclusion");
                if (challenged(coin, what, data)) return true;
            }
        }
        return false;
    }

    function doubleSpent() public step {
        uint64 last = chain.lastCoin();
        uint64 coin = anyCoin();
        for (uint64 i; i < last && !doubleSpentOf(coin); ++i) coin = coin % last + 1;
    }

    function doubleSpentOf(uint64 coin) private returns (bool) {
        Track storage t = tracks[coin];
        for (uint256 i; i < t.exits.length; ++i) {
            uint64 id = t.exits[i];
            IRootChain.Exit memory e = chain.exits(coin, id);
            if (e.state != IRootChain.ExitState.Open && chance(64) != 0) continue;
            for (uint256 j; j < t.moves.length; ++j) {
                IRootChain.Included storage m = t.moves[j].shown;
                if (m.transfer.prevHash != e.parentHash && chance(64) != 0) continue;
                bytes memory data = abi.encodeCall(chain.challengeDoubleSpend, (coin, id, m));
                if (challenged(coin, "challengeDoubleSpend", data)) return true;
            }
        }
        return false;
    }

    function challenged(uint64 coin, bytes32 what, bytes memory data)
        private
        returns (bool ok)
    {
        ok = call(what, vm.addr(someone()), 0, data);
        if (ok && thawed(coin)) ++events;
    }

    function thawed(uint64 coin) private view returns (bool) {
        (,,, uint64 head) = chain.coins(coin);
        return head == 0;
    }

    // --- endings -------------------------------------------------------------------------------

    /// @notice Whether the oldest exit may win now, by the exits themselves and not by the list.
    function ripe(uint64 coin) private view returns (bool) {
        (IRootChain.Status s,, uint64 hold,) = chain.coins(coin);
        if (s != IRootChain.Status.Active || block.timestamp <= hold) return false;
        (uint64 id, IRootChain.Exit memory e) = oldest(coin);
        return id != 0 && block.timestamp > e.openedAt + EXIT_PERIOD;
    }

    function oldest(uint64 coin) private view returns (uint64 id, IRootChain.Exit memory found) {
        uint64[] storage ids = tracks[coin].exits;
        for (uint256 i; i < ids.length; ++i) {
            IRootChain.Exit memory e = chain.exits(coin, ids[i]);
            if (e.state != IRootChain.ExitState.Open) continue;
            if (id == 0 || ageOf(e) < ageOf(found)) (id, found) = (ids[i], e);
        }
    }

    function ageOf(IRootChain.Exit memory e) public pure returns (uint256) {
        return (uint256(e.parentBlock) << 64) | e.blockNumber;
    }

    function finalize() public step {
        uint64 last = chain.lastCoin();
        uint64 coin = anyCoin();
        bool ok;
        for (uint64 i; i < last && !ok; ++i) {
            coin = coin % last + 1;
            (uint64 winner,) = oldest(coin);
            bool should = ripe(coin);
            bytes memory data = abi.encodeCall(chain.finalizeExit, (coin));
            ok = call("finalizeExit", address(this), 0, data);
            isTrue(ok == should, "finalized exactly when ripe");
            if (ok) won(coin, winner);
        }
    }

    function won(uint64 coin, uint64 winner) private {
        ++events;
        (IRootChain.Status s,,, uint64 head) = chain.coins(coin);
        isTrue(s == IRootChain.Status.Exited, "exited");
        equal(head, winner, "the oldest wins");
        isTrue(chain.exits(coin, winner).state == IRootChain.ExitState.Won, "won");
    }

    function finalizeAll() public step {
        uint64 last = chain.lastCoin();
        uint64[] memory all = new uint64[](last + 1);
        uint64[] memory winners = new uint64[](last + 1);
        bool[] memory should = new bool[](last + 1);
        bool any;
        for (uint64 coin = 1; coin <= last; ++coin) {
            all[coin] = coin; // and coin 0, which is none
            should[coin] = ripe(coin);
            any = any || should[coin];
            (winners[coin],) = oldest(coin);
        }
        bytes32 what = any ? bytes32("finalizeExits") : bytes32("nothing to finalize");
        call(what, address(this), 0, abi.encodeCall(chain.finalizeExits, (all)));
        for (uint64 coin = 1; coin <= last; ++coin) {
            if (should[coin]) won(coin, winners[coin]);
        }
    }

    function sweep() public step {
        uint64 last = chain.lastCoin();
        uint64 coin = anyCoin();
        for (uint64 i; i < last; ++i) {
            coin = coin % last + 1;
            (IRootChain.Status s,,,) = chain.coins(coin);
            if (s == IRootChain.Status.Active && chance(64) != 0) continue;
            (uint64 id,) = oldest(coin);
            if (id == 0) continue;
            bytes memory data = abi.encodeCall(chain.sweepExit, (coin, id));
            if (call("sweepExit", address(this), 0, data)) return;
        }
    }

    function cancel() public step {
        if (chance(4) != 0) return; // else few exits are left to win
        uint64 last = chain.lastCoin();
        uint64 coin = anyCoin();
        for (uint64 i; i < last; ++i) {
            coin = coin % last + 1;
            (uint64 id, IRootChain.Exit memory e) = oldest(coin);
            if (id == 0 || ((e.next != 0 || e.prev != 0) && chance(8) != 0)) continue;
            address from = chance(2) == 0 ? e.beneficiary : e.payer;
            bytes memory data = abi.encodeCall(chain.cancelExit, (coin, id));
            if (!call("cancelExit", from, 0, data)) continue;
            isTrue(thawed(coin), "the only exit");
            ++events;
            isTrue(!chain.used(keyOf(coin, e.parentBlock, e.blockNumber)), "free again");
            return;
        }
    }

    function withdraw() public step {
        uint64 last = chain.lastCoin();
        uint64 coin = anyCoin();
        for (uint64 i; i < last; ++i) {
            coin = coin % last + 1;
            (IRootChain.Status s,,,) = chain.coins(coin);
            if (s == IRootChain.Status.Active && chance(64) != 0) continue;
            if (withdrawOf(coin)) return;
        }
    }

    function withdrawOf(uint64 coin) private returns (bool ok) {
        (,,, uint64 head) = chain.coins(coin);
        address owner = chain.exits(coin, head).beneficiary;
        address from = chance(8) == 0 ? vm.addr(someone()) : owner;
        address to = vm.addr(someone());
        uint256 before = holding(to, coin);
        uint64[] memory one = new uint64[](1);
        one[0] = coin;
        ok = chance(2) == 0
            ? call("withdraw", from, 0, abi.encodeCall(chain.withdraw, (coin, to)))
            : call("withdrawMany", from, 0, abi.encodeCall(chain.withdrawMany, (one, to)));
        if (!ok) return false;
        ++tracks[coin].payouts;
        equal(from, owner, "only the winner's beneficiary");
        IRootChain.Deposit memory d = chain.deposits(tracks[coin].depositId);
        equal(holding(to, coin) - before, d.value, "its value is paid");
    }

    /// @notice What `who` has of the asset of a coin.
    function holding(address who, uint64 coin) public view returns (uint256) {
        IRootChain.Deposit memory d = chain.deposits(tracks[coin].depositId);
        if (d.assetKind == 1) return who.balance;
        if (d.assetKind == 2) return erc20.balanceOf(who);
        if (d.assetKind == 3) return erc721.ownerOf(d.tokenId) == who ? 1 : 0;
        return erc1155.balanceOf(who, d.tokenId);
    }

    function withdrawCredits() public step {
        address from = vm.addr(someone());
        address to = vm.addr(someone());
        uint256 sum = chain.credits(from);
        uint256 before = to.balance;
        bytes memory data = abi.encodeCall(chain.withdrawCredits, (to));
        bool ok = call("withdrawCredits", from, 0, data);
        isTrue(ok == (sum > 0), "credits are paid whenever there are any");
        equal(to.balance - before, sum, "exactly");
        bondsOut += sum;
    }

    // --- views ---------------------------------------------------------------------------------

    function rootChain() external view returns (IRootChain) {
        return chain;
    }

    function exitsOf(uint64 coin) external view returns (uint64[] memory) {
        return tracks[coin].exits;
    }

    function payouts(uint64 coin) external view returns (uint256) {
        return tracks[coin].payouts;
    }

    function depositOf(uint64 coin) external view returns (IRootChain.Deposit memory) {
        return chain.deposits(tracks[coin].depositId);
    }
}
