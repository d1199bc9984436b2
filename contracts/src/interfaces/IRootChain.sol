// SPDX-License-Identifier: MIT
pragma solidity ^0.8.30;

/// @title The plasma contract: deposits, roots of the child chain, exits
/// @notice Normative texts: protocol.md, formats.md and exit-game.md of the project. Hashes are
/// keccak-256, signatures are secp256k1 in the compact form of EIP-2098, digests are EIP-712.
interface IRootChain {
    // --- types ---------------------------------------------------------------------------------

    /// @notice One deposit: `count` coins with consecutive ids, each of `value`.
    struct Deposit {
        address owner;
        uint64 firstCoin;
        uint16 count;
        uint8 assetKind; // 1 ETH, 2 ERC-20, 3 ERC-721, 4 ERC-1155
        address token;
        uint64 depositBlock; // last plasma block stored when the deposit was made
        uint256 value;
        uint256 tokenId;
    }

    /// @notice The signed message that moves a coin.
    struct Transfer {
        uint64 coin;
        uint64 prevBlock;
        bytes32 prevHash;
        address newOwner;
        uint64 maxBlock;
    }

    /// @notice A transfer, its owner's signature and the proof of its inclusion in a block.
    struct Included {
        uint64 blockNumber;
        Transfer transfer;
        bytes signature;
        bytes proof;
    }

    /// @notice The beneficiary's consent that somebody else starts his exit, until `notAfter`.
    struct Authorization {
        uint64 notAfter;
        bytes signature;
    }

    /// @notice The arguments of `startExit`; `transfer.blockNumber` 0 exits the deposit itself.
    struct ExitRequest {
        uint64 coin;
        uint64 depositId;
        Included parent;
        Included transfer;
        Authorization auth;
        uint64 hint;
    }

    enum Status {
        Active,
        Exited,
        Withdrawn
    }

    enum ExitState {
        None,
        Open,
        Closed,
        Won
    }

    /// @notice One exit of one coin.
    struct Exit {
        uint64 parentBlock;
        uint64 blockNumber; // 0: exit of the deposit itself
        uint64 prev;
        uint64 next;
        address beneficiary;
        uint40 openedAt;
        ExitState state;
        address payer;
        uint96 bond;
        bytes32 transferHash; // the deposit's hash for an exit of the deposit
        bytes32 parentHash;
        address parentOwner;
    }

    /// @notice An open exit as `coinState` reports it.
    struct OpenExit {
        uint64 exitId;
        Exit data;
    }

    // --- events --------------------------------------------------------------------------------

    /// @notice The `n`-th event of the queue the child chain reads; `e = abi.encode(kind, ...)`.
    event Queued(uint64 indexed n, bytes e);
    /// @notice Coins `firstCoin` .. `firstCoin + count - 1` were created.
    event Deposited(
        uint64 indexed depositId, address indexed owner, uint64 firstCoin, uint16 count
    );
    /// @notice Roots `firstNumber` .. `lastNumber` were stored.
    event BlocksSubmitted(uint64 indexed firstNumber, uint64 indexed lastNumber, bytes32 chainHash);
    /// @notice Somebody showed that this transfer is in this block.
    event Evidence(
        uint64 indexed coin,
        uint64 indexed blockNumber,
        Transfer transfer,
        bytes signature,
        bytes proof
    );
    /// @notice An exit was opened; `age = (parentBlock << 64) | blockNumber`, smaller is older.
    event ExitStarted(
        uint64 indexed coin,
        uint64 indexed exitId,
        uint128 age,
        uint64 parentBlock,
        uint64 blockNumber,
        bytes32 stateHash,
        address beneficiary,
        address payer
    );
    /// @notice An exit was refuted; `kind` 1: its state was spent, 2: double spend.
    event ExitChallenged(
        uint64 indexed coin,
        uint64 indexed exitId,
        uint8 kind,
        uint64 evidenceBlock,
        address challenger,
        bool wasOldest,
        uint64 holdUntil
    );
    /// @notice An exit was taken back.
    event ExitCancelled(uint64 indexed coin, uint64 indexed exitId);
    /// @notice The coin belongs to the beneficiary of this exit.
    event ExitFinalized(uint64 indexed coin, uint64 indexed exitId, address beneficiary);
    /// @notice An exit that did not win was closed.
    event ExitSwept(uint64 indexed coin, uint64 indexed exitId);
    /// @notice The coin's value left the contract.
    event Withdrawn(uint64 indexed coin, address indexed to);

