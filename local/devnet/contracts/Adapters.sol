// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {PusdToken} from "./PusdToken.sol";
import {ConditionalTokens} from "./ConditionalTokens.sol";
import {NegRiskAdapter} from "./NegRiskAdapter.sol";

/// What stands between traders and ConditionalTokens or the neg-risk adapter: it takes money or shares of the caller,
/// and hands over what it gets for them. Polymarket has a pair of each adapter, for ordinary and for neg-risk
/// conditions; here one serves both.
abstract contract Adapter {
    PusdToken public immutable collateral;
    ConditionalTokens public immutable conditionalTokens;
    NegRiskAdapter public immutable negRiskAdapter;

    constructor(NegRiskAdapter negRiskAdapter_) {
        negRiskAdapter = negRiskAdapter_;
        collateral = negRiskAdapter_.collateral();
        conditionalTokens = negRiskAdapter_.conditionalTokens();
    }

    function _split(address owner, bytes32 conditionId, uint256 amount) internal {
        collateral.transferFrom(owner, address(this), amount);
        if (_isNegRisk(conditionId)) negRiskAdapter.splitPosition(conditionId, amount);
        else conditionalTokens.splitPosition(conditionId, amount);
        _send(address(this), owner, _ids(conditionId), _each(2, amount));
    }

    function _merge(address owner, bytes32 conditionId, uint256 amount) internal {
        _send(owner, address(this), _ids(conditionId), _each(2, amount));
        if (_isNegRisk(conditionId)) negRiskAdapter.mergePositions(conditionId, amount);
        else conditionalTokens.mergePositions(conditionId, amount);
        collateral.transfer(owner, amount);
    }

    /// Redeems all shares of an owner.
    function _redeem(bytes32 conditionId, address owner)
        internal
        returns (uint256[] memory amounts, uint256 payout)
    {
        uint256[] memory ids = _ids(conditionId);
        amounts = new uint256[](2);
        for (uint256 k = 0; k < 2; ++k) amounts[k] = conditionalTokens.balanceOf(owner, ids[k]);
        _send(owner, address(this), ids, amounts);
        if (_isNegRisk(conditionId)) {
            negRiskAdapter.redeemPositions(conditionId, amounts);
        } else {
            address[] memory owners = new address[](1);
            owners[0] = address(this);
            conditionalTokens.redeemPositions(conditionId, owners);
        }
        payout = _payOut(owner);
    }

    /// Returns how much of each Yes the caller got.
    function _convert(bytes32 marketId, uint256 indexSet, uint256 amount)
        internal
        returns (uint256 out)
    {
        (uint256[] memory yes, uint256[] memory no) = _legs(marketId, indexSet);
        _send(msg.sender, address(this), no, _each(no.length, amount));
        negRiskAdapter.convertPositions(marketId, indexSet, amount);
        out = amount - amount * negRiskAdapter.feeBips(marketId) / 10_000;
        _send(address(this), msg.sender, yes, _each(yes.length, out));
        _payOut(msg.sender);
    }

    function _isNegRisk(bytes32 conditionId) internal view returns (bool) {
        return conditionalTokens.isNegRisk(conditionId);
    }

    /// Pays what this contract has: it keeps no money.
    function _payOut(address to) private returns (uint256 amount) {
        amount = collateral.balanceOf(address(this));
        if (amount > 0) collateral.transfer(to, amount);
    }

    /// Yes of the questions outside of the set, and No of those in it.
    function _legs(bytes32 marketId, uint256 indexSet)
        private
        view
        returns (uint256[] memory yes, uint256[] memory no)
    {
        uint256 count = negRiskAdapter.questionCount(marketId);
        uint256 noCount = 0;
        for (uint256 i = 0; i < count; ++i) noCount += indexSet >> i & 1;
        (yes, no) = (new uint256[](count - noCount), new uint256[](noCount));
        uint256 found = 0;
        for (uint256 i = 0; i < count; ++i) {
            uint256[2] memory ids = negRiskAdapter.positionIds(marketId, i);
            if (indexSet >> i & 1 == 1) no[found++] = ids[1];
            else yes[i - found] = ids[0];
        }
    }

    function _send(address from, address to, uint256[] memory ids, uint256[] memory amounts)
        private
    {
        conditionalTokens.safeBatchTransferFrom(from, to, ids, amounts, "");
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
}

/// The first generation: it has no events. An exchange mints and merges here, and anybody else may, too.
contract SilentAdapter is Adapter {
    constructor(NegRiskAdapter negRiskAdapter_) Adapter(negRiskAdapter_) {}

    function splitPosition(bytes32 conditionId, uint256 amount) external {
        _split(msg.sender, conditionId, amount);
    }

    function mergePositions(bytes32 conditionId, uint256 amount) external {
        _merge(msg.sender, conditionId, amount);
    }

    function redeemPositions(bytes32 conditionId) external {
        _redeem(conditionId, msg.sender);
    }

    function convertPositions(bytes32 marketId, uint256 indexSet, uint256 amount) external {
        _convert(marketId, indexSet, amount);
    }
}

/// The second generation, for users. Where the real one logs its event among the transfers is not known.
contract LoggingAdapter is Adapter {
    event PositionSplit(address indexed initiator, bytes32 indexed conditionId, uint256 amount);
    event PositionsMerged(address indexed initiator, bytes32 indexed conditionId, uint256 amount);
    event PositionsRedeemed(
        address indexed initiator, bytes32 indexed conditionId, uint256[] amounts, uint256 payout
    );
    event PositionsConverted(
        address indexed initiator,
        bytes32 indexed marketId,
        uint256 indexed indexSet,
        uint256 amount,
        uint256 amountOut
    );

    error NotAdmin();

    constructor(NegRiskAdapter negRiskAdapter_) Adapter(negRiskAdapter_) {}

    modifier onlyAdmin() {
        if (msg.sender != conditionalTokens.admin()) revert NotAdmin();
        _;
    }

    function splitPosition(bytes32 conditionId, uint256 amount) external {
        _split(msg.sender, conditionId, amount);
        emit PositionSplit(msg.sender, conditionId, amount);
    }

    function mergePositions(bytes32 conditionId, uint256 amount) external {
        _merge(msg.sender, conditionId, amount);
        emit PositionsMerged(msg.sender, conditionId, amount);
    }

    /// Trader wallets have no keys, so the admin calls for them. The logs are those of their own calls.
    function splitFor(address owner, bytes32 conditionId, uint256 amount) external onlyAdmin {
        _split(owner, conditionId, amount);
        emit PositionSplit(owner, conditionId, amount);
    }

    function mergeFor(address owner, bytes32 conditionId, uint256 amount) external onlyAdmin {
        _merge(owner, conditionId, amount);
        emit PositionsMerged(owner, conditionId, amount);
    }

    function redeemPositions(bytes32 conditionId) external {
        (uint256[] memory amounts, uint256 payout) = _redeem(conditionId, msg.sender);
        emit PositionsRedeemed(msg.sender, conditionId, amounts, payout);
    }

    function convertPositions(bytes32 marketId, uint256 indexSet, uint256 amount) external {
        uint256 out = _convert(marketId, indexSet, amount);
        emit PositionsConverted(msg.sender, marketId, indexSet, amount, out);
    }
}

/// Redeems for many owners in one transaction; losing shares, too. Anybody may call it, the payouts go to the owners.
contract Redeemer is Adapter {
    event BinaryRedemption(address indexed from, bytes32 indexed conditionId, uint256 payout);
    event NegRiskRedemption(address indexed from, bytes32 indexed conditionId, uint256 payout);

    constructor(NegRiskAdapter negRiskAdapter_) Adapter(negRiskAdapter_) {}

    function redeem(address[] calldata owners, bytes32[] calldata conditionIds) external {
        for (uint256 i = 0; i < owners.length; ++i) {
            (, uint256 payout) = _redeem(conditionIds[i], owners[i]);
            if (_isNegRisk(conditionIds[i])) {
                emit NegRiskRedemption(owners[i], conditionIds[i], payout);
            } else {
                emit BinaryRedemption(owners[i], conditionIds[i], payout);
            }
        }
    }
}
