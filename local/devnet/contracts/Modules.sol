// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Token} from "./Token.sol";
import {ConditionalTokens} from "./ConditionalTokens.sol";
import {Ids, PositionManager} from "./PositionManager.sol";

uint256 constant ONE = 1_000_000;

/// What all modules of protocol version 2 do: split, merge and redeem the shares of a condition. Money and shares are sent to the
/// module before it is called. Events are those of the deployed contracts, and in their order.
abstract contract Module {
    PositionManager public immutable manager;
    Token public immutable collateral;

    event PositionsSplit(
        address indexed initiator,
        bytes31 indexed conditionId,
        address indexed yesTo,
        address noTo,
        uint256 amount
    );
    event PositionsMerged(
        address indexed initiator, bytes31 indexed conditionId, address indexed to, uint256 amount
    );
    event PositionRedeemed(
        address indexed initiator,
        uint256 indexed positionId,
        address indexed to,
        uint256 amount,
        uint256 payout
    );

    error NotAdmin();
    error NotResolved();
    error InvalidIds();

    constructor(PositionManager manager_) {
        manager = manager_;
        collateral = manager_.collateral();
    }

    modifier onlyAdmin() {
        if (msg.sender != manager.admin()) revert NotAdmin();
        _;
    }

    function split(address[] calldata to, bytes31 conditionId, uint256 amount) external {
        uint256 id = _known(conditionId);
        _keep(amount);
        manager.mint(to[0], id, amount);
        manager.mint(to[1], id + 1, amount);
        emit PositionsSplit(msg.sender, conditionId, to[0], to[1], amount);
    }

    function merge(address to, bytes31 conditionId, uint256 amount) external {
        uint256 id = _known(conditionId);
        manager.pay(to, amount);
        _burnAll(_pair(id, id + 1), amount);
        emit PositionsMerged(msg.sender, conditionId, to, amount);
    }

    function redeem(address to, uint256 positionId, uint256 amount) external returns (uint256 payout) {
        payout = getPayout(positionId, amount);
        manager.pay(to, payout);
        manager.burn(positionId, amount);
        emit PositionRedeemed(msg.sender, positionId, to, amount, payout);
    }

    function getPayout(uint256 positionId, uint256 amount) public view virtual returns (uint256);

    /// The id of outcome 0. Reverts if the module has no such condition.
    function _known(bytes31 conditionId) internal view virtual returns (uint256);

    function _keep(uint256 amount) internal {
        collateral.transfer(address(manager), amount);
    }

    function _burnAll(uint256[] memory ids, uint256 amount) internal {
        manager.batchBurn(ids, _all(ids.length, amount));
    }

    function _all(uint256 count, uint256 amount) internal pure returns (uint256[] memory amounts) {
        amounts = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) amounts[i] = amount;
    }

    function _pair(uint256 zero, uint256 one) internal pure returns (uint256[] memory ids) {
        ids = new uint256[](2);
        (ids[0], ids[1]) = (zero, one);
    }
}

