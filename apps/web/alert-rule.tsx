/** Rules of alerts: as a sentence, and made from the filters of a list. */
import { Fragment } from 'preact';
import type { AlertRule, MarketDetail, MatchRule, Traders } from './answers.ts';
import { count, nameOf, shortAddress, spanInWords } from './format.ts';
import { useAnswer, useAnswers } from './use-answer.tsx';

/** By address or market. Others are shown by their id. */
export type Names = ReadonlyMap<string, string>;

const ENTRIES_SHOWN = 3;
/** Names of markets take a request each. */
const NAMED_MARKETS_MAX = 20;
const NAMED_TRADERS_MAX = 50;
const VERBS = {
  opened: 'opens',
  added: 'adds to',
  reduced: 'reduces',
  closed: 'closes',
  settled: 'is paid for',
} as const;
const NO_NAMES: Names = new Map();

const LISTS = ['traders', 'markets', 'tags', 'series'] as const;
const BOUNDS = ['min_usdc', 'max_usdc', 'min_price', 'max_price'] as const;

/** The rule of these filters, by the API's parameters. Sent as typed; the server reports what is wrong. */
export function matchRule(filter: Readonly<Record<string, string | undefined>>): MatchRule {
  const lists = LISTS.flatMap((name) => {
    const entries = (filter[name] ?? '').split(',').flatMap((text) => text.trim() || []);
    return entries.length === 0 ? [] : [[name, entries] as const];
  });
  const bounds = BOUNDS.flatMap((name) => {
    const text = filter[name]?.trim() ?? '';
    return text === '' ? [] : [[name, Number(text)] as const];
  });
  return { type: 'match', ...Object.fromEntries<string[] | number>([...lists, ...bounds]) };
}

function marketsOf(rule: AlertRule): readonly string[] {
  if (rule.type === 'price') return [rule.market];
  return rule.type === 'pnl' ? [] : (rule.markets ?? []);
}

/** What must happen before an alert sends an event. */
export function RuleSentence(props: { readonly rule: AlertRule; readonly names?: Names }) {
  const { rule, names = NO_NAMES } = props;
  const markets = marketsOf(rule);
  const tags = 'tags' in rule ? (rule.tags ?? []) : [];
  const where = (
    <>
      {markets.length === 0 ? null : (
        <>
          {' '}
          in <Entries ids={markets} kind="market" names={names} />
        </>
      )}
      {tags.length === 0 ? null : (
        <>
          {' '}
          in markets tagged <Entries ids={tags} />
        </>
      )}
    </>
  );
  switch (rule.type) {
    case 'match': {
      const { traders = [], series = [], min_usdc, max_usdc, min_price, max_price } = rule;
      return (
        <>
          A match
          {traders.length === 0 ? null : (
            <>
              {' '}
              of <Entries ids={traders} kind="trader" names={names} />
            </>
          )}
          {where}
          {series.length === 0 ? null : (
            <>
              {' '}
              in the series <Entries ids={series} />
            </>
          )}
          {bounds(min_usdc, max_usdc, (usdc) => `${count(usdc)} USDC`, ', of')}
          {bounds(min_price, max_price, (price) => `${count(price)}¢`, ', at')}.
        </>
      );
    }
    case 'group':
      return (
        <>
          {count(rule.count)} of{' '}
          <Entries ids={rule.traders} kind="trader" names={names} word="and" /> buy the same outcome
          of a market{where} within {spanInWords(rule.within_seconds * 1_000)}
          {bounds(rule.min_usdc, undefined, (usdc) => `${count(usdc)} USDC`, ', each for')}.
        </>
      );
    case 'position':
      return (
        <>
          <Entries ids={rule.traders} kind="trader" names={names} />{' '}
          {rule.events.map((event) => VERBS[event]).join(', ')} a position{where}
          {rule.first ? ' for the first time' : ''}
          {bounds(rule.min_usdc, undefined, (usdc) => `${count(usdc)} USDC`, ', for')}.
        </>
      );
    case 'price':
      return (
        <>
          The price of the {rule.outcome_index === 0 ? 'first' : 'second'} outcome of{' '}
          <Entries ids={markets} kind="market" names={names} />{' '}
          {rule.direction === 'above' ? 'rises to' : 'falls to'} {count(rule.level)}¢.
        </>
      );
    case 'resolution':
      return <>A market is resolved{where}.</>;
    case 'pnl':
      return (
        <>
          The realised PnL of <Entries ids={rule.traders} kind="trader" names={names} /> over{' '}
          {rule.window} {rule.direction === 'above' ? 'rises to' : 'falls to'} {count(rule.level)}{' '}
          USDC.
        </>
      );
    case 'move':
      return (
        <>
          The price of <Entries ids={markets} kind="market" names={names} /> moves by{' '}
          {count(rule.points)}¢ within {spanInWords(rule.within_seconds * 1_000)}.
        </>
      );
  }
}

/** Links to traders or markets, or plain words. */
function Entries(props: {
  readonly ids: readonly string[];
  readonly kind?: 'trader' | 'market';
  readonly names?: Names;
  readonly word?: 'or' | 'and';
}) {
  const { ids, kind, names = NO_NAMES, word = 'or' } = props;
  const shown = ids.slice(0, ENTRIES_SHOWN);
  const more = ids.length - shown.length;
  return (
    <>
      {shown.map((id, at) => (
        <Fragment key={id}>
          {at === 0 ? '' : at === ids.length - 1 ? ` ${word} ` : ', '}
          {kind === undefined ? (
            id
          ) : (
            <a href={`/${kind}/${encodeURIComponent(id)}`}>
              {names.get(id) ?? (id.startsWith('0x') ? shortAddress(id) : id)}
            </a>
          )}
        </Fragment>
      ))}
      {more === 0 ? '' : ` ${word} ${count(more)} more`}
    </>
  );
}

function bounds(
  least: number | undefined,
  most: number | undefined,
  text: (value: number) => string,
  word: string,
): string {
  if (least !== undefined && most !== undefined) return `${word} ${text(least)} to ${text(most)}`;
  if (least !== undefined) return `${word} ${text(least)} or more`;
  return most === undefined ? '' : `${word} ${text(most)} or less`;
}

/** The names that the sentences of these rules show. */
export function useNames(rules: readonly AlertRule[]): Names {
  const shown = (lists: readonly (readonly string[] | undefined)[], max: number) =>
    [...new Set(lists.flatMap((list) => list?.slice(0, ENTRIES_SHOWN) ?? []))].slice(0, max);
  const addresses = shown(
    rules.map((rule) => ('traders' in rule ? rule.traders : undefined)),
    NAMED_TRADERS_MAX,
  );
  const markets = shown(rules.map(marketsOf), NAMED_MARKETS_MAX);
  const pathOf = (market: string) => `/v2/markets/${encodeURIComponent(market)}`;
  const traders = useAnswer<Traders>(addresses.length === 0 ? null : '/v2/traders/batch', {
    body: JSON.stringify({ addresses }),
  });
  const details = useAnswers<MarketDetail>(markets.map(pathOf));
  return new Map([
    ...(traders.data?.traders ?? []).map(
      ({ profile }) => [profile.address.toLowerCase(), nameOf(profile)] as const,
    ),
    ...markets.flatMap((market) => {
      const question = details.data.get(pathOf(market))?.market.question ?? '';
      return question === '' ? [] : [[market, question] as const];
    }),
  ]);
}
