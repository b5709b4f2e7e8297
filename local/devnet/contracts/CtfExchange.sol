// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {PusdToken} from "./PusdToken.sol";
import {ConditionalTokens} from "./ConditionalTokens.sol";

struct Order {
    uint256 salt;
    address maker;
    address signer;
    uint256 tokenId;
    uint256 makerAmount;
    uint256 takerAmount;
    uint8 side;
    uint8 signatureType;
    uint256 timestamp;
    bytes32 metadata;
    bytes32 builder;
    bytes signature;
}

/// Mints and merges pairs for the exchange.
interface OutcomeTokenFactory {
    function splitPosition(bytes32 conditionId, uint256 amount) external;
    function mergePositions(bytes32 conditionId, uint256 amount) external;
}

/// The devnet's exchange: `matchOrders`, the order hash and the events of Polymarket's CTF Exchange V2,
/// in its order. Money and shares really move through pUSD and ConditionalTokens, and the filled amounts of the
/// newest orders are stored. SIGNATURES ARE NOT CHECKED: an operator can trade for any wallet, so this contract
/// must never hold anything of value. Deployed three times: as the ordinary exchange and as that of the events of which
/// one market wins, which both mint and merge with ConditionalTokens, and as that of the neg-risk adapter's markets,
/// which does so with an adapter. Unlike on Polymarket, makers give their shares before the taker, and shares of a
/// seller pass through the exchange also if the buyer is on the other side.
contract CtfExchange {
    uint8 private constant BUY = 0;
    uint8 private constant SELL = 1;
    bytes32 private constant ORDER_TYPEHASH = keccak256(
        "Order(uint256 salt,address maker,address signer,uint256 tokenId,uint256 makerAmount,uint256 takerAmount,uint8 side,uint8 signatureType,uint256 timestamp,bytes32 metadata,bytes32 builder)"
    );

    PusdToken public immutable collateral;
    ConditionalTokens public immutable conditionalTokens;
    OutcomeTokenFactory public immutable factory;
    address public immutable admin;
    address public immutable feeReceiver;
    bytes32 public immutable domainSeparator;
    mapping(address => bool) public isOperator;
    /// The filled amounts of orders. To keep the state from growing with every order, an order is forgotten
    /// when another one takes its slot. The upper 160 bits of a slot are from the order's hash, the lower 96
    /// are its filled amount in its making unit.
    uint256 private constant SLOTS = 512;
    uint256[SLOTS] private _filled;

    /// A maker order while it is matched.
    struct Fill {
        bytes32 orderHash;
        uint256 taking;
    }

    /// Sums over the makers; "same" and "opposite" compare the maker's side with the taker's.
    struct Sums {
        uint256 oppositeMaking;
        uint256 oppositeTaking;
        uint256 sameMaking;
        uint256 sameTaking;
    }

    event OrderFilled(
        bytes32 indexed orderHash,
        address indexed maker,
        address indexed taker,
        uint8 side,
        uint256 tokenId,
        uint256 makerAmountFilled,
        uint256 takerAmountFilled,
        uint256 fee,
        bytes32 builder,
        bytes32 metadata
    );
    event OrdersMatched(
        bytes32 indexed takerOrderHash,
        address indexed takerOrderMaker,
        uint8 side,
        uint256 tokenId,
        uint256 makerAmountFilled,
        uint256 takerAmountFilled
    );
    event FeeCharged(address indexed receiver, uint256 amount);
    event NewOperator(address indexed operator, address indexed admin);
    event RemovedOperator(address indexed operator, address indexed admin);

    error NotAdmin();
    error NotOperator();
    error MismatchedLengths();
    error InvalidSide();
    error ZeroMakerAmount();
    error Overfilled(bytes32 orderHash);
    error MismatchedTokens();
    error NotCrossing();
    error TooLittleReceived();
    error FeeExceedsProceeds();

    constructor(
        PusdToken collateral_,
        ConditionalTokens conditionalTokens_,
        OutcomeTokenFactory factory_,
        address feeReceiver_,
        address[] memory operators
    ) {
        collateral = collateral_;
        conditionalTokens = conditionalTokens_;
        factory = factory_;
        feeReceiver = feeReceiver_;
        admin = msg.sender;
        domainSeparator = keccak256(
            abi.encode(
                keccak256(
                    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
                ),
                keccak256("Polymarket CTF Exchange"),
                keccak256("2"),
                block.chainid,
                address(this)
            )
        );
        for (uint256 i = 0; i < operators.length; ++i) _addOperator(operators[i]);
    }

    function addOperator(address operator) external {
        if (msg.sender != admin) revert NotAdmin();
        _addOperator(operator);
    }

    function removeOperator(address operator) external {
        if (msg.sender != admin) revert NotAdmin();
        isOperator[operator] = false;
        emit RemovedOperator(operator, msg.sender);
    }

    function matchOrders(
        bytes32 conditionId,
        Order calldata takerOrder,
        Order[] calldata makerOrders,
        uint256 takerFillAmount,
        uint256[] calldata makerFillAmounts,
        uint256 takerFeeAmount,
        uint256[] calldata makerFeeAmounts
    ) external {
        if (!isOperator[msg.sender]) revert NotOperator();
        uint256 count = makerOrders.length;
        if (count == 0 || makerFillAmounts.length != count || makerFeeAmounts.length != count) {
            revert MismatchedLengths();
        }
        (bytes32 takerHash,) = _consume(takerOrder, takerFillAmount);
        (Fill[] memory fills, Sums memory sums) =
            _collect(conditionId, takerOrder, makerOrders, makerFillAmounts);
        (uint256 making, uint256 taking, uint256 refund) =
            _takerAmounts(takerOrder, takerFillAmount, sums);

        _pull(takerOrder, making);
        if (takerOrder.side == BUY) {
            if (sums.sameTaking > 0) factory.splitPosition(conditionId, sums.sameTaking);
        } else {
            if (sums.sameMaking > 0) factory.mergePositions(conditionId, sums.sameMaking);
        }
        for (uint256 i = 0; i < count; ++i) {
            _pay(makerOrders[i], fills[i].taking, makerFeeAmounts[i]);
            _emitFilled(
                fills[i].orderHash,
                makerOrders[i],
                takerOrder.maker,
                makerFillAmounts[i],
                fills[i].taking,
                makerFeeAmounts[i]
            );
        }
        if (refund > 0) {
            _push(takerOrder.maker, takerOrder.side == BUY ? 0 : takerOrder.tokenId, refund);
        }
        _pay(takerOrder, taking, takerFeeAmount);
        _emitFilled(takerHash, takerOrder, address(this), making, taking, takerFeeAmount);
        emit OrdersMatched(
            takerHash, takerOrder.maker, takerOrder.side, takerOrder.tokenId, making, taking
        );
    }

    /// Filled amount in the order's making unit; 0 for a forgotten order.
    function filled(bytes32 orderHash) public view returns (uint256) {
        uint256 slot = _filled[uint256(orderHash) % SLOTS];
        return slot >> 96 == uint256(orderHash) >> 96 ? uint256(uint96(slot)) : 0;
    }

    function hashOrder(Order calldata order) public view returns (bytes32) {
        bytes32 structHash = keccak256(
            abi.encode(
                ORDER_TYPEHASH,
                order.salt,
                order.maker,
                order.signer,
                order.tokenId,
                order.makerAmount,
                order.takerAmount,
                order.side,
                order.signatureType,
                order.timestamp,
                order.metadata,
                order.builder
            )
        );
        return keccak256(abi.encodePacked(hex"1901", domainSeparator, structHash));
    }

    /// Checks every maker order, stores its filled amount, and collects what it gives.
    function _collect(
        bytes32 conditionId,
        Order calldata takerOrder,
        Order[] calldata makerOrders,
        uint256[] calldata makings
    ) private returns (Fill[] memory fills, Sums memory sums) {
        uint256[2] memory ids = conditionalTokens.positionIds(conditionId);
        if (takerOrder.tokenId != ids[0] && takerOrder.tokenId != ids[1]) revert MismatchedTokens();
        uint256 complement = takerOrder.tokenId == ids[0] ? ids[1] : ids[0];
        fills = new Fill[](makerOrders.length);
        for (uint256 i = 0; i < makerOrders.length; ++i) {
            Order calldata order = makerOrders[i];
            bool same = order.side == takerOrder.side;
            if (order.tokenId != (same ? complement : takerOrder.tokenId)) revert MismatchedTokens();
            _requireCrossing(takerOrder, order, same);
            (bytes32 orderHash, uint256 taking) = _consume(order, makings[i]);
            fills[i] = Fill(orderHash, taking);
            if (same) {
                sums.sameMaking += makings[i];
                sums.sameTaking += taking;
            } else {
                sums.oppositeMaking += makings[i];
                sums.oppositeTaking += taking;
            }
            _pull(order, makings[i]);
        }
    }

    /// The taker gets every price improvement. If all makers are on the opposite side, it gives only what they
    /// take. If a maker is on the taker's side, the event shows the whole `takerFillAmount`, and the unneeded
    /// part is refunded, as in the real contract.
    function _takerAmounts(Order calldata order, uint256 fillAmount, Sums memory sums)
        private
        pure
        returns (uint256 making, uint256 taking, uint256 refund)
    {
        uint256 needed;
        if (sums.sameMaking == 0 && sums.sameTaking == 0) {
            needed = sums.oppositeTaking;
            making = needed;
            taking = sums.oppositeMaking;
        } else if (order.side == BUY) {
            needed = sums.oppositeTaking + sums.sameTaking - sums.sameMaking;
            making = fillAmount;
            taking = sums.oppositeMaking + sums.sameTaking;
        } else {
            needed = sums.oppositeTaking + sums.sameMaking;
            making = fillAmount;
            taking = sums.oppositeMaking + sums.sameMaking - sums.sameTaking;
        }
        if (needed > fillAmount) revert NotCrossing();
        // Rounds down, as for makers.
        if (taking < making * order.takerAmount / order.makerAmount) revert TooLittleReceived();
        refund = making - needed;
    }

    function _consume(Order calldata order, uint256 making)
        private
        returns (bytes32 orderHash, uint256 taking)
    {
        if (order.side > SELL) revert InvalidSide();
        if (order.makerAmount == 0) revert ZeroMakerAmount();
        orderHash = hashOrder(order);
        uint256 total = filled(orderHash) + making;
        if (total > order.makerAmount || total > type(uint96).max) revert Overfilled(orderHash);
        _filled[uint256(orderHash) % SLOTS] = (uint256(orderHash) >> 96 << 96) | total;
        // Rounds down, as the real contract does.
        taking = making * order.takerAmount / order.makerAmount;
    }

    function _requireCrossing(Order calldata a, Order calldata b, bool same) private pure {
        if (!same) {
            // The seller's price must not exceed the buyer's. The inequality is the same whichever of them is `a`.
            if (a.makerAmount * b.makerAmount < a.takerAmount * b.takerAmount) revert NotCrossing();
        } else if (a.side == BUY) {
            if (
                a.makerAmount * b.takerAmount + b.makerAmount * a.takerAmount
                    < a.takerAmount * b.takerAmount
            ) revert NotCrossing();
        } else {
            if (
                a.takerAmount * b.makerAmount + b.takerAmount * a.makerAmount
                    > a.makerAmount * b.makerAmount
            ) revert NotCrossing();
        }
    }

    function _pull(Order calldata order, uint256 amount) private {
        if (order.side == BUY) {
            collateral.transferFrom(order.maker, address(this), amount);
        } else {
            conditionalTokens.safeTransferFrom(
                order.maker, address(this), order.tokenId, amount, ""
            );
        }
    }

    /// Pays an order its proceeds. The fee is in pUSD: a buyer pays it on top, a seller from the proceeds.
    function _pay(Order calldata order, uint256 taking, uint256 fee) private {
        if (order.side == BUY) {
            _push(order.maker, order.tokenId, taking);
            if (fee > 0) collateral.transferFrom(order.maker, feeReceiver, fee);
        } else {
            if (fee > taking) revert FeeExceedsProceeds();
            _push(order.maker, 0, taking - fee);
            if (fee > 0) collateral.transfer(feeReceiver, fee);
        }
        if (fee > 0) emit FeeCharged(feeReceiver, fee);
    }

    function _push(address to, uint256 tokenId, uint256 amount) private {
        if (tokenId == 0) collateral.transfer(to, amount);
        else conditionalTokens.safeTransferFrom(address(this), to, tokenId, amount, "");
    }

    function _emitFilled(
        bytes32 orderHash,
        Order calldata order,
        address taker,
        uint256 making,
        uint256 taking,
        uint256 fee
    ) private {
        emit OrderFilled(
            orderHash,
            order.maker,
            taker,
            order.side,
            order.tokenId,
            making,
            taking,
            fee,
            order.builder,
            order.metadata
        );
    }

    function _addOperator(address operator) private {
        isOperator[operator] = true;
        emit NewOperator(operator, msg.sender);
    }
}