/// Conditions with a result of their own: two numbers that add up to a million. Some continue a condition of ConditionalTokens.
abstract contract ResultModule is Module {
    ConditionalTokens public immutable conditionalTokens;
    mapping(uint256 => uint256[2]) internal _results;
    mapping(uint256 => bytes32) public legacyOf;

    event ConditionResolved(bytes31 indexed conditionId, uint256[] result);
    event ResultReported(address indexed resolver, bytes31 indexed conditionId, uint256[] result);
    event MigrationConditionRegistered(
        bytes31 indexed conditionId, bytes32 indexed legacyConditionId
    );
    event PositionMigrated(
        address indexed from,
        bytes31 indexed conditionId,
        uint256 indexed positionId,
        uint256 outcomeIndex,
        uint256 amount
    );
    event MigrationResolved(
        bytes31 indexed conditionId,
        bytes32 indexed legacyConditionId,
        uint256 legacyPayout0,
        uint256 legacyPayout1,
        uint256 result0,
        uint256 result1
    );

    error InvalidResult();
    error AlreadyResolved();

    constructor(PositionManager manager_, ConditionalTokens conditionalTokens_) Module(manager_) {
        conditionalTokens = conditionalTokens_;
    }

    function reportResult(bytes31 conditionId, uint256[] calldata result) external onlyAdmin {
        _store(_known(conditionId), [result[0], result[1]]);
        emit ResultReported(msg.sender, conditionId, result);
    }

    /// Both numbers are 0 without a result.
    function getResult(uint256 conditionId) public view virtual returns (uint256[2] memory) {
        return _results[conditionId];
    }

    function getPayout(uint256 positionId, uint256 amount) public view override returns (uint256) {
        uint256[2] memory result = getResult(Ids.conditionOf(positionId));
        if (result[0] + result[1] == 0) revert NotResolved();
        return amount * result[Ids.outcomeOf(positionId)] / ONE;
    }

    function registerMigration(bytes31 conditionId, bytes32 legacyConditionId) external onlyAdmin {
        legacyOf[uint256(bytes32(conditionId))] = legacyConditionId;
        emit MigrationConditionRegistered(conditionId, legacyConditionId);
    }

    /// The caller's shares of ConditionalTokens become shares of this condition; the module keeps the old ones.
    function migratePositions(
        bytes31 conditionId,
        uint256[] calldata outcomes,
        uint256[] calldata amounts
    ) external {
        uint256 id = uint256(bytes32(conditionId));
        uint256[2] memory ids = conditionalTokens.positionIds(legacyOf[id]);
        uint256[] memory old = new uint256[](outcomes.length);
        for (uint256 i = 0; i < outcomes.length; ++i) old[i] = ids[outcomes[i]];
        conditionalTokens.safeBatchTransferFrom(msg.sender, address(this), old, amounts, "");
        for (uint256 i = 0; i < outcomes.length; ++i) {
            manager.mint(msg.sender, id + outcomes[i], amounts[i]);
            emit PositionMigrated(msg.sender, conditionId, id + outcomes[i], outcomes[i], amounts[i]);
        }
    }

    /// Takes the payouts of ConditionalTokens over, and redeems what the module has there.
    function resolveMigration(bytes31 conditionId, uint256 payout0, uint256 payout1) external {
        uint256 id = uint256(bytes32(conditionId));
        bytes32 legacy = legacyOf[id];
        if (conditionalTokens.payoutDenominator(legacy) != payout0 + payout1) revert InvalidResult();
        uint256 first = payout0 * ONE / (payout0 + payout1);
        _store(id, [first, ONE - first]);
        emit MigrationResolved(conditionId, legacy, payout0, payout1, first, ONE - first);
        address[] memory owners = new address[](1);
        owners[0] = address(this);
        conditionalTokens.redeemPositions(legacy, owners);
        _keep(collateral.balanceOf(address(this)));
    }

    function _store(uint256 id, uint256[2] memory result) internal virtual {
        if (result[0] + result[1] != ONE) revert InvalidResult();
        if (_results[id][0] + _results[id][1] != 0) revert AlreadyResolved();
        _results[id] = result;
        uint256[] memory list = _pair(result[0], result[1]);
        emit ConditionResolved(bytes31(bytes32(id)), list);
    }
}

/// Ordinary markets.
contract BinaryModule is ResultModule {
    constructor(PositionManager manager_, ConditionalTokens conditionalTokens_)
        ResultModule(manager_, conditionalTokens_)
    {}

    function conditionIdOf(bytes calldata data) external view returns (uint256) {
        return Ids.encode(Ids.BINARY, data, 1, uint16(block.chainid));
    }

    function _known(bytes31 conditionId) internal pure override returns (uint256 id) {
        id = uint256(bytes32(conditionId));
        if (Ids.moduleOf(id) != Ids.BINARY) revert InvalidIds();
    }
}

