// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Token} from "./Token.sol";

/// The devnet's pUSD. The admin mints: a deposit.
contract PusdToken is Token {
    string public constant name = "Devnet pUSD";
    string public constant symbol = "pUSD";

    function mint(address[] calldata owners, uint256[] calldata values) external {
        if (msg.sender != admin) revert NotAdmin();
        for (uint256 i = 0; i < owners.length; ++i) _mint(owners[i], values[i]);
    }
}
