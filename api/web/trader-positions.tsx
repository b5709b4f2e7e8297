/** What a trader holds now: the largest positions first, at average price and at the mark of their markets. */
import { useState } from 'preact/hooks';
import type { Position, Positions } from './answers.ts';
import { Scroll } from './controls.tsx';
import { Ago, Pnl, Roi, Share, Usdc } from './figures.tsx';
import { amount, cents, count, timeMs, timeText } from './format.ts';
import { Problem, useAnswer } from './use-answer.tsx';

/** The most that one answer has. */
const READ_MAX = 100;
const SHOWN = 8;
const SHARE = 1_000_000;

export function TraderPositions(props: { readonly address: string; readonly refresh: unknown }) {
  const { address, refresh } = props;
  const [all, setAll] = useState(false);
  const path = `/v2/traders/${encodeURIComponent(address)}/positions?limit=${READ_MAX}`;
  const answer = useAnswer<Positions>(path, { refresh, subject: address });
  const { data } = answer;
  const held = data?.positions ?? [];
  return (
    <section aria-labelledby="positions-title" aria-busy={answer.busy}>
      <div class="section-head">
        <h2 id="positions-title">Open positions</h2>
        {data === undefined || data.total_count === 0 ? null : (
          <p class="soft totals">
            {count(data.total_count)} worth <Usdc micro={data.totals.value} decimals={2} />,
            unrealised <Pnl micro={data.totals.unrealised_pnl} />
          </p>
        )}
        {held.length <= SHOWN ? null : (
          <button type="button" class="push" aria-expanded={all} onClick={() => setAll(!all)}>
            {all
              ? 'Show fewer'
              : `Show ${data?.total_count === held.length ? 'all' : 'the largest'} ${held.length}`}
          </button>
        )}
      </div>
      <Problem problem={answer.problem} />
      {data === undefined ? null : held.length === 0 ? (
        <p class="card empty">Holds nothing now.</p>
      ) : (
        <Scroll label="Open positions">
          <table class="positions">
            <thead>
              <tr>
                <th scope="col">Market</th>
                <th scope="col">Outcome</th>
                <th scope="col" class="figure wide-only">
                  Shares
                </th>
                <th scope="col" class="figure">
                  Average
                </th>
                <th scope="col" class="figure">
                  Mark
                </th>
                <th scope="col" class="figure">
                  Value
                </th>
                <th scope="col" class="figure">
                  Unrealised
                </th>
                <th scope="col" class="figure">
                  ROI
                </th>
                <th scope="col" class="figure wide-only">
                  Realised
                </th>
                <th scope="col" class="figure wide-only">
                  Portfolio
                </th>
                <th scope="col" class="figure wide-only">
                  Last trade
                </th>
              </tr>
            </thead>
            <tbody>
              {held.slice(0, all ? held.length : SHOWN).map((position) => (
                <Row key={position.market.condition_id} position={position} />
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </section>
  );
}

function Row({ position }: { readonly position: Position }) {
  const { market, mark } = position;
  const key = market.id === 0 ? market.condition_id : String(market.id);
  return (
    <tr>
      <th scope="row" class="question">
        <a href={`/market/${key}`} data-row title={market.question}>
          {market.question === ''
            ? `Unlisted market ${market.condition_id.slice(0, 10)}…`
            : market.question}
        </a>
      </th>
      <td>
        {position.outcome === '' ? `outcome ${position.outcome_index + 1}` : position.outcome}
      </td>
      <td class="figure wide-only">{amount(position.shares, 0)}</td>
      <td class="figure">{cents(position.average_price, SHARE)}</td>
      <td class="figure" title={markText(mark)}>
        {mark.source === 'none' ? '–' : cents(mark.price, SHARE)}
      </td>
      <td class="figure strong">
        <Usdc micro={position.value} decimals={2} />
      </td>
      <td class="figure strong">
        <Pnl micro={position.unrealised_pnl} />
      </td>
      <td class="figure">
        <Roi value={position.unrealised_roi} />
      </td>
      <td class="figure wide-only">
        <Pnl micro={position.realised_pnl} />
      </td>
      <td class="figure wide-only">
        <Share value={position.portfolio_share} title="share of all that the trader holds" />
      </td>
      <td class="figure wide-only soft">
        <Ago time={position.last_trade_at} />
      </td>
    </tr>
  );
}

function markText({ source, time }: Position['mark']): string {
  if (source === 'none') return 'no match yet';
  const at = timeText(timeMs(time) ?? 0);
  return source === 'resolution' ? `resolved ${at}` : `newest match, ${at}`;
}