/// Events of which one market wins. After the last of them comes "Other", which has no result of its own.
contract NegRiskModule is ResultModule {
    mapping(uint256 => bool) public hasYes;
    mapping(uint256 => uint256) public resolvedCount;

    event HorizontalSplit(
        address indexed initiator, bytes29 indexed eventId, address indexed to, uint256 amount
    );
    event HorizontalMerge(
        address indexed initiator, bytes29 indexed eventId, address indexed to, uint256 amount
    );
    event PositionConverted(
        address indexed initiator,
        bytes29 indexed eventId,
        address indexed to,
        uint256 conditionIndex,
        uint256 amount
    );
    event RemainingConditionsDerivableAsNo(bytes29 indexed eventId);
    event SyntheticConditionDerivableAsYes(bytes29 indexed eventId, bytes31 indexed conditionId);

    constructor(PositionManager manager_, ConditionalTokens conditionalTokens_)
        ResultModule(manager_, conditionalTokens_)
    {}

    function eventIdOf(uint256 count, bytes calldata data) external view returns (uint256) {
        return Ids.encode(Ids.NEG_RISK, data, count, uint16(block.chainid));
    }

    function getResult(uint256 id) public view override returns (uint256[2] memory result) {
        result = _results[id];
        if (result[0] + result[1] != 0 || legacyOf[id] != 0) return result;
        uint256 eventId = Ids.conditionAt(id, 0);
        uint256 count = Ids.arityOf(id);
        if (hasYes[eventId]) return [uint256(0), ONE];
        if (Ids.numberOf(id) == count && resolvedCount[eventId] == count) return [ONE, uint256(0)];
    }

    function horizontalSplit(address to, bytes29 eventId, uint256 amount) external {
        _keep(amount);
        uint256[] memory ids = _allYes(eventId);
        manager.batchMint(to, ids, _all(ids.length, amount));
        emit HorizontalSplit(msg.sender, eventId, to, amount);
    }

    function horizontalMerge(address to, bytes29 eventId, uint256 amount) external {
        manager.pay(to, amount);
        _burnAll(_allYes(eventId), amount);
        emit HorizontalMerge(msg.sender, eventId, to, amount);
    }

    /// No of one market becomes Yes of all others.
    function convert(address to, bytes29 eventId, uint256 number, uint256 amount) external {
        uint256[] memory ids = _allYes(eventId);
        for (uint256 i = 0; i < ids.length; ++i) if (i != number) manager.mint(to, ids[i], amount);
        manager.burn(ids[number] + 1, amount);
        emit PositionConverted(msg.sender, eventId, to, number, amount);
    }

    function _allYes(bytes29 eventId) private pure returns (uint256[] memory ids) {
        uint256 first = uint256(bytes32(eventId));
        if (Ids.moduleOf(first) != Ids.NEG_RISK) revert InvalidIds();
        ids = new uint256[](Ids.arityOf(first) + 1);
        for (uint256 i = 0; i < ids.length; ++i) ids[i] = Ids.conditionAt(first, i);
    }

    function _known(bytes31 conditionId) internal pure override returns (uint256 id) {
        id = uint256(bytes32(conditionId));
        if (Ids.moduleOf(id) != Ids.NEG_RISK || Ids.numberOf(id) > Ids.arityOf(id)) revert InvalidIds();
    }

    function _store(uint256 id, uint256[2] memory result) internal override {
        if (result[0] != 0 && result[0] != ONE) revert InvalidResult();
        uint256 eventId = Ids.conditionAt(id, 0);
        uint256 count = Ids.arityOf(id);
        if (Ids.numberOf(id) >= count) revert InvalidIds();
        super._store(id, result);
        bytes29 short = bytes29(bytes32(eventId));
        if (result[0] == ONE) {
            if (hasYes[eventId]) revert InvalidResult();
            hasYes[eventId] = true;
            emit RemainingConditionsDerivableAsNo(short);
        }
        if (++resolvedCount[eventId] == count && !hasYes[eventId]) {
            uint256 other = Ids.conditionAt(eventId, count);
            emit SyntheticConditionDerivableAsYes(short, bytes31(bytes32(other)));
        }
    }
}