    // --- errors --------------------------------------------------------------------------------

    error BadParameters();
    error BadCount();
    error BadOwner();
    error ZeroValue();
    error WrongAmount();
    error BadHookData();
    error BatchRefused();
    error BadRecipient();
    error EthTransferFailed();
    error NoCredits();

    error NotNext();
    error NoRoots();
    error TooManyRoots();
    error ZeroRoot();
    error WrongSet();
    error BadBitmap();
    error BadSignatures();
    error NotEnoughPower();

    error NotActive();
    error WrongDeposit();
    error NotIncluded();
    error BeforeDeposit();
    error NotAfterParent();
    error WrongCoin();
    error NotChild();
    error BadSignature();
    error Expired();
    error NotAuthorised();
    error ExitExists();
    error WrongBond();
    error NoExit();
    error ExitClosed();
    error NotSameTransfer();
    error DepositExit();
    error SameTransfer();
    error NotBefore();
    error TooEarly();
    error OnHold();
    error NotExited();
    error OtherExitsOpen();
    error AlreadyWithdrawn();
    error NotBeneficiary();

    // --- deposits ------------------------------------------------------------------------------

    /// @notice Makes `count` coins of `value` wei each; `msg.value` must be their sum.
    function depositETH(uint256 value, uint16 count) external payable returns (uint64 firstCoin);

    /// @notice Pulls `count * value` from the caller; refused unless exactly that arrives.
    function depositERC20(address token, uint256 value, uint16 count)
        external
        returns (uint64 firstCoin);

