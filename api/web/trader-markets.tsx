/** A trader's markets, newest trade first. Each expands to its fills. */
import { useState } from 'preact/hooks';
import type { History, HistoryEntry, Orders } from './answers.ts';
import { Pager, Scroll } from './controls.tsx';
import { Ago, Pnl, Roi, Side, Usdc } from './figures.tsx';
import { amount, cents, exact, timeMs, timeText } from './format.ts';
import { query, setQuery } from './route.ts';
import { Problem, useAnswer } from './use-answer.tsx';

const PAGE = 20;
const CHOICES = [
  { value: '', title: 'All' },
  { value: 'true', title: 'Open' },
  { value: 'false', title: 'Resolved' },
] as const;

export function TraderMarkets(props: { readonly address: string; readonly refresh: unknown }) {
  const active = query.value.get('is_active') ?? '';
  const offset = Number(query.value.get('offset') ?? 0);
  const asked = new URLSearchParams({ limit: String(PAGE), offset: String(offset) });
  if (active !== '') asked.set('is_active', active);
  const path = `/v2/traders/${encodeURIComponent(props.address)}/markets?${asked}`;
  const page = useAnswer<History>(path, { refresh: props.refresh, subject: props.address });
  return (
    <section aria-labelledby="markets-title" aria-busy={page.busy}>
      <div class="section-head">
        <h2 id="markets-title">Markets</h2>
        <fieldset class="segments push">
          <legend class="hidden">State of the markets</legend>
          {CHOICES.map(({ value, title }) => (
            <label key={value}>
              <input
                type="radio"
                name="is_active"
                checked={active === value}
                onChange={() => setQuery({ is_active: value, offset: '' })}
              />
              <span>{title}</span>
            </label>
          ))}
        </fieldset>
      </div>
      <Problem problem={page.problem} />
      {page.data === undefined ? null : page.data.history.length === 0 ? (
        <p class="card empty">No markets.</p>
      ) : (
        <Scroll label="Markets of the trader">
          <table class="history">
            <thead>
              <tr>
                <th scope="col">Market</th>
                <th scope="col">State</th>
                <th scope="col" class="figure">
                  PnL
                </th>
                <th scope="col" class="figure">
                  ROI
                </th>
                <th scope="col" class="figure">
                  Volume
                </th>
                <th scope="col" class="figure">
                  Last trade
                </th>
              </tr>
            </thead>
            <tbody>
              {page.data.history.map((entry) => (
                <Row key={entry.market.condition_id} entry={entry} address={props.address} />
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {page.data === undefined ? null : (
        <Pager
          offset={offset}
          shown={page.data.history.length}
          size={PAGE}
          total={page.data.total_count}
          onOffset={(next) => setQuery({ offset: next === 0 ? '' : String(next) })}
        />
      )}
    </section>
  );
}

function Row({ entry, address }: { readonly entry: HistoryEntry; readonly address: string }) {
  const [open, setOpen] = useState(false);
  const { market } = entry;
  const key = market.id === 0 ? market.condition_id : String(market.id);
  return (
    <>
      <tr>
        <th scope="row" class="question">
          <button
            type="button"
            class="expand"
            aria-expanded={open}
            aria-label={`Fills in ${market.question}`}
            disabled={market.id === 0}
            onClick={() => setOpen(!open)}
          >
            <span aria-hidden="true">{open ? '▾' : '▸'}</span>
          </button>
          <a href={`/market/${key}`} data-row title={market.question}>
            {market.question === ''
              ? `Unlisted market ${market.condition_id.slice(0, 10)}…`
              : market.question}
          </a>
        </th>
        <td>
          {market.resolved_at === '' ? (
            <span class="badge open">open</span>
          ) : (
            <span class="badge">won by {market.winning_outcome}</span>
          )}
        </td>
        <td class="figure strong">
          <Pnl micro={entry.pnl} />
        </td>
        <td class="figure">
          <Roi value={entry.roi} />
        </td>
        <td class="figure">
          <Usdc micro={entry.volume} decimals={2} />
        </td>
        <td class="figure soft">
          <Ago time={entry.last_trade_at} />
        </td>
      </tr>
      {open ? (
        <tr class="fills">
          <td colSpan={6}>
            <Fills address={address} marketId={market.id} />
          </td>
        </tr>
      ) : null}
    </>
  );
}

function Fills({ address, marketId }: { readonly address: string; readonly marketId: number }) {
  const path = `/v1/traders/${encodeURIComponent(address)}/markets/${marketId}/orders`;
  const fills = useAnswer<Orders>(path);
  if (fills.problem !== undefined) return <Problem problem={fills.problem} />;
  if (fills.data === undefined) return <p role="status">Loading…</p>;
  return (
    <table class="inner">
      <caption class="hidden">Fills, oldest first</caption>
      <thead>
        <tr>
          <th scope="col">Time</th>
          <th scope="col">Side</th>
          <th scope="col">Outcome</th>
          <th scope="col">Role</th>
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
        {fills.data.orders.map((fill, index) => (
          <tr key={`${fill.order_hash} ${index}`}>
            <td>{timeText(timeMs(fill.time) ?? 0)}</td>
            <td>
              <Side side={fill.side} />
            </td>
            <td>{fill.outcome}</td>
            <td>{fill.is_taker ? 'taker' : 'maker'}</td>
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
  );
}