/// Combos: Yes pays the product of what its legs pay.
contract CombinatorialModule is Module {
    uint256 private constant PARTS = 1e36;
    mapping(uint256 => uint256[]) private _legs;

    event CombinatorialConditionPrepared(bytes31 indexed conditionId, uint256[] legs);
    event Compressed(
        address indexed initiator,
        uint256 indexed oldId,
        uint256 indexed newId,
        address to,
        uint256 amount,
        uint256 newAmount,
        uint256 collateral
    );
    event Extracted(
        address indexed initiator,
        bytes31 indexed full,
        bytes31 reduced,
        bytes31 residual,
        address noTo,
        address yesTo,
        uint256 amount
    );
    event Wrapped(
        address indexed initiator,
        uint256 underlyingId,
        uint256 comboId,
        address to,
        uint256 amount
    );
    event Unwrapped(
        address indexed initiator,
        uint256 comboId,
        uint256 underlyingId,
        address to,
        uint256 amount
    );

    constructor(PositionManager manager_) Module(manager_) {}

    /// Legs in ascending order, at most one of a condition.
    function prepareCondition(uint256[] memory legs) public returns (uint256 id) {
        for (uint256 i = 1; i < legs.length; ++i) {
            if (Ids.conditionOf(legs[i]) <= Ids.conditionOf(legs[i - 1])) revert InvalidIds();
        }
        if (legs.length == 0 || legs.length > 50) revert InvalidIds();
        id = Ids.encode(Ids.COMBINATORIAL, abi.encode(legs), 0, 0);
        if (_legs[id].length > 0) return id;
        _legs[id] = legs;
        emit CombinatorialConditionPrepared(bytes31(bytes32(id)), legs);
    }

    function getLegs(uint256 id) external view returns (uint256[] memory) {
        return _legs[id];
    }

    function getPayout(uint256 positionId, uint256 amount) public view override returns (uint256) {
        uint256[] memory legs = _legs[Ids.conditionOf(positionId)];
        if (legs.length == 0) revert InvalidIds();
        return payoutOf(legs, Ids.outcomeOf(positionId), amount);
    }

    /// Of a combo that need not be prepared.
    function payoutOf(uint256[] memory legs, uint256 outcome, uint256 amount)
        public
        view
        returns (uint256)
    {
        (uint256 down, uint256 up, uint256[] memory open) = _product(legs);
        if (open.length > 0 && down > 0) revert NotResolved();
        return outcome == 0 ? amount * down / PARTS : amount - _divideUp(amount * up, PARTS);
    }

    /// The resolved legs leave: Yes becomes less of a smaller combo, No becomes money and a smaller one.
    function compress(address to, uint256 positionId, uint256 amount) external {
        (uint256 down, uint256 up, uint256[] memory open) =
            _product(_legs[Ids.conditionOf(positionId)]);
        bool isYes = Ids.outcomeOf(positionId) == 0;
        uint256 rest = isYes ? amount * down / PARTS : _divideUp(amount * up, PARTS);
        uint256 paid = isYes ? 0 : amount - rest;
        uint256 newId;
        if (open.length == 0) {
            if (isYes) paid = rest;
            rest = 0;
        } else if (rest > 0) {
            newId = prepareCondition(open) + (isYes ? 0 : 1);
        }
        manager.pay(to, paid);
        if (newId != 0) manager.mint(to, newId, rest);
        manager.burn(positionId, amount);
        emit Compressed(msg.sender, positionId, newId, to, amount, rest, paid);
    }

    /// No of all legs becomes No of all but one, and Yes of those with the opposite of that one.
    function extract(address[] calldata to, uint256 positionId, uint256 at, uint256 amount) external {
        if (Ids.outcomeOf(positionId) != 1) revert InvalidIds();
        uint256[] memory full = _legs[Ids.conditionOf(positionId)];
        uint256[] memory reduced = new uint256[](full.length - 1);
        for (uint256 i = 0; i < reduced.length; ++i) reduced[i] = full[i < at ? i : i + 1];
        uint256 reducedId = prepareCondition(reduced);
        full[at] ^= 1;
        uint256 residualId = prepareCondition(full);
        manager.mint(to[0], reducedId + 1, amount);
        manager.mint(to[1], residualId, amount);
        manager.burn(positionId, amount);
        emit Extracted(
            msg.sender,
            bytes31(bytes32(Ids.conditionOf(positionId))),
            bytes31(bytes32(reducedId)),
            bytes31(bytes32(residualId)),
            to[0],
            to[1],
            amount
        );
    }

    /// Shares of a market become Yes of a combo with that leg only.
    function wrap(address to, uint256 underlyingId, uint256 amount) external {
        uint256[] memory legs = new uint256[](1);
        legs[0] = underlyingId;
        uint256 id = prepareCondition(legs);
        manager.mint(to, id, amount);
        manager.burn(underlyingId, amount);
        emit Wrapped(msg.sender, underlyingId, id, to, amount);
    }

    function unwrap(address to, uint256 positionId, uint256 amount) external {
        uint256[] memory legs = _legs[Ids.conditionOf(positionId)];
        if (legs.length != 1) revert InvalidIds();
        uint256 underlyingId = legs[0] ^ Ids.outcomeOf(positionId);
        manager.mint(to, underlyingId, amount);
        manager.burn(positionId, amount);
        emit Unwrapped(msg.sender, positionId, underlyingId, to, amount);
    }

    function _known(bytes31 conditionId) internal view override returns (uint256 id) {
        id = uint256(bytes32(conditionId));
        if (_legs[id].length == 0) revert InvalidIds();
    }

    /// The product of the resolved legs in parts of 10^36, rounded down and up, and the open legs. One losing leg decides.
    function _product(uint256[] memory legs)
        private
        view
        returns (uint256 down, uint256 up, uint256[] memory open)
    {
        (down, up) = (PARTS, PARTS);
        open = new uint256[](legs.length);
        uint256 count;
        for (uint256 i = 0; i < legs.length; ++i) {
            ResultModule module = ResultModule(manager.moduleById(Ids.moduleOf(legs[i])));
            uint256[2] memory result = module.getResult(Ids.conditionOf(legs[i]));
            if (result[0] + result[1] == 0) {
                open[count++] = legs[i];
                continue;
            }
            uint256 paid = result[Ids.outcomeOf(legs[i])];
            if (paid == 0) {
                assembly ("memory-safe") {
                    mstore(open, 0)
                }
                return (0, 0, open);
            }
            down = down * paid / ONE;
            up = _divideUp(up * paid, ONE);
        }
        assembly ("memory-safe") {
            mstore(open, count)
        }
    }

    function _divideUp(uint256 a, uint256 b) private pure returns (uint256) {
        return (a + b - 1) / b;
    }
}

