// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Token} from "./Token.sol";
import {PositionIds} from "./PositionIds.sol";

/// The devnet's ConditionalTokens: conditions with two outcomes, balances per (owner, position id),
/// split, merge and redemption. Events are those of the Gnosis contract and in its order. The collateral follows from the
/// oracle: wrapped collateral if that is the neg-risk adapter, else pUSD. There are no nested positions.
/// Trader wallets of the devnet have no keys. So spenders named by the admin replace approvals, and anyone
/// may redeem for any owner; the payout always goes to the owner.
///
/// anvil copies and hashes the whole storage for every block, including slots that became zero. So no mapping
/// here grows with every market: conditions and balances are in tables whose slots are reused.
contract ConditionalTokens {
    Token public immutable collateral;
    /// The oracle of neg-risk conditions, and their collateral.
    address public immutable negRiskAdapter;
    Token public immutable wrapped;
    address public immutable admin;

    mapping(address => bool) public isSpender;

    struct Condition {
        bytes32 id;
        uint256[2] positionIds;
        uint96 payout0;
        uint96 payout1;
        /// Time of the resolution; 0 if unresolved.
        uint56 resolvedAt;
        bool isNegRisk;
    }

    /// A condition is in the bucket of its id. A new one replaces the one that was resolved first.
    uint256 private constant CONDITION_BUCKETS = 8;
    uint256 private constant CONDITIONS_PER_BUCKET = 64;
    Condition[CONDITION_BUCKETS * CONDITIONS_PER_BUCKET] private _conditions;

    /// A balance that is not zero is in the bucket of its position and owner, without gaps: the upper 64 bits
    /// are a hash of the two, the lower 64 the balance.
    uint256 private constant BALANCE_BUCKETS = 512;
    uint256 private constant BALANCES_PER_BUCKET = 1024;
    uint128[BALANCE_BUCKETS * BALANCES_PER_BUCKET] private _balances;

    event ConditionPreparation(
        bytes32 indexed conditionId,
        address indexed oracle,
        bytes32 indexed questionId,
        uint256 outcomeSlotCount
    );
    event ConditionResolution(
        bytes32 indexed conditionId,
        address indexed oracle,
        bytes32 indexed questionId,
        uint256 outcomeSlotCount,
        uint256[] payoutNumerators
    );
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
    event PositionSplit(
        address indexed stakeholder,
        address collateralToken,
        bytes32 indexed parentCollectionId,
        bytes32 indexed conditionId,
        uint256[] partition,
        uint256 amount
    );
    event PositionsMerge(
        address indexed stakeholder,
        address collateralToken,
        bytes32 indexed parentCollectionId,
        bytes32 indexed conditionId,
        uint256[] partition,
        uint256 amount
    );
    event PayoutRedemption(
        address indexed redeemer,
        address indexed collateralToken,
        bytes32 indexed parentCollectionId,
        bytes32 conditionId,
        uint256[] indexSets,
        uint256 payout
    );

    error NotAdmin();
    error NotSpender();
    error NotTwoOutcomes();
    error AlreadyPrepared();
    error NotPrepared();
    error AlreadyResolved();
    error NotResolved();
    error NoPayout();
    error MismatchedLengths();
    error TooManyConditions();
    error TooManyBalances();
    error AmountTooLarge(uint256 amount);
    error InsufficientPosition(address owner, uint256 id, uint256 balance, uint256 amount);

    constructor(Token collateral_, address negRiskAdapter_, Token wrapped_) {
        (collateral, negRiskAdapter, wrapped) = (collateral_, negRiskAdapter_, wrapped_);
        admin = msg.sender;
    }

    function setSpenders(address[] calldata spenders) external {
        if (msg.sender != admin) revert NotAdmin();
        for (uint256 i = 0; i < spenders.length; ++i) isSpender[spenders[i]] = true;
    }

    function prepareCondition(address oracle, bytes32 questionId, uint256 outcomeSlotCount) external {
        if (outcomeSlotCount != 2) revert NotTwoOutcomes();
        bytes32 conditionId = PositionIds.conditionId(oracle, questionId, outcomeSlotCount);
        Condition storage condition = _place(conditionId);
        if (condition.id == conditionId) revert AlreadyPrepared();
        condition.id = conditionId;
        condition.isNegRisk = oracle == negRiskAdapter;
        address token = address(_collateral(condition));
        condition.positionIds = [
            PositionIds.positionId(token, PositionIds.collectionId(conditionId, 1)),
            PositionIds.positionId(token, PositionIds.collectionId(conditionId, 2))
        ];
        (condition.payout0, condition.payout1, condition.resolvedAt) = (0, 0, 0);
        emit ConditionPreparation(conditionId, oracle, questionId, outcomeSlotCount);
    }

    /// The caller is the oracle of the condition.
    function reportPayouts(bytes32 questionId, uint256[] calldata payouts) external {
        if (payouts.length != 2) revert NotPrepared();
        bytes32 conditionId = PositionIds.conditionId(msg.sender, questionId, payouts.length);
        Condition storage condition = _prepared(conditionId);
        if (condition.resolvedAt != 0) revert AlreadyResolved();
        uint256 sum = payouts[0] + payouts[1];
        if (sum == 0) revert NoPayout();
        if (sum > type(uint96).max) revert AmountTooLarge(sum);
        condition.payout0 = uint96(payouts[0]);
        condition.payout1 = uint96(payouts[1]);
        condition.resolvedAt = uint56(block.timestamp);
        emit ConditionResolution(conditionId, msg.sender, questionId, payouts.length, payouts);
    }

    function splitPosition(bytes32 conditionId, uint256 amount) external {
        Condition storage condition = _prepared(conditionId);
        uint256[2] storage ids = condition.positionIds;
        Token token = _collateral(condition);
        token.transferFrom(msg.sender, address(this), amount);
        _give(msg.sender, ids[0], amount);
        _give(msg.sender, ids[1], amount);
        _emitBoth(address(0), msg.sender, ids, amount);
        emit PositionSplit(msg.sender, address(token), 0, conditionId, _both(), amount);
    }

    function mergePositions(bytes32 conditionId, uint256 amount) external {
        Condition storage condition = _prepared(conditionId);
        uint256[2] storage ids = condition.positionIds;
        Token token = _collateral(condition);
        _take(msg.sender, ids[0], amount);
        _take(msg.sender, ids[1], amount);
        _emitBoth(msg.sender, address(0), ids, amount);
        token.transfer(msg.sender, amount);
        emit PositionsMerge(msg.sender, address(token), 0, conditionId, _both(), amount);
    }

    /// Rounds each owner's payout down, as the Gnosis contract does: the remainder stays here.
    function redeemPositions(bytes32 conditionId, address[] calldata owners) external {
        Condition storage condition = _place(conditionId);
        if (condition.id != conditionId || condition.resolvedAt == 0) revert NotResolved();
        uint256 denominator = _denominator(condition);
        Token token = _collateral(condition);
        for (uint256 o = 0; o < owners.length; ++o) {
            uint256 payout = 0;
            for (uint256 k = 0; k < 2; ++k) {
                (uint256 place, uint256 tag, uint256 held) =
                    _find(condition.positionIds[k], owners[o]);
                if (held == 0) continue;
                payout += held * _payout(condition, k) / denominator;
                _store(place, tag, 0);
                emit TransferSingle(
                    msg.sender, owners[o], address(0), condition.positionIds[k], held
                );
            }
            if (payout > 0) token.transfer(owners[o], payout);
            emit PayoutRedemption(owners[o], address(token), 0, conditionId, _both(), payout);
        }
    }

    function safeTransferFrom(address from, address to, uint256 id, uint256 amount, bytes calldata)
        external
    {
        if (msg.sender != from && !isSpender[msg.sender]) revert NotSpender();
        _take(from, id, amount);
        _give(to, id, amount);
        emit TransferSingle(msg.sender, from, to, id, amount);
    }

    function safeBatchTransferFrom(
        address from,
        address to,
        uint256[] calldata ids,
        uint256[] calldata amounts,
        bytes calldata
    ) external {
        if (msg.sender != from && !isSpender[msg.sender]) revert NotSpender();
        if (ids.length != amounts.length) revert MismatchedLengths();
        for (uint256 i = 0; i < ids.length; ++i) {
            _take(from, ids[i], amounts[i]);
            _give(to, ids[i], amounts[i]);
        }
        emit TransferBatch(msg.sender, from, to, ids, amounts);
    }

    function balanceOf(address owner, uint256 id) public view returns (uint256) {
        (,, uint256 balance) = _find(id, owner);
        return balance;
    }

    function balanceOfBatch(address[] calldata owners, uint256[] calldata ids)
        external
        view
        returns (uint256[] memory balances)
    {
        balances = new uint256[](owners.length);
        for (uint256 i = 0; i < owners.length; ++i) balances[i] = balanceOf(owners[i], ids[i]);
    }

    /// These five are zero for a condition that is unknown, or no longer known.
    function getOutcomeSlotCount(bytes32 conditionId) external view returns (uint256) {
        return _place(conditionId).id == conditionId ? 2 : 0;
    }

    function payoutNumerators(bytes32 conditionId, uint256 index) external view returns (uint256) {
        Condition storage condition = _place(conditionId);
        return condition.id == conditionId ? _payout(condition, index) : 0;
    }

    function payoutDenominator(bytes32 conditionId) external view returns (uint256) {
        Condition storage condition = _place(conditionId);
        return condition.id == conditionId ? _denominator(condition) : 0;
    }

    function positionIds(bytes32 conditionId) external view returns (uint256[2] memory ids) {
        Condition storage condition = _place(conditionId);
        if (condition.id == conditionId) ids = condition.positionIds;
    }

    function isNegRisk(bytes32 conditionId) external view returns (bool) {
        Condition storage condition = _place(conditionId);
        return condition.id == conditionId && condition.isNegRisk;
    }

    /// The formula for any collateral, so that it can be compared with ids of the real chain.
    function derivePositionIds(address token, bytes32 conditionId)
        external
        view
        returns (uint256, uint256)
    {
        return (
            PositionIds.positionId(token, PositionIds.collectionId(conditionId, 1)),
            PositionIds.positionId(token, PositionIds.collectionId(conditionId, 2))
        );
    }

    function _prepared(bytes32 conditionId) private view returns (Condition storage condition) {
        condition = _place(conditionId);
        if (condition.id != conditionId) revert NotPrepared();
    }

    /// Where a condition is or would be stored.
    function _place(bytes32 conditionId) private view returns (Condition storage) {
        uint256 first = uint256(conditionId) % CONDITION_BUCKETS * CONDITIONS_PER_BUCKET;
        uint256 place = type(uint256).max;
        uint256 oldest = type(uint256).max;
        for (uint256 i = first; i < first + CONDITIONS_PER_BUCKET; ++i) {
            bytes32 id = _conditions[i].id;
            if (id == conditionId || id == 0) return _conditions[i];
            uint256 resolvedAt = _conditions[i].resolvedAt;
            if (resolvedAt != 0 && resolvedAt < oldest) (place, oldest) = (i, resolvedAt);
        }
        if (place == type(uint256).max) revert TooManyConditions();
        return _conditions[place];
    }

    function _collateral(Condition storage condition) private view returns (Token) {
        return condition.isNegRisk ? wrapped : collateral;
    }

    function _denominator(Condition storage condition) private view returns (uint256) {
        return uint256(condition.payout0) + condition.payout1;
    }

    function _payout(Condition storage condition, uint256 index) private view returns (uint256) {
        return index == 0 ? condition.payout0 : condition.payout1;
    }

    function _give(address owner, uint256 id, uint256 amount) private {
        (uint256 place, uint256 tag, uint256 balance) = _find(id, owner);
        _store(place, tag, balance + amount);
    }

    function _take(address owner, uint256 id, uint256 amount) private {
        (uint256 place, uint256 tag, uint256 balance) = _find(id, owner);
        if (balance < amount) revert InsufficientPosition(owner, id, balance, amount);
        _store(place, tag, balance - amount);
    }

    /// Where a balance is or would be stored.
    function _find(uint256 id, address owner)
        private
        view
        returns (uint256 place, uint256 tag, uint256 balance)
    {
        uint256 hash = uint256(keccak256(abi.encode(id, owner)));
        tag = uint64(hash);
        uint256 first = (hash >> 64) % BALANCE_BUCKETS * BALANCES_PER_BUCKET;
        for (place = first; place < first + BALANCES_PER_BUCKET; ++place) {
            uint256 entry = _balances[place];
            if (entry == 0) return (place, tag, 0);
            if (entry >> 64 == tag) return (place, tag, uint64(entry));
        }
        revert TooManyBalances();
    }

    /// When an entry becomes zero, the last one of the bucket fills its gap.
    function _store(uint256 place, uint256 tag, uint256 balance) private {
        if (balance > type(uint64).max) revert AmountTooLarge(balance);
        if (balance > 0) {
            _balances[place] = uint128(tag << 64 | balance);
            return;
        }
        uint256 last = place;
        while ((last + 1) % BALANCES_PER_BUCKET != 0 && _balances[last + 1] != 0) ++last;
        _balances[place] = _balances[last];
        _balances[last] = 0;
    }

    function _emitBoth(address from, address to, uint256[2] storage ids, uint256 amount) private {
        uint256[] memory both = new uint256[](2);
        uint256[] memory amounts = new uint256[](2);
        (both[0], both[1], amounts[0], amounts[1]) = (ids[0], ids[1], amount, amount);
        emit TransferBatch(msg.sender, from, to, both, amounts);
    }

    function _both() private pure returns (uint256[] memory indexSets) {
        indexSets = new uint256[](2);
        indexSets[0] = 1;
        indexSets[1] = 2;
    }
}
