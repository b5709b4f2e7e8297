// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Token} from "./Token.sol";

/// Position ids of protocol version 2: module 8 bits, hash 128, arity 16, zero 64, chain of the resolution 16, number of the
/// condition 16, outcome 8. A condition is the id of its outcome 0.
library Ids {
    uint256 internal constant BINARY = 1;
    uint256 internal constant NEG_RISK = 2;
    uint256 internal constant COMBINATORIAL = 3;

    function moduleOf(uint256 id) internal pure returns (uint256) {
        return id >> 248;
    }

    function arityOf(uint256 id) internal pure returns (uint256) {
        return uint16(id >> 104);
    }

    function numberOf(uint256 id) internal pure returns (uint256) {
        return uint16(id >> 8);
    }

    function conditionOf(uint256 id) internal pure returns (uint256) {
        return id >> 8 << 8;
    }

    /// Of the event that this condition or event is of.
    function conditionAt(uint256 id, uint256 number) internal pure returns (uint256) {
        return (id >> 24 << 24) | (number << 8);
    }

    function outcomeOf(uint256 id) internal pure returns (uint256) {
        return uint8(id);
    }

    function encode(uint256 module, bytes memory data, uint256 arity, uint256 chain)
        internal
        pure
        returns (uint256)
    {
        uint256 hash = uint128(uint256(keccak256(abi.encode(module, data))));
        return (module << 248) | (hash << 120) | (arity << 104) | (chain << 24);
    }
}

/// The devnet's ledger of shares of protocol version 2. Only modules mint and burn. It also keeps their money, because shares
/// of one module become shares of another. Spenders named by the admin replace approvals, as in ConditionalTokens.
contract PositionManager {
    Token public immutable collateral;
    address public immutable admin;
    mapping(uint256 => address) public moduleById;
    mapping(address => bool) public isModule;
    mapping(address => bool) public isSpender;
    mapping(address => mapping(uint256 => uint256)) public balanceOf;

    event TransferSingle(
        address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value
    );
    event TransferBatch(
        address indexed operator,
        address indexed from,
        address indexed to,
        uint256[] ids,
        uint256[] values
    );
    event ModuleAdded(uint256 indexed moduleId, address indexed module);

    error NotAdmin();
    error NotModule();
    error NotSpender();
    error InsufficientPosition(address owner, uint256 id, uint256 balance, uint256 amount);

    modifier onlyModule() {
        if (!isModule[msg.sender]) revert NotModule();
        _;
    }

    constructor(Token collateral_) {
        collateral = collateral_;
        admin = msg.sender;
    }

    function addModule(uint256 moduleId, address module) external {
        if (msg.sender != admin) revert NotAdmin();
        moduleById[moduleId] = module;
        isModule[module] = true;
        emit ModuleAdded(moduleId, module);
    }

    function setSpenders(address[] calldata spenders) external {
        if (msg.sender != admin) revert NotAdmin();
        for (uint256 i = 0; i < spenders.length; ++i) isSpender[spenders[i]] = true;
    }

    function transferFrom(address from, address to, uint256 id, uint256 amount) external {
        if (msg.sender != from && !isSpender[msg.sender]) revert NotSpender();
        _take(from, id, amount);
        balanceOf[to][id] += amount;
        emit TransferSingle(msg.sender, from, to, id, amount);
    }

    function batchTransferFrom(
        address from,
        address to,
        uint256[] calldata ids,
        uint256[] calldata amounts
    ) external {
        if (msg.sender != from && !isSpender[msg.sender]) revert NotSpender();
        for (uint256 i = 0; i < ids.length; ++i) {
            _take(from, ids[i], amounts[i]);
            balanceOf[to][ids[i]] += amounts[i];
        }
        emit TransferBatch(msg.sender, from, to, ids, amounts);
    }

    function mint(address to, uint256 id, uint256 amount) external onlyModule {
        balanceOf[to][id] += amount;
        emit TransferSingle(msg.sender, address(0), to, id, amount);
    }

    function batchMint(address to, uint256[] calldata ids, uint256[] calldata amounts)
        external
        onlyModule
    {
        for (uint256 i = 0; i < ids.length; ++i) balanceOf[to][ids[i]] += amounts[i];
        emit TransferBatch(msg.sender, address(0), to, ids, amounts);
    }

    /// Of the calling module.
    function burn(uint256 id, uint256 amount) external onlyModule {
        _take(msg.sender, id, amount);
        emit TransferSingle(msg.sender, msg.sender, address(0), id, amount);
    }

    function batchBurn(uint256[] calldata ids, uint256[] calldata amounts) external onlyModule {
        for (uint256 i = 0; i < ids.length; ++i) _take(msg.sender, ids[i], amounts[i]);
        emit TransferBatch(msg.sender, msg.sender, address(0), ids, amounts);
    }

    function pay(address to, uint256 amount) external onlyModule {
        if (amount > 0) collateral.transfer(to, amount);
    }

    function balanceOfBatch(address[] calldata owners, uint256[] calldata ids)
        external
        view
        returns (uint256[] memory balances)
    {
        balances = new uint256[](owners.length);
        for (uint256 i = 0; i < owners.length; ++i) balances[i] = balanceOf[owners[i]][ids[i]];
    }

    function _take(address owner, uint256 id, uint256 amount) private {
        uint256 balance = balanceOf[owner][id];
        if (balance < amount) revert InsufficientPosition(owner, id, balance, amount);
        unchecked {
            balanceOf[owner][id] = balance - amount;
        }
    }
}
