// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// Ids of conditions, collections and positions by the formula of the Gnosis conditional tokens:
/// a collection is a point of alt_bn128 (y² = x³ + 3) whose x starts at a hash and increases until the
/// curve has a y; the sign of y comes from the top bit of the hash and is stored in bit 254 of the id.
/// Only collections without a parent are supported, because Polymarket has no others.
library PositionIds {
    uint256 private constant P =
        21888242871839275222246405745257275088696311157297823662689037894645226208583;

    function conditionId(address oracle, bytes32 questionId, uint256 slots)
        internal
        pure
        returns (bytes32)
    {
        return keccak256(abi.encodePacked(oracle, questionId, slots));
    }

    function collectionId(bytes32 condition, uint256 indexSet) internal view returns (bytes32) {
        uint256 x = uint256(keccak256(abi.encodePacked(condition, indexSet)));
        bool odd = x >> 255 == 1;
        uint256 y;
        uint256 square;
        do {
            x = addmod(x, 1, P);
            square = addmod(mulmod(x, mulmod(x, x, P), P), 3, P);
            y = _power(square, (P + 1) / 4);
        } while (mulmod(y, y, P) != square);
        return bytes32(odd ? x ^ (1 << 254) : x);
    }

    function positionId(address collateral, bytes32 collection) internal pure returns (uint256) {
        return uint256(keccak256(abi.encodePacked(collateral, collection)));
    }

    /// base ** exponent mod P, by the modexp precompile. P ≡ 3 (mod 4), so (P + 1) / 4 gives roots.
    function _power(uint256 base, uint256 exponent) private view returns (uint256 result) {
        (bool ok, bytes memory out) =
            address(5).staticcall(abi.encode(uint256(32), uint256(32), uint256(32), base, exponent, P));
        require(ok, "modexp failed");
        result = abi.decode(out, (uint256));
    }
}
