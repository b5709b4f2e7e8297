/**
 * Where everything lies on the devnet. The accounts are those of anvil's default mnemonic ("test test
 * … junk"), and contract addresses follow from the deployer and its first four nonces, so they are the
 * same on every devnet; test/integration/devnet.test.ts holds the deployment against them.
 */

export const CHAIN_ID = 31337;

/** Account 0: deploys, is admin of every contract, mints pUSD; as ORACLE it resolves every condition. */
export const DEPLOYER = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266';
export const ORACLE = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266';

/** Accounts 1 to 3: the exchanges' operators, who send every match. */
export const OPERATORS = [
  '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC',
  '0x90F79bf6EB2c4f870365E785982E1f101E93b906',
] as const;

/** Account 4: not an operator; sends well-formed matches that revert. */
export const STRANGER = '0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65';

/** Account 5. */
export const FEE_RECEIVER = '0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc';

/** Deployer nonces 0 to 3, in this order. */
export const PUSD = '0x5FbDB2315678afecb367f032d93F642f64180aa3';
export const CONDITIONAL_TOKENS = '0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512';
export const EXCHANGE = '0x9fE46736679d2D9a65F0992F2272dE9f3c7fa6e0';
export const NEG_RISK_EXCHANGE = '0xCf7Ed3AccA5a467e9e704C703E8D87F634fB0Fc9';
