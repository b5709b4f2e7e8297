// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {PusdToken} from "./PusdToken.sol";
import {ConditionalTokens} from "./ConditionalTokens.sol";
import {WrappedCollateral} from "./WrappedCollateral.sol";

/// The devnet's neg-risk adapter: markets of several questions of which at most one is answered with Yes. Its events,
/// their order and that of the transfers are those of Polymarket's adapter. It leaves out approvals, admins, and the
/// check that no second question is answered with Yes, which its oracle must see to.
contract NegRiskAdapter {
    uint256 private constant FEE_DENOMINATOR = 10_000;
    uint256 private constant QUESTIONS_MAX = 255;
    /// Converted No stays here for ever.
    address public constant BURN = address(bytes20(keccak256("NO_TOKEN_BURN_ADDRESS")));

    PusdToken public immutable collateral;
    ConditionalTokens public immutable conditionalTokens;
    WrappedCollateral public immutable wrapped;
    /// Takes the fees of conversions.
    address public immutable vault;

    struct Market {
        address oracle;
        uint16 feeBips;
        uint8 questionCount;
    }

    mapping(bytes32 => Market) private _markets;

    /// What a conversion moves: No of the set, and both outcomes of the other questions.
    struct Legs {
        uint256[] no;
        uint256[] otherYes;
        uint256[] otherNo;
    }

    event MarketPrepared(
        bytes32 indexed marketId, address indexed oracle, uint256 feeBips, bytes data
    );
    event QuestionPrepared(
        bytes32 indexed marketId, bytes32 indexed questionId, uint256 index, bytes data
    );
    event OutcomeReported(bytes32 indexed marketId, bytes32 indexed questionId, bool outcome);
    event PositionSplit(address indexed stakeholder, bytes32 indexed conditionId, uint256 amount);
    event PositionsMerge(address indexed stakeholder, bytes32 indexed conditionId, uint256 amount);
    event PositionsConverted(
        address indexed stakeholder,
        bytes32 indexed marketId,
        uint256 indexed indexSet,
        uint256 amount
    );
    event PayoutRedemption(
        address indexed redeemer, bytes32 indexed conditionId, uint256[] amounts, uint256 payout
    );

    error FeeTooHigh();
    error MarketExists();
    error NotOracle();
    error TooManyQuestions();
    error InvalidIndexSet();

    constructor(
        PusdToken collateral_,
        ConditionalTokens conditionalTokens_,
        WrappedCollateral wrapped_,
        address vault_
    ) {
        (collateral, conditionalTokens) = (collateral_, conditionalTokens_);
        (wrapped, vault) = (wrapped_, vault_);
        wrapped_.approve(address(conditionalTokens_), type(uint256).max);
    }

    /// The caller is the oracle of the market. The last byte of its id is 0.
    function prepareMarket(uint16 fee, bytes calldata data) external {
        if (fee > FEE_DENOMINATOR) revert FeeTooHigh();
        bytes32 marketId = _withoutLastByte(keccak256(abi.encode(msg.sender, fee, data)));
        if (_markets[marketId].oracle != address(0)) revert MarketExists();
        _markets[marketId] = Market(msg.sender, fee, 0);
        emit MarketPrepared(marketId, msg.sender, fee, data);
    }

    function prepareQuestion(bytes32 marketId, bytes calldata data) external {
        Market storage market = _markets[marketId];
        if (market.oracle != msg.sender) revert NotOracle();
        uint8 index = market.questionCount++;
        if (index >= QUESTIONS_MAX) revert TooManyQuestions();
        bytes32 questionId = _questionId(marketId, index);
        conditionalTokens.prepareCondition(address(this), questionId, 2);
        emit QuestionPrepared(marketId, questionId, index, data);
    }

    function reportOutcome(bytes32 questionId, bool outcome) external {
        bytes32 marketId = _withoutLastByte(questionId);
        if (_markets[marketId].oracle != msg.sender) revert NotOracle();
        uint256[] memory payouts = new uint256[](2);
        payouts[outcome ? 0 : 1] = 1;
        conditionalTokens.reportPayouts(questionId, payouts);
        emit OutcomeReported(marketId, questionId, outcome);
    }

    function splitPosition(bytes32 conditionId, uint256 amount) external {
        collateral.transferFrom(msg.sender, address(wrapped), amount);
        wrapped.mint(amount);
        conditionalTokens.splitPosition(conditionId, amount);
        conditionalTokens.safeBatchTransferFrom(
            address(this), msg.sender, _ids(conditionId), _each(2, amount), ""
        );
        emit PositionSplit(msg.sender, conditionId, amount);
    }

    function mergePositions(bytes32 conditionId, uint256 amount) external {
        conditionalTokens.safeBatchTransferFrom(
            msg.sender, address(this), _ids(conditionId), _each(2, amount), ""
        );
        conditionalTokens.mergePositions(conditionId, amount);
        wrapped.unwrap(msg.sender, amount);
        emit PositionsMerge(msg.sender, conditionId, amount);
    }

    function redeemPositions(bytes32 conditionId, uint256[] calldata amounts) external {
        conditionalTokens.safeBatchTransferFrom(
            msg.sender, address(this), _ids(conditionId), amounts, ""
        );
        address[] memory owners = new address[](1);
        owners[0] = address(this);
        conditionalTokens.redeemPositions(conditionId, owners);
        uint256 payout = wrapped.balanceOf(address(this));
        if (payout > 0) wrapped.unwrap(msg.sender, payout);
        emit PayoutRedemption(msg.sender, conditionId, amounts, payout);
    }

    /// No of k questions becomes Yes of all others, and k − 1 times as much money, both less the fee.
    function convertPositions(bytes32 marketId, uint256 indexSet, uint256 amount) external {
        Market storage market = _markets[marketId];
        uint256 count = market.questionCount;
        if (count < 2 || indexSet == 0 || indexSet >> count != 0) revert InvalidIndexSet();
        if (amount == 0) return;
        Legs memory legs = _mint(marketId, indexSet, count, amount);
        _send(msg.sender, BURN, legs.no, amount);
        _send(address(this), BURN, legs.otherNo, amount);
        uint256 fee = amount * market.feeBips / FEE_DENOMINATOR;
        uint256 times = legs.no.length - 1;
        if (times * fee > 0) wrapped.release(vault, times * fee);
        if (times > 0) wrapped.release(msg.sender, times * (amount - fee));
        if (legs.otherYes.length > 0) {
            if (fee > 0) _send(address(this), vault, legs.otherYes, fee);
            _send(address(this), msg.sender, legs.otherYes, amount - fee);
        }
        emit PositionsConverted(msg.sender, marketId, indexSet, amount);
    }

    function questionCount(bytes32 marketId) external view returns (uint256) {
        return _markets[marketId].questionCount;
    }

    function feeBips(bytes32 marketId) external view returns (uint256) {
        return _markets[marketId].feeBips;
    }

    /// The token ids of Yes and No of a question.
    function positionIds(bytes32 marketId, uint256 index) public view returns (uint256[2] memory) {
        return conditionalTokens.positionIds(_conditionId(_questionId(marketId, index)));
    }

    /// Mints both outcomes of the questions outside of the set.
    function _mint(bytes32 marketId, uint256 indexSet, uint256 count, uint256 amount)
        private
        returns (Legs memory legs)
    {
        uint256 noCount = 0;
        for (uint256 i = 0; i < count; ++i) noCount += indexSet >> i & 1;
        uint256 others = count - noCount;
        legs = Legs(new uint256[](noCount), new uint256[](others), new uint256[](others));
        wrapped.mint(others * amount);
        uint256 no = 0;
        for (uint256 i = 0; i < count; ++i) {
            uint256[2] memory ids = positionIds(marketId, i);
            if (indexSet >> i & 1 == 1) {
                legs.no[no++] = ids[1];
            } else {
                (legs.otherYes[i - no], legs.otherNo[i - no]) = (ids[0], ids[1]);
                conditionalTokens.splitPosition(_conditionId(_questionId(marketId, i)), amount);
            }
        }
    }

    function _send(address from, address to, uint256[] memory ids, uint256 amount) private {
        conditionalTokens.safeBatchTransferFrom(from, to, ids, _each(ids.length, amount), "");
    }

    function _ids(bytes32 conditionId) private view returns (uint256[] memory ids) {
        ids = new uint256[](2);
        uint256[2] memory both = conditionalTokens.positionIds(conditionId);
        (ids[0], ids[1]) = (both[0], both[1]);
    }

    function _each(uint256 count, uint256 amount) private pure returns (uint256[] memory amounts) {
        amounts = new uint256[](count);
        for (uint256 i = 0; i < count; ++i) amounts[i] = amount;
    }

    function _questionId(bytes32 marketId, uint256 index) private pure returns (bytes32) {
        return marketId | bytes32(index);
    }

    function _conditionId(bytes32 questionId) private view returns (bytes32) {
        return keccak256(abi.encodePacked(address(this), questionId, uint256(2)));
    }

    function _withoutLastByte(bytes32 id) private pure returns (bytes32) {
        return id >> 8 << 8;
    }
}
