// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Token} from "./Token.sol";
import {Order} from "./CtfExchange.sol";
import {CombinatorialModule, Module} from "./Modules.sol";
import {Ids, PositionManager} from "./PositionManager.sol";

struct TakerAmounts {
    uint256 takerFillAmount;
    uint256 takerReceiveAmount;
    uint256 takerFeeAmount;
}

/// The devnet's exchange of version 3: the calls, the order hash and the events of Polymarket's, in its order, with shares of the
/// PositionManager. SIGNATURES AND ORDER SIZES ARE NOT CHECKED: an operator can trade for any wallet, so this contract must never
/// hold anything of value.
contract ExchangeV3 {
    uint8 private constant BUY = 0;
    uint256 private constant OPERATOR_ROLE = 2;
    bytes32 private constant ORDER_TYPEHASH = keccak256(
        "Order(uint256 salt,address maker,address signer,uint256 tokenId,uint256 makerAmount,uint256 takerAmount,uint8 side,uint8 signatureType,uint256 timestamp,bytes32 metadata,bytes32 builder)"
    );

    PositionManager public immutable manager;
    Token public immutable collateral;
    address public immutable admin;
    address public immutable feeReceiver;
    bytes32 public immutable domainSeparator;
    mapping(address => uint256) public rolesOf;

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
    event RolesUpdated(address indexed user, uint256 indexed roles);

    error NotAdmin();
    error NotOperator();
    error MismatchedLengths();
    error MismatchedTokens();
    error NotCrossing();
    error AssetAccountingMismatch();
    error FeeExceedsProceeds();

    constructor(PositionManager manager_, address feeReceiver_, address[] memory operators) {
        manager = manager_;
        collateral = manager_.collateral();
        feeReceiver = feeReceiver_;
        admin = msg.sender;
        domainSeparator = keccak256(
            abi.encode(
                keccak256(
                    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
                ),
                keccak256("Polymarket CTF Exchange"),
                keccak256("3"),
                block.chainid,
                address(this)
            )
        );
        for (uint256 i = 0; i < operators.length; ++i) _setRoles(operators[i], OPERATOR_ROLE);
    }

    function setRoles(address user, uint256 roles) external {
        if (msg.sender != admin) revert NotAdmin();
        _setRoles(user, roles);
    }

    function matchOrders(
        Order calldata takerOrder,
        Order[] calldata makerOrders,
        uint256[] calldata makerFillAmounts,
        uint256[] calldata makerFeeAmounts,
        TakerAmounts calldata takerAmounts
    ) external {
        _match(takerOrder, makerOrders, makerFillAmounts, makerFeeAmounts, takerAmounts);
    }

    function matchOrdersAndPrepareCombinatorial(
        Order calldata takerOrder,
        Order[] calldata makerOrders,
        uint256[] calldata makerFillAmounts,
        uint256[] calldata makerFeeAmounts,
        TakerAmounts calldata takerAmounts,
        uint256[] calldata combinatorialLegs
    ) external {
        uint256 id = CombinatorialModule(manager.moduleById(Ids.COMBINATORIAL))
            .prepareCondition(combinatorialLegs);
        if (id != Ids.conditionOf(takerOrder.tokenId)) revert MismatchedTokens();
        _match(takerOrder, makerOrders, makerFillAmounts, makerFeeAmounts, takerAmounts);
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

    function _match(
        Order calldata taker,
        Order[] calldata makers,
        uint256[] calldata makings,
        uint256[] calldata fees,
        TakerAmounts calldata amounts
    ) private {
        if (rolesOf[msg.sender] & OPERATOR_ROLE == 0) revert NotOperator();
        if (makers.length == 0 || makings.length != makers.length || fees.length != makers.length) {
            revert MismatchedLengths();
        }
        Sums memory sums;
        bool isComplementary = true;
        for (uint256 i = 0; i < makers.length; ++i) {
            if (makers[i].side == taker.side) isComplementary = false;
        }
        for (uint256 i = 0; i < makers.length; ++i) {
            _fillMaker(taker, makers[i], makings[i], fees[i], isComplementary, sums);
        }
        (uint256 making, uint256 taking) = _takerAmounts(taker.side, sums);
        if (making > amounts.takerFillAmount) revert NotCrossing();
        if (taking != amounts.takerReceiveAmount) revert AssetAccountingMismatch();
        if (!isComplementary) _settleBatch(taker, makers, makings, fees, making, taking, sums);
        if (amounts.takerFeeAmount > 0) {
            collateral.transferFrom(taker.maker, feeReceiver, amounts.takerFeeAmount);
            emit FeeCharged(feeReceiver, amounts.takerFeeAmount);
        }
        bytes32 hash = hashOrder(taker);
        _emitFilled(hash, taker, address(this), making, taking, amounts.takerFeeAmount);
        emit OrdersMatched(hash, taker.maker, taker.side, taker.tokenId, making, taking);
    }

    /// Shares and money of a complementary maker go straight to and from the taker. In a batch the exchange or the module takes
    /// what a maker gives, and the maker is logged before it gets anything.
    function _fillMaker(
        Order calldata taker,
        Order calldata order,
        uint256 making,
        uint256 fee,
        bool isComplementary,
        Sums memory sums
    ) private {
        uint256 taking = making * order.takerAmount / order.makerAmount;
        bool isSame = order.side == taker.side;
        if (isSame ? order.tokenId ^ taker.tokenId != 1 : order.tokenId != taker.tokenId) {
            revert MismatchedTokens();
        }
        if (isSame) {
            sums.sameMaking += making;
            sums.sameTaking += taking;
        } else {
            sums.oppositeMaking += making;
            sums.oppositeTaking += taking;
        }
        if (order.side != BUY) {
            address to = isComplementary
                ? taker.maker
                : isSame ? manager.moduleById(Ids.moduleOf(order.tokenId)) : address(this);
            manager.transferFrom(order.maker, to, order.tokenId, making);
            if (fee > taking) revert FeeExceedsProceeds();
            if (isComplementary) collateral.transferFrom(taker.maker, order.maker, taking);
        } else if (isComplementary) {
            manager.transferFrom(taker.maker, order.maker, order.tokenId, taking);
            collateral.transferFrom(order.maker, taker.maker, making);
        } else {
            collateral.transferFrom(order.maker, address(this), making);
        }
        _emitFilled(hashOrder(order), order, taker.maker, making, taking, fee);
        if (fee > 0) {
            if (isComplementary || order.side == BUY) {
                collateral.transferFrom(order.maker, feeReceiver, fee);
            }
            emit FeeCharged(feeReceiver, fee);
        }
    }

    function _takerAmounts(uint8 side, Sums memory sums)
        private
        pure
        returns (uint256 making, uint256 taking)
    {
        if (side == BUY) {
            making = sums.oppositeTaking + sums.sameTaking - sums.sameMaking;
            taking = sums.oppositeMaking + sums.sameTaking;
        } else {
            making = sums.oppositeTaking + sums.sameMaking;
            taking = sums.oppositeMaking + sums.sameMaking - sums.sameTaking;
        }
    }

    function _settleBatch(
        Order calldata taker,
        Order[] calldata makers,
        uint256[] calldata makings,
        uint256[] calldata fees,
        uint256 making,
        uint256 taking,
        Sums memory sums
    ) private {
        Module module = Module(manager.moduleById(Ids.moduleOf(taker.tokenId)));
        bytes31 conditionId = bytes31(bytes32(taker.tokenId));
        if (taker.side == BUY) {
            collateral.transferFrom(taker.maker, address(this), making);
            collateral.transfer(address(module), sums.sameTaking);
            address[] memory to = new address[](2);
            (to[0], to[1]) = (address(this), address(this));
            module.split(to, conditionId, sums.sameTaking);
        } else {
            manager.transferFrom(taker.maker, address(module), taker.tokenId, sums.sameMaking);
            module.merge(address(this), conditionId, sums.sameMaking);
        }
        for (uint256 i = 0; i < makers.length; ++i) {
            Order calldata order = makers[i];
            uint256 out = makings[i] * order.takerAmount / order.makerAmount;
            if (order.side != BUY) {
                collateral.transfer(order.maker, out - fees[i]);
                if (fees[i] > 0) collateral.transfer(feeReceiver, fees[i]);
            } else if (taker.side == BUY) {
                manager.transferFrom(address(this), order.maker, order.tokenId, out);
            } else {
                manager.transferFrom(taker.maker, order.maker, order.tokenId, out);
            }
        }
        if (taker.side == BUY) manager.transferFrom(address(this), taker.maker, taker.tokenId, taking);
        else collateral.transfer(taker.maker, taking);
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

    function _setRoles(address user, uint256 roles) private {
        rolesOf[user] = roles;
        emit RolesUpdated(user, roles);
    }
}
