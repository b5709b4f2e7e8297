// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Token} from "./Token.sol";
import {PusdToken} from "./PusdToken.sol";

/// The collateral of neg-risk conditions, which is therefore in the ids of their shares. Only the neg-risk adapter has
/// use for it: it mints more than there is pUSD while it converts, because at most one question of a market wins.
contract WrappedCollateral is Token {
    string public constant name = "Devnet wrapped collateral";
    string public constant symbol = "WCOL";

    PusdToken public immutable underlying;
    address public immutable owner;

    error NotOwner();

    constructor(PusdToken underlying_, address owner_) {
        underlying = underlying_;
        owner = owner_;
    }

    modifier onlyOwner() {
        if (msg.sender != owner) revert NotOwner();
        _;
    }

    function mint(uint256 amount) external onlyOwner {
        _mint(msg.sender, amount);
    }

    /// Pays pUSD without burning anything.
    function release(address to, uint256 amount) public onlyOwner {
        underlying.transfer(to, amount);
    }

    function unwrap(address to, uint256 amount) external onlyOwner {
        _burn(msg.sender, amount);
        release(to, amount);
    }
}
