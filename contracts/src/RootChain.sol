// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Permit.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {IERC721} from "@openzeppelin/contracts/token/ERC721/IERC721.sol";
import {IERC721Receiver} from "@openzeppelin/contracts/token/ERC721/IERC721Receiver.sol";
import {IERC1155} from "@openzeppelin/contracts/token/ERC1155/IERC1155.sol";
import {IERC1155Receiver} from "@openzeppelin/contracts/token/ERC1155/IERC1155Receiver.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";

import {IRootChain} from "./interfaces/IRootChain.sol";
import {Certificate} from "./libraries/Certificate.sol";
import {CompactSignature} from "./libraries/CompactSignature.sol";
import {CompactSmt} from "./libraries/CompactSmt.sol";
import {ExitList} from "./libraries/ExitList.sol";
import {PlasmaHash} from "./libraries/PlasmaHash.sol";

/// @title RootChain: see IRootChain for every function
/// @dev The checks of each function stand in the order of exit-game.md, which fixes the error that
/// a call gets. State changes precede external calls, payments are pulled, every state-changing
/// function is guarded against re-entrancy.
contract RootChain is IRootChain, IERC721Receiver, IERC1155Receiver, ReentrancyGuardTransient {
    using SafeERC20 for IERC20;

    uint8 private constant ETH = 1;
    uint8 private constant ERC20 = 2;
    uint8 private constant ERC721 = 3;
    uint8 private constant ERC1155 = 4;

    uint8 private constant KIND_DEPOSITED = 1;
    uint8 private constant KIND_EXIT_STARTED = 2;
    uint8 private constant KIND_THAWED = 3;
    uint8 private constant KIND_EXIT_FINALIZED = 4;

    uint16 private constant DEPOSIT_COINS_MAX = 1_000;
    uint256 private constant ROOTS_MAX = 512;
    uint64 private constant VALIDATOR_SET_ID = 1;

    bytes32 public immutable domainSeparator;
    bytes32 public immutable validatorSetHash;
    /// @notice Seconds that an exit stays open (Wc).
    uint64 public immutable exitPeriod;
    /// @notice Seconds that a coin is held after its oldest exit was refuted (Wx).
    uint64 public immutable holdPeriod;
    /// @notice Wei that an exit puts up.
    uint96 public immutable bond;
    /// @notice Share of a lost bond that is burned, in 1/10,000.
    uint16 public immutable burnBps;

    /// @notice Number of the last plasma block stored, and the chain hash after it.
    uint64 public lastBlock;
    bytes32 public chainHash;
    /// @notice Root of each plasma block; zero: not stored.
    mapping(uint64 blockNumber => bytes32) public roots;

    /// @notice Length and hash of the queue of events that the child chain reads.
    uint64 public eventCount;
    bytes32 public eventHash;

    uint64 public lastDeposit;
    uint64 public lastCoin;
    uint64 public lastExit;
    /// @notice Wei burned; they stay here for ever.
    uint256 public burned;
    /// @notice Bonds and rewards to pull.
    mapping(address account => uint256) public credits;

    struct Coin {
        Status status;
        uint64 depositId;
        uint64 holdUntil;
        uint64 head; // the oldest open exit; the winner once finalized
    }

    /// @dev A state that is spent: of a deposit the deposit block, its hash and owner.
    struct State {
        uint64 blockNumber;
        bytes32 hash;
        address owner;
    }

    mapping(uint64 depositId => Deposit) private _deposits;
    mapping(uint64 coin => Coin) public coins;
    mapping(uint64 coin => mapping(uint64 exitId => Exit)) private _exits;
    /// @notice `keccak(coin:8 || parentBlock:8 || block:8)` of every exit that was not cancelled.
    mapping(bytes32 key => bool) public used;

    constructor(
        bytes32 validatorSetHash_,
        uint64 exitPeriod_,
        uint64 holdPeriod_,
        uint96 bond_,
        uint16 burnBps_
    ) {
        if (validatorSetHash_ == 0 || holdPeriod_ > exitPeriod_ || burnBps_ > 10_000) {
            revert BadParameters();
        }
        validatorSetHash = validatorSetHash_;
        exitPeriod = exitPeriod_;
        holdPeriod = holdPeriod_;
        bond = bond_;
        burnBps = burnBps_;
        domainSeparator = PlasmaHash.domainSeparator(block.chainid, address(this));
        chainHash = keccak256(abi.encodePacked(domainSeparator));
    }

    // --- deposits ------------------------------------------------------------------------------

    function depositETH(uint256 value, uint16 count)
        external
        payable
        nonReentrant
        returns (uint64)
    {
        return _deposit(msg.sender, ETH, address(0), 0, value, count, msg.value);
    }

    function depositERC20(address token, uint256 value, uint16 count)
        external
        nonReentrant
        returns (uint64)
    {
        return _depositERC20(token, value, count);
    }

    function depositERC20WithPermit(
        address token,
        uint256 value,
        uint16 count,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external nonReentrant returns (uint64) {
        uint256 sum = _sum(value, count);
        // Ignored if it fails: somebody may have used the permit before, and the allowance is
        // there. A low-level call, because a token without code would revert the typed one.
        (bool ok,) = token.call(
            abi.encodeCall(
                IERC20Permit.permit, (msg.sender, address(this), sum, deadline, v, r, s)
            )
        );
        ok;
        return _depositERC20(token, value, count);
    }

    function depositERC721(address token, uint256 id) external nonReentrant returns (uint64) {
        IERC721(token).transferFrom(msg.sender, address(this), id);
        if (IERC721(token).ownerOf(id) != address(this)) revert WrongAmount();
        return _deposit(msg.sender, ERC721, token, id, 1, 1, 1);
    }

    function depositERC1155(address token, uint256 id, uint256 value, uint16 count)
        external
        nonReentrant
        returns (uint64)
    {
        uint256 sum = _sum(value, count);
        uint256 before = IERC1155(token).balanceOf(address(this), id);
        IERC1155(token).safeTransferFrom(msg.sender, address(this), id, sum, "");
        uint256 received = _difference(IERC1155(token).balanceOf(address(this), id), before);
        return _deposit(msg.sender, ERC1155, token, id, value, count, received);
    }

    function onERC721Received(address operator, address from, uint256 id, bytes calldata data)
        external
        returns (bytes4)
    {
        if (operator != address(this)) _hook721(from, id, data);
        return IERC721Receiver.onERC721Received.selector;
    }

    function onERC1155Received(
        address operator,
        address from,
        uint256 id,
        uint256 value,
        bytes calldata data
    ) external returns (bytes4) {
        if (operator != address(this)) _hook1155(from, id, value, data);
        return IERC1155Receiver.onERC1155Received.selector;
    }

    function onERC1155BatchReceived(
        address,
        address,
        uint256[] calldata,
        uint256[] calldata,
        bytes calldata
    ) external pure returns (bytes4) {
        revert BatchRefused();
    }

    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == type(IERC165).interfaceId || id == type(IERC1155Receiver).interfaceId
            || id == type(IERC721Receiver).interfaceId;
    }

    function _hook721(address from, uint256 id, bytes calldata data) private nonReentrant {
        (address owner, uint16 count) = _hookData(from, data);
        if (count != 1) revert BadCount();
        if (IERC721(msg.sender).ownerOf(id) != address(this)) revert WrongAmount();
        _deposit(owner, ERC721, msg.sender, id, 1, 1, 1);
    }

    function _hook1155(address from, uint256 id, uint256 received, bytes calldata data)
        private
        nonReentrant
    {
        (address owner, uint16 count) = _hookData(from, data);
        if (count == 0) revert BadCount();
        _deposit(owner, ERC1155, msg.sender, id, received / count, count, received);
    }

    /// @dev Empty: `from` and one coin; else `abi.encode(address owner, uint16 count)`.
    function _hookData(address from, bytes calldata data)
        private
        pure
        returns (address, uint16)
    {
        if (data.length == 0) return (from, 1);
        if (data.length != 64) revert BadHookData();
        uint256 owner = uint256(bytes32(data[:32]));
        uint256 count = uint256(bytes32(data[32:]));
        if (owner > type(uint160).max || count > type(uint16).max) revert BadHookData();
        return (address(uint160(owner)), uint16(count));
    }

    function _depositERC20(address token, uint256 value, uint16 count) private returns (uint64) {
        uint256 sum = _sum(value, count);
        uint256 before = IERC20(token).balanceOf(address(this));
        IERC20(token).safeTransferFrom(msg.sender, address(this), sum);
        uint256 received = _difference(IERC20(token).balanceOf(address(this)), before);
        return _deposit(msg.sender, ERC20, token, 0, value, count, received);
    }

    function _sum(uint256 value, uint16 count) private pure returns (uint256) {
        if (count != 0 && value > type(uint256).max / count) revert WrongAmount();
        return value * count;
    }

    function _difference(uint256 afterwards, uint256 before) private pure returns (uint256) {
        if (afterwards < before) revert WrongAmount();
        return afterwards - before;
    }

    /// @dev Ids and depositBlock are taken here, after every token call.
    function _deposit(
        address owner,
        uint8 kind,
        address token,
        uint256 tokenId,
        uint256 value,
        uint16 count,
        uint256 received
    ) private returns (uint64 firstCoin) {
        if (count == 0 || count > DEPOSIT_COINS_MAX) revert BadCount();
        if (value == 0) revert ZeroValue();
        if (owner == address(0) || owner == address(this)) revert BadOwner();
        if (received != _sum(value, count)) revert WrongAmount();
        uint64 depositId = ++lastDeposit;
        firstCoin = lastCoin + 1;
        lastCoin += count;
        uint64 depositBlock = lastBlock;
        _deposits[depositId] =
            Deposit(owner, firstCoin, count, kind, token, depositBlock, value, tokenId);
        _queue(
            abi.encode(
                KIND_DEPOSITED,
                depositId,
                firstCoin,
                count,
                owner,
                kind,
                token,
                tokenId,
                value,
                depositBlock
            )
        );
        emit Deposited(depositId, owner, firstCoin, count);
    }

    function _queue(bytes memory e) private {
        eventHash = PlasmaHash.eventHash(eventHash, e);
        emit Queued(++eventCount, e);
    }

    // --- roots ---------------------------------------------------------------------------------

    function submitBlocks(
        uint64 firstNumber,
        bytes32[] calldata roots_,
        bytes calldata set,
        bytes calldata bitmap,
        bytes calldata signatures
    ) external nonReentrant {
        // First, so that a relayer that lost a race pays little.
        if (firstNumber != lastBlock + 1) revert NotNext();
        if (roots_.length == 0) revert NoRoots();
        if (roots_.length > ROOTS_MAX) revert TooManyRoots();
        bytes32 chain = chainHash;
        uint64 number = firstNumber;
        for (uint256 i; i < roots_.length; ++i) {
            if (roots_[i] == 0) revert ZeroRoot();
            chain = PlasmaHash.chainHash(chain, number, roots_[i]);
            roots[number++] = roots_[i];
        }
        if (keccak256(abi.encodePacked(VALIDATOR_SET_ID, set)) != validatorSetHash) {
            revert WrongSet();
        }
        uint64 last = number - 1;
        bytes32 digest = PlasmaHash.attestation(domainSeparator, last, chain, VALIDATOR_SET_ID);
        Certificate.check(digest, set, bitmap, signatures);
        lastBlock = last;
        chainHash = chain;
        emit BlocksSubmitted(firstNumber, last, chain);
    }

    // --- opening exits -------------------------------------------------------------------------

    function startExit(
        uint64 coin,
        uint64 depositId,
        Included calldata parent,
        Included calldata transfer,
        Authorization calldata auth,
        uint64 hint
    ) external payable nonReentrant returns (uint64) {
        return _startExit(coin, depositId, parent, transfer, auth, hint, msg.value == bond);
    }

    function startDepositExit(
        uint64 coin,
        uint64 depositId,
        Authorization calldata auth,
        uint64 hint
    ) external payable nonReentrant returns (uint64) {
        return _startDepositExit(coin, depositId, auth, hint, msg.value == bond);
    }

    function startExits(ExitRequest[] calldata requests) external payable nonReentrant {
        bool paid = msg.value == requests.length * uint256(bond);
        if (requests.length == 0 && !paid) revert WrongBond();
        for (uint256 i; i < requests.length; ++i) {
            ExitRequest calldata r = requests[i];
            if (r.transfer.blockNumber == 0) {
                _startDepositExit(r.coin, r.depositId, r.auth, r.hint, paid);
            } else {
                _startExit(r.coin, r.depositId, r.parent, r.transfer, r.auth, r.hint, paid);
            }
        }
    }

    function _startExit(
        uint64 coin,
        uint64 depositId,
        Included calldata parent,
        Included calldata transfer,
        Authorization calldata auth,
        uint64 hint,
        bool paid
    ) private returns (uint64) {
        Deposit memory record = _activeDeposit(coin, depositId);
        State memory spent = _parentState(coin, record, parent);
        if (transfer.blockNumber <= spent.blockNumber) revert NotAfterParent();
        bytes32 hash = _requireIncluded(coin, transfer);
        _requireChild(transfer, hash, coin, spent);

        Exit memory e;
        e.parentBlock = spent.blockNumber;
        e.blockNumber = transfer.blockNumber;
        e.beneficiary = transfer.transfer.newOwner;
        e.transferHash = hash;
        e.parentHash = spent.hash;
        e.parentOwner = spent.owner;
        uint64 exitId = _open(coin, depositId, e, auth, hint, paid);
        if (parent.blockNumber != 0) _show(coin, parent);
        _show(coin, transfer);
        return exitId;
    }

    function _startDepositExit(
        uint64 coin,
        uint64 depositId,
        Authorization calldata auth,
        uint64 hint,
        bool paid
    ) private returns (uint64) {
        Deposit memory record = _activeDeposit(coin, depositId);
        Exit memory e;
        e.parentBlock = record.depositBlock;
        e.beneficiary = record.owner;
        e.transferHash = PlasmaHash.depositHash(domainSeparator, coin, record);
        return _open(coin, depositId, e, auth, hint, paid);
    }

    function _activeDeposit(uint64 coin, uint64 depositId)
        private
        view
        returns (Deposit memory record)
    {
        if (coins[coin].status != Status.Active) revert NotActive();
        record = _deposits[depositId];
        if (coin < record.firstCoin || coin - record.firstCoin >= record.count) {
            revert WrongDeposit();
        }
    }

    /// @dev The state that an exit's transfer spends: the deposit, or a parent above it.
    function _parentState(uint64 coin, Deposit memory record, Included calldata parent)
        private
        view
        returns (State memory)
    {
        uint64 d = record.depositBlock;
        if (parent.blockNumber == 0) {
            return State(d, PlasmaHash.depositHash(domainSeparator, coin, record), record.owner);
        }
        bytes32 hash = _requireIncluded(coin, parent);
        if (parent.transfer.coin != coin) revert WrongCoin();
        if (parent.blockNumber <= d) revert BeforeDeposit();
        return State(parent.blockNumber, hash, parent.transfer.newOwner);
    }

    function _open(
        uint64 coin,
        uint64 depositId,
        Exit memory e,
        Authorization calldata auth,
        uint64 hint,
        bool paid
    ) private returns (uint64 exitId) {
        if (msg.sender != e.beneficiary) _requireAuthorized(coin, e, auth);
        bytes32 key = _usedKey(coin, e.parentBlock, e.blockNumber);
        if (used[key]) revert ExitExists();
        if (!paid) revert WrongBond();

        exitId = ++lastExit;
        used[key] = true;
        e.openedAt = uint40(block.timestamp);
        e.state = ExitState.Open;
        e.payer = msg.sender;
        e.bond = bond;
        mapping(uint64 => Exit) storage list = _exits[coin];
        list[exitId] = e;
        Coin storage c = coins[coin];
        c.depositId = depositId;
        c.head = ExitList.insert(list, c.head, exitId, hint);
        _queue(abi.encode(KIND_EXIT_STARTED, coin));
        emit ExitStarted(
            coin,
            exitId,
            (uint128(e.parentBlock) << 64) | e.blockNumber,
            e.parentBlock,
            e.blockNumber,
            e.transferHash,
            e.beneficiary,
            msg.sender
        );
    }

    function _requireAuthorized(uint64 coin, Exit memory e, Authorization calldata auth)
        private
        view
    {
        if (auth.signature.length == 0 || block.timestamp > auth.notAfter) revert NotAuthorised();
        bytes32 digest =
            PlasmaHash.authorization(domainSeparator, coin, e.transferHash, auth.notAfter);
        address signer = CompactSignature.recover(digest, auth.signature);
        if (signer == address(0)) revert BadSignature();
        if (signer != e.beneficiary) revert NotAuthorised();
    }

    // --- challenges ----------------------------------------------------------------------------

    function challengeSpent(
        uint64 coin,
        uint64 exitId,
        Included calldata spend,
        uint64 includedAt,
        bytes calldata inclusionProof
    ) external nonReentrant {
        Exit storage e = _openExit(coin, exitId);
        // An exit of the deposit has k = 0; the state that is spent stands at the deposit block.
        bool ofDeposit = e.blockNumber == 0;
        State memory spent = State(
            ofDeposit ? e.parentBlock : e.blockNumber, e.transferHash, e.beneficiary
        );
        if (includedAt != 0) {
            bytes32 root = roots[includedAt];
            if (
                ofDeposit || includedAt <= e.parentBlock || root == 0
                    || !CompactSmt.included(root, coin, spent.hash, inclusionProof)
            ) revert NotSameTransfer();
            spent.blockNumber = includedAt;
        }
        bytes32 hash = _requireIncluded(coin, spend);
        _requireChild(spend, hash, coin, spent);
        _refute(coin, exitId, e, 1, spend.blockNumber);
        _show(coin, spend);
    }

    function challengeDoubleSpend(uint64 coin, uint64 exitId, Included calldata other)
        external
        nonReentrant
    {
        Exit storage e = _openExit(coin, exitId);
        if (e.blockNumber == 0) revert DepositExit();
        bytes32 hash = _requireIncluded(coin, other);
        if (hash == e.transferHash) revert SameTransfer();
        _requireChild(other, hash, coin, State(e.parentBlock, e.parentHash, e.parentOwner));
        if (other.blockNumber >= e.blockNumber) revert NotBefore();
        _refute(coin, exitId, e, 2, other.blockNumber);
        _show(coin, other);
    }

    function _openExit(uint64 coin, uint64 exitId) private view returns (Exit storage e) {
        if (coins[coin].status != Status.Active) revert NotActive();
        e = _exits[coin][exitId];
        if (e.state == ExitState.None) revert NoExit();
        if (e.state != ExitState.Open) revert ExitClosed();
    }

    function _refute(
        uint64 coin,
        uint64 exitId,
        Exit storage e,
        uint8 kind,
        uint64 evidenceBlock
    ) private {
        Coin storage c = coins[coin];
        bool wasOldest = c.head == exitId;
        if (wasOldest) {
            uint64 hold = uint64(block.timestamp) + holdPeriod;
            if (hold > c.holdUntil) c.holdUntil = hold;
        }
        _split(e.bond, msg.sender);
        _close(coin, exitId, e);
        emit ExitChallenged(
            coin, exitId, kind, evidenceBlock, msg.sender, wasOldest, c.holdUntil
        );
    }

    /// @dev Removes an open exit of an active coin; the coin thaws with its last one.
    function _close(uint64 coin, uint64 exitId, Exit storage e) private {
        e.state = ExitState.Closed;
        uint64 head = ExitList.remove(_exits[coin], coins[coin].head, exitId);
        coins[coin].head = head;
        if (head == 0) _queue(abi.encode(KIND_THAWED, coin));
    }

    /// @dev Burns the burned share of a lost bond and credits the rest.
    function _split(uint256 lost, address to) private {
        uint256 burn = lost * burnBps / 10_000;
        burned += burn;
        credits[to] += lost - burn;
    }

    // --- ending exits --------------------------------------------------------------------------

    function finalizeExit(uint64 coin) external nonReentrant {
        Coin storage c = coins[coin];
        if (c.status != Status.Active) revert NotActive();
        if (c.head == 0) revert NoExit();
        if (block.timestamp <= _periodEnd(coin, c.head)) revert TooEarly();
        if (block.timestamp <= c.holdUntil) revert OnHold();
        _finalize(coin, c);
    }

    function finalizeExits(uint64[] calldata coins_) external nonReentrant {
        for (uint256 i; i < coins_.length; ++i) {
            Coin storage c = coins[coins_[i]];
            if (
                c.status == Status.Active && c.head != 0
                    && block.timestamp > _periodEnd(coins_[i], c.head)
                    && block.timestamp > c.holdUntil
            ) _finalize(coins_[i], c);
        }
    }

    function _periodEnd(uint64 coin, uint64 exitId) private view returns (uint256) {
        return uint256(_exits[coin][exitId].openedAt) + exitPeriod;
    }

    function _finalize(uint64 coin, Coin storage c) private {
        uint64 exitId = c.head;
        Exit storage e = _exits[coin][exitId];
        c.status = Status.Exited;
        e.state = ExitState.Won;
        credits[e.payer] += e.bond;
        _queue(abi.encode(KIND_EXIT_FINALIZED, coin));
        emit ExitFinalized(coin, exitId, e.beneficiary);
    }

    function sweepExit(uint64 coin, uint64 exitId) external nonReentrant {
        Coin storage c = coins[coin];
        if (c.status == Status.Active) revert NotExited();
        Exit storage e = _exits[coin][exitId];
        if (e.state == ExitState.None) revert NoExit();
        if (e.state != ExitState.Open) revert ExitClosed();
        e.state = ExitState.Closed;
        Exit storage winner = _exits[coin][c.head];
        if (e.beneficiary == winner.beneficiary) credits[e.payer] += e.bond;
        else _split(e.bond, winner.payer);
        emit ExitSwept(coin, exitId);
    }

    function cancelExit(uint64 coin, uint64 exitId) external nonReentrant {
        Exit storage e = _openExit(coin, exitId);
        if (msg.sender != e.beneficiary && msg.sender != e.payer) revert NotAuthorised();
        if (e.prev != 0 || e.next != 0) revert OtherExitsOpen();
        used[_usedKey(coin, e.parentBlock, e.blockNumber)] = false;
        _split(e.bond, e.payer);
        _close(coin, exitId, e);
        emit ExitCancelled(coin, exitId);
    }

    function withdraw(uint64 coin, address to) external nonReentrant {
        _withdraw(coin, to);
    }

    function withdrawMany(uint64[] calldata coins_, address to) external nonReentrant {
        for (uint256 i; i < coins_.length; ++i) _withdraw(coins_[i], to);
    }

    function withdrawCredits(address to) external nonReentrant {
        _requireRecipient(to);
        uint256 amount = credits[msg.sender];
        if (amount == 0) revert NoCredits();
        credits[msg.sender] = 0;
        _sendEth(to, amount);
    }

    function _withdraw(uint64 coin, address to) private {
        Coin storage c = coins[coin];
        if (c.status == Status.Withdrawn) revert AlreadyWithdrawn();
        if (c.status != Status.Exited) revert NotExited();
        if (msg.sender != _exits[coin][c.head].beneficiary) revert NotBeneficiary();
        _requireRecipient(to);
        c.status = Status.Withdrawn;
        emit Withdrawn(coin, to);
        Deposit storage d = _deposits[c.depositId];
        uint8 kind = d.assetKind;
        if (kind == ETH) {
            _sendEth(to, d.value);
        } else if (kind == ERC20) {
            IERC20(d.token).safeTransfer(to, d.value);
        } else if (kind == ERC721) {
            IERC721(d.token).transferFrom(address(this), to, d.tokenId);
        } else {
            IERC1155(d.token).safeTransferFrom(address(this), to, d.tokenId, d.value, "");
        }
    }

    function _requireRecipient(address to) private view {
        if (to == address(0) || to == address(this)) revert BadRecipient();
    }

    function _sendEth(address to, uint256 amount) private {
        (bool ok,) = to.call{value: amount}("");
        if (!ok) revert EthTransferFailed();
    }

    // --- rules shared by exits and challenges --------------------------------------------------

    /// @dev The transfer's hash, once its inclusion at `coin` is proven.
    function _requireIncluded(uint64 coin, Included calldata shown)
        private
        view
        returns (bytes32 hash)
    {
        hash = PlasmaHash.transferHash(domainSeparator, shown.transfer);
        bytes32 root = roots[shown.blockNumber];
        if (root == 0 || !CompactSmt.included(root, coin, hash, shown.proof)) {
            revert NotIncluded();
        }
    }

    /// @dev `Child(shown, spent)` of protocol.md section 2, inclusion already proven.
    function _requireChild(
        Included calldata shown,
        bytes32 hash,
        uint64 coin,
        State memory spent
    ) private view {
        Transfer calldata t = shown.transfer;
        if (t.coin != coin) revert WrongCoin();
        if (
            t.prevBlock != spent.blockNumber || t.prevHash != spent.hash
                || t.newOwner == address(0) || t.newOwner == address(this)
        ) revert NotChild();
        address signer = CompactSignature.recover(hash, shown.signature);
        if (signer == address(0) || signer != spent.owner) revert BadSignature();
        if (shown.blockNumber <= spent.blockNumber) revert NotAfterParent();
        if (shown.blockNumber > t.maxBlock) revert Expired();
    }

    function _show(uint64 coin, Included calldata shown) private {
        emit Evidence(coin, shown.blockNumber, shown.transfer, shown.signature, shown.proof);
    }

    function _usedKey(uint64 coin, uint64 parentBlock, uint64 blockNumber)
        private
        pure
        returns (bytes32)
    {
        return keccak256(abi.encodePacked(coin, parentBlock, blockNumber));
    }

    // --- views ---------------------------------------------------------------------------------

    function coinState(uint64 coin, uint64 depositId)
        external
        view
        returns (Deposit memory record, Status status, uint64 holdUntil, OpenExit[] memory open)
    {
        record = _deposits[depositId];
        if (coin < record.firstCoin || coin - record.firstCoin >= record.count) {
            revert WrongDeposit();
        }
        Coin storage c = coins[coin];
        (status, holdUntil) = (c.status, c.holdUntil);
        mapping(uint64 => Exit) storage list = _exits[coin];
        uint256 count;
        for (uint64 id = c.head; id != 0; id = list[id].next) {
            if (list[id].state == ExitState.Open) ++count;
        }
        open = new OpenExit[](count);
        count = 0;
        for (uint64 id = c.head; id != 0; id = list[id].next) {
            if (list[id].state == ExitState.Open) open[count++] = OpenExit(id, list[id]);
        }
    }

    function deposits(uint64 depositId) external view returns (Deposit memory) {
        return _deposits[depositId];
    }

    function exits(uint64 coin, uint64 exitId) external view returns (Exit memory) {
        return _exits[coin][exitId];
    }
}
