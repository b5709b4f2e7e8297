// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// A plain ERC-20 with 6 decimals. The admin names spenders that may move every wallet's money. They replace the
/// approvals of real wallets, because trader wallets of the devnet have no keys and cannot approve.
abstract contract Token {
    uint8 public constant decimals = 6;

    address public immutable admin;
    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => bool) public isSpender;
    mapping(address => mapping(address => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    error NotAdmin();
    error InsufficientBalance(address owner, uint256 balance, uint256 value);
    error InsufficientAllowance(address owner, address spender);

    constructor() {
        admin = msg.sender;
    }

    function setSpenders(address[] calldata spenders) external {
        if (msg.sender != admin) revert NotAdmin();
        for (uint256 i = 0; i < spenders.length; ++i) isSpender[spenders[i]] = true;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transfer(address to, uint256 value) external returns (bool) {
        _move(msg.sender, to, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        if (!isSpender[msg.sender] && msg.sender != from) {
            uint256 allowed = allowance[from][msg.sender];
            if (allowed < value) revert InsufficientAllowance(from, msg.sender);
            allowance[from][msg.sender] = allowed - value;
        }
        _move(from, to, value);
        return true;
    }

    function _mint(address to, uint256 value) internal {
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function _burn(address from, uint256 value) internal {
        _subtract(from, value);
        totalSupply -= value;
        emit Transfer(from, address(0), value);
    }

    function _move(address from, address to, uint256 value) private {
        _subtract(from, value);
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }

    function _subtract(address owner, uint256 value) private {
        uint256 balance = balanceOf[owner];
        if (balance < value) revert InsufficientBalance(owner, balance, value);
        unchecked {
            balanceOf[owner] = balance - value;
        }
    }
}