    /// @notice The same after an ERC-2612 permit; a failing one is ignored, the transfer decides.
    function depositERC20WithPermit(
        address token,
        uint256 value,
        uint16 count,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external returns (uint64 firstCoin);

    /// @notice Pulls one NFT from the caller.
    function depositERC721(address token, uint256 id) external returns (uint64 firstCoin);

    /// @notice Pulls `count * value` units of an ERC-1155 id from the caller.
    function depositERC1155(address token, uint256 id, uint256 value, uint16 count)
        external
        returns (uint64 firstCoin);

    // --- roots ---------------------------------------------------------------------------------

    /// @notice Stores the roots that follow the last one. Anyone may call.
    /// @param firstNumber must be the last block + 1
    /// @param set `address:20 || power:8` of each validator, in set order
    /// @param bitmap validator i is bit `i % 8` (least significant first) of byte `i / 8`
    /// @param signatures 64 bytes for each bit, ascending, over the chain hash after the last root
    function submitBlocks(
        uint64 firstNumber,
        bytes32[] calldata roots,
        bytes calldata set,
        bytes calldata bitmap,
        bytes calldata signatures
    ) external;

    // --- exits ---------------------------------------------------------------------------------

    /// @notice Opens the exit of the state that `transfer` made out of `parent`.
    /// @param parent `blockNumber` 0: the deposit record
    /// @param hint id of an open, older exit after which to insert; any other value is the head
    function startExit(
        uint64 coin,
        uint64 depositId,
        Included calldata parent,
        Included calldata transfer,
        Authorization calldata auth,
        uint64 hint
    ) external payable returns (uint64 exitId);

    /// @notice Opens the exit of a coin that never moved; needs no plasma block at all.
    function startDepositExit(
        uint64 coin,
        uint64 depositId,
        Authorization calldata auth,
        uint64 hint
    ) external payable returns (uint64 exitId);

    /// @notice Opens several exits, all or none; `msg.value` is the sum of the bonds.
    function startExits(ExitRequest[] calldata requests) external payable;

    /// @notice Closes an exit whose state was spent.
    /// @param includedAt another block that includes the exiting transfer, which `spend` spends;
    /// 0: `spend` spends the exiting state itself
    function challengeSpent(
        uint64 coin,
        uint64 exitId,
        Included calldata spend,
        uint64 includedAt,
        bytes calldata inclusionProof
    ) external;

    /// @notice Closes an exit whose parent was spent by another transfer before.
    function challengeDoubleSpend(uint64 coin, uint64 exitId, Included calldata other) external;

    /// @notice Gives the coin to the oldest exit, once its period and every hold are over.
    function finalizeExit(uint64 coin) external;

    /// @notice Finalizes what can be finalized and skips the rest.
    function finalizeExits(uint64[] calldata coins) external;

    /// @notice Closes an exit that did not win.
    function sweepExit(uint64 coin, uint64 exitId) external;

    /// @notice Takes the coin's only exit back.
    function cancelExit(uint64 coin, uint64 exitId) external;

    /// @notice Pays a finalized coin out; only its winner may call.
    function withdraw(uint64 coin, address to) external;

    /// @notice Pays several coins out, all or none.
    function withdrawMany(uint64[] calldata coins, address to) external;

    /// @notice Pays the caller's bonds and rewards out.
    function withdrawCredits(address to) external;

    // --- views ---------------------------------------------------------------------------------

    /// @notice Deposit record, status, hold and open exits (oldest first) of a coin.
    function coinState(uint64 coin, uint64 depositId)
        external
        view
        returns (Deposit memory record, Status status, uint64 holdUntil, OpenExit[] memory open);

    /// @notice The record of a deposit; `count` 0 if there is none.
    function deposits(uint64 depositId) external view returns (Deposit memory);

    /// @notice An exit of a coin; `state` None if there is none.
    function exits(uint64 coin, uint64 exitId) external view returns (Exit memory);

    /// @notice Status, deposit id (0 before the first exit), hold and oldest exit of a coin.
    function coins(uint64 coin)
        external
        view
        returns (Status status, uint64 depositId, uint64 holdUntil, uint64 head);

    /// @notice Whether an exit of this key was opened and not cancelled.
    /// @param key `keccak(coin:8 || parentBlock:8 || block:8)`
    function used(bytes32 key) external view returns (bool);

    /// @notice Number of the last plasma block stored.
    function lastBlock() external view returns (uint64);

    /// @notice Chain hash after the last plasma block stored.
    function chainHash() external view returns (bytes32);

    /// @notice Root of a plasma block; zero: not stored.
    function roots(uint64 blockNumber) external view returns (bytes32);

    /// @notice Length of the queue of events, and so the `n` of its last one.
    function eventCount() external view returns (uint64);

    /// @notice Hash of the queue of events.
    function eventHash() external view returns (bytes32);

    /// @notice Newest deposit id; ids count from 1.
    function lastDeposit() external view returns (uint64);

    /// @notice Newest coin; coins count from 1.
    function lastCoin() external view returns (uint64);

    /// @notice Newest exit id of any coin; ids count from 1.
    function lastExit() external view returns (uint64);

    /// @notice Wei that `account` can pull by `withdrawCredits`.
    function credits(address account) external view returns (uint256);

    /// @notice Wei burned; they stay in the contract for ever.
    function burned() external view returns (uint256);

    // --- parameters, fixed in the constructor --------------------------------------------------

    /// @notice EIP-712 domain separator of this contract.
    function domainSeparator() external view returns (bytes32);

    /// @notice `keccak(id:8 || set)` of the validators.
    function validatorSetHash() external view returns (bytes32);

    /// @notice Seconds that an exit stays open (Wc).
    function exitPeriod() external view returns (uint64);

    /// @notice Seconds that a coin is held after its oldest exit was refuted (Wx).
    function holdPeriod() external view returns (uint64);

    /// @notice Wei that an exit puts up.
    function bond() external view returns (uint96);

    /// @notice Share of a lost bond that is burned, in 1/10,000.
    function burnBps() external view returns (uint16);
}