/// Users call the modules through it: it takes money and shares from them first.
contract Router {
    PositionManager public immutable manager;
    Token public immutable collateral;

    constructor(PositionManager manager_) {
        manager = manager_;
        collateral = manager_.collateral();
    }

    function split(bytes31 conditionId, uint256 amount) external {
        Module module = _moduleOf(uint256(bytes32(conditionId)));
        collateral.transferFrom(msg.sender, address(module), amount);
        address[] memory to = new address[](2);
        (to[0], to[1]) = (msg.sender, msg.sender);
        module.split(to, conditionId, amount);
    }

    function merge(bytes31 conditionId, uint256 amount) external {
        uint256 id = uint256(bytes32(conditionId));
        Module module = _moduleOf(id);
        uint256[] memory ids = new uint256[](2);
        (ids[0], ids[1]) = (id, id + 1);
        uint256[] memory amounts = new uint256[](2);
        (amounts[0], amounts[1]) = (amount, amount);
        manager.batchTransferFrom(msg.sender, address(module), ids, amounts);
        module.merge(msg.sender, conditionId, amount);
    }

    function redeem(uint256 positionId, uint256 amount) external {
        Module module = _send(positionId, positionId, amount);
        module.redeem(msg.sender, positionId, amount);
    }

    function horizontalSplit(bytes29 eventId, uint256 amount) external {
        Module module = _moduleOf(uint256(bytes32(eventId)));
        collateral.transferFrom(msg.sender, address(module), amount);
        NegRiskModule(address(module)).horizontalSplit(msg.sender, eventId, amount);
    }

    function horizontalMerge(bytes29 eventId, uint256 amount) external {
        uint256 first = uint256(bytes32(eventId));
        NegRiskModule module = NegRiskModule(address(_moduleOf(first)));
        for (uint256 i = 0; i <= Ids.arityOf(first); ++i) {
            manager.transferFrom(msg.sender, address(module), Ids.conditionAt(first, i), amount);
        }
        module.horizontalMerge(msg.sender, eventId, amount);
    }

    function convert(bytes29 eventId, uint256 number, uint256 amount) external {
        uint256 id = Ids.conditionAt(uint256(bytes32(eventId)), number) + 1;
        Module module = _send(id, id, amount);
        NegRiskModule(address(module)).convert(msg.sender, eventId, number, amount);
    }

    function compress(uint256 positionId, uint256 amount) external {
        Module module = _send(positionId, positionId, amount);
        CombinatorialModule(address(module)).compress(msg.sender, positionId, amount);
    }

    function extract(uint256 positionId, uint256 at, uint256 amount) external {
        Module module = _send(positionId, positionId, amount);
        address[] memory to = new address[](2);
        (to[0], to[1]) = (msg.sender, msg.sender);
        CombinatorialModule(address(module)).extract(to, positionId, at, amount);
    }

    function wrap(uint256 underlyingId, uint256 amount) external {
        Module module = _send(underlyingId, Ids.COMBINATORIAL << 248, amount);
        CombinatorialModule(address(module)).wrap(msg.sender, underlyingId, amount);
    }

    function unwrap(uint256 positionId, uint256 amount) external {
        Module module = _send(positionId, positionId, amount);
        CombinatorialModule(address(module)).unwrap(msg.sender, positionId, amount);
    }

    function _send(uint256 positionId, uint256 to, uint256 amount) private returns (Module module) {
        module = _moduleOf(to);
        manager.transferFrom(msg.sender, address(module), positionId, amount);
    }

    function _moduleOf(uint256 id) private view returns (Module) {
        return Module(manager.moduleById(Ids.moduleOf(id)));
    }
}

/// Redeems for many owners in one transaction. Anybody may call it, the payouts go to the owners.
contract PositionRedeemer {
    PositionManager public immutable manager;

    event Redemption(address indexed from, uint256 indexed positionId, uint256 payout);

    constructor(PositionManager manager_) {
        manager = manager_;
    }

    function redeem(address[] calldata owners, uint256[] calldata positionIds) external {
        for (uint256 i = 0; i < owners.length; ++i) {
            uint256 id = positionIds[i];
            Module module = Module(manager.moduleById(Ids.moduleOf(id)));
            uint256 amount = manager.balanceOf(owners[i], id);
            if (amount > 0) manager.transferFrom(owners[i], address(module), id, amount);
            uint256 payout = amount == 0 ? 0 : module.redeem(owners[i], id, amount);
            emit Redemption(owners[i], id, payout);
        }
    }
}
