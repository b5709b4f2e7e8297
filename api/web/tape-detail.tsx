/** One match of the tape with everybody in it. */
import { CopyButton } from './copy-button.tsx';
import { amount, cents, exact, shortAddress, timeText } from './format.ts';
import { Side } from './side.tsx';
import type { Row } from './tape-row.ts';

export function TapeDetail({ row, onClose }: { readonly row: Row; readonly onClose: () => void }) {
  return (
    <aside class="card detail" aria-labelledby="detail-title">
      <div class="section-head">
        <h2 id="detail-title">
          <a href={`/market/${row.market.id}`}>
            {row.market.question === '' ? 'Unlisted market' : row.market.question}
          </a>
        </h2>
        <button type="button" class="push" onClick={onClose}>
          Close
        </button>
      </div>
      <p class="sub">
        {row.state === 'void' ? `void: ${row.reason.replaceAll('_', ' ')}` : row.state} · detected{' '}
        {timeText(row.detectedAtMs)} · position {row.position}
      </p>
      <p class="sub">
        transaction <code>{shortHash(row.txHash)}</code>
        <CopyButton text={row.txHash} what="the transaction hash" />
      </p>
      <div class="scroll">
        <table class="inner">
          <thead>
            <tr>
              <th scope="col">Role</th>
              <th scope="col">Trader</th>
              <th scope="col">Side</th>
              <th scope="col">Outcome</th>
              <th scope="col" class="figure">
                Price
              </th>
              <th scope="col" class="figure">
                Shares
              </th>
              <th scope="col" class="figure">
                USDC
              </th>
              <th scope="col" class="figure">
                Fee
              </th>
            </tr>
          </thead>
          <tbody>
            {[row.taker, ...row.makers].map((fill, index) => (
              <tr key={index}>
                <td>{index === 0 ? 'taker' : 'maker'}</td>
                <td>
                  <a href={`/trader/${fill.address}`} title={fill.address}>
                    {fill.name === '' ? shortAddress(fill.address) : fill.name}
                  </a>
                </td>
                <td>
                  <Side side={fill.side} />
                </td>
                <td>{fill.outcome}</td>
                <td class="figure">{cents(fill.usdc, fill.shares)}</td>
                <td class="figure">{amount(fill.shares)}</td>
                <td class="figure" title={exact(fill.usdc)}>
                  {amount(fill.usdc)}
                </td>
                <td class="figure">{amount(fill.fee)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </aside>
  );
}

function shortHash(hash: string): string {
  return `${hash.slice(0, 12)}…${hash.slice(-6)}`;
}
