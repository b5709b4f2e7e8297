// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {PusdToken} from "./PusdToken.sol";
import {PositionIds} from "./PositionIds.sol";

/// The devnet's ConditionalTokens: conditions with two outcomes, balances per (owner, position id),
/// split, merge and redemption against pUSD. Events are those of the Gnosis contract, except that no
/// ERC-1155 transfer events are written: nothing reads them and they would be half of all logs.
/// Spenders named by the admin stand in for approvals, and anyone may redeem for any owner, because
/// trader wallets of the devnet have no keys; the payout always goes to the owner.
contract ConditionalTokens {
    PusdToken public immutable collateral;
    address public immutable admin;

    mapping(bytes32 => uint256[]) private _payouts;
    mapping(bytes32 => uint256) public payoutDenominator;
    mapping(bytes32 => uint256[2]) private _positionIds;
    mapping(uint256 => mapping(address => uint256)) private _balances;
    mapping(address => bool) public isSpender;

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
    error InsufficientPosition(address owner, uint256 id, uint256 balance, uint256 amount);

    constructor(PusdToken collateral_) {
        collateral = collateral_;
        admin = msg.sender;
    }

    function setSpenders(address[] calldata spenders) external {
        if (msg.sender != admin) revert NotAdmin();
        for (uint256 i = 0; i < spenders.length; ++i) isSpender[spenders[i]] = true;
    }

    function prepareCondition(address oracle, bytes32 questionId, uint256 outcomeSlotCount) external {
        if (outcomeSlotCount != 2) revert NotTwoOutcomes();
        bytes32 conditionId = PositionIds.conditionId(oracle, questionId, outcomeSlotCount);
        if (_payouts[conditionId].length != 0) revert AlreadyPrepared();
        _payouts[conditionId] = new uint256[](outcomeSlotCount);
        address token = address(collateral);
        _positionIds[conditionId] = [
            PositionIds.positionId(token, PositionIds.collectionId(conditionId, 1)),
            PositionIds.positionId(token, PositionIds.collectionId(conditionId, 2))
        ];
        emit ConditionPreparation(conditionId, oracle, questionId, outcomeSlotCount);
    }

    /// The caller is the oracle of the condition.
    function reportPayouts(bytes32 questionId, uint256[] calldata payouts) external {
        bytes32 conditionId = PositionIds.conditionId(msg.sender, questionId, payouts.length);
        if (_payouts[conditionId].length != payouts.length) revert NotPrepared();
        if (payoutDenominator[conditionId] != 0) revert AlreadyResolved();
        uint256 sum = 0;
        for (uint256 i = 0; i < payouts.length; ++i) sum += payouts[i];
        if (sum == 0) revert NoPayout();
        _payouts[conditionId] = payouts;
        payoutDenominator[conditionId] = sum;
        emit ConditionResolution(conditionId, msg.sender, questionId, payouts.length, payouts);
    }

    function splitPosition(bytes32 conditionId, uint256 amount) external {
        uint256[2] storage ids = _prepared(conditionId);
        collateral.transferFrom(msg.sender, address(this), amount);
        _balances[ids[0]][msg.sender] += amount;
        _balances[ids[1]][msg.sender] += amount;
        emit PositionSplit(msg.sender, address(collateral), 0, conditionId, _both(), amount);
    }

    function mergePositions(bytes32 conditionId, uint256 amount) external {
        uint256[2] storage ids = _prepared(conditionId);
        _take(msg.sender, ids[0], amount);
        _take(msg.sender, ids[1], amount);
        collateral.transfer(msg.sender, amount);
        emit PositionsMerge(msg.sender, address(collateral), 0, conditionId, _both(), amount);
    }

    /// Rounds each owner's payout down, as the Gnosis contract does: the remainder stays here.
    function redeemPositions(bytes32 conditionId, address[] calldata owners) external {
        uint256 denominator = payoutDenominator[conditionId];
        if (denominator == 0) revert NotResolved();
        uint256[2] storage ids = _positionIds[conditionId];
        uint256[] storage payouts = _payouts[conditionId];
        for (uint256 o = 0; o < owners.length; ++o) {
            uint256 payout = 0;
            for (uint256 k = 0; k < 2; ++k) {
                uint256 held = _balances[ids[k]][owners[o]];
                if (held == 0) continue;
                payout += held * payouts[k] / denominator;
                _balances[ids[k]][owners[o]] = 0;
            }
            if (payout > 0) collateral.transfer(owners[o], payout);
            emit PayoutRedemption(owners[o], address(collateral), 0, conditionId, _both(), payout);
        }
    }

    function safeTransferFrom(address from, address to, uint256 id, uint256 amount, bytes calldata)
        external
    {
        if (msg.sender != from && !isSpender[msg.sender]) revert NotSpender();
        _take(from, id, amount);
        _balances[id][to] += amount;
    }

    function balanceOf(address owner, uint256 id) external view returns (uint256) {
        return _balances[id][owner];
    }

    function balanceOfBatch(address[] calldata owners, uint256[] calldata ids)
        external
        view
        returns (uint256[] memory balances)
    {
        balances = new uint256[](owners.length);
        for (uint256 i = 0; i < owners.length; ++i) balances[i] = _balances[ids[i]][owners[i]];
    }

    function getOutcomeSlotCount(bytes32 conditionId) external view returns (uint256) {
        return _payouts[conditionId].length;
    }

    function payoutNumerators(bytes32 conditionId, uint256 index) external view returns (uint256) {
        return _payouts[conditionId][index];
    }

    function positionIds(bytes32 conditionId) external view returns (uint256[2] memory) {
        return _positionIds[conditionId];
    }

    /// The formula for any collateral, so that it can be held against ids of the real chain.
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

    function _prepared(bytes32 conditionId) private view returns (uint256[2] storage) {
        if (_payouts[conditionId].length == 0) revert NotPrepared();
        return _positionIds[conditionId];
    }

    function _take(address owner, uint256 id, uint256 amount) private {
        uint256 balance = _balances[id][owner];
        if (balance < amount) revert InsufficientPosition(owner, id, balance, amount);
        unchecked {
            _balances[id][owner] = balance - amount;
        }
    }

    function _both() private pure returns (uint256[] memory indexSets) {
        indexSets = new uint256[](2);
        indexSets[0] = 1;
        indexSets[1] = 2;
    }
}
