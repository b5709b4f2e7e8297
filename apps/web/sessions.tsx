/** The account's event streams: open in any api process, and ended. */

import type { EndedSessions, Session, Sessions, Stream } from './answers.ts';
import { Ago } from './figures.tsx';
import { capital, count, span } from './format.ts';
import { CardTable, type Column } from './table.tsx';

const OPENED: Column<Session> = {
  ...{ title: 'Opened', class: 'figure' },
  cell: ({ started_at }) => <Ago time={started_at} />,
};

const ENDED: readonly Column<EndedSessions['data'][number]>[] = [
  { title: 'End', cell: ({ end }) => capital(end.replaceAll('_', ' ')) },
  {
    ...{ title: 'Events', class: 'figure' },
    cell: ({ events }) => (events === null ? '–' : count(events)),
  },
  {
    ...{ title: 'Lasted', class: 'figure' },
    cell: ({ started_at, ended_at }) => span(Date.parse(ended_at) - Date.parse(started_at)),
  },
  {
    ...{ title: 'Ended', class: 'figure soft' },
    cell: ({ ended_at }) => <Ago time={ended_at} />,
  },
];

export function SessionTables(props: {
  readonly open: Sessions;
  readonly ended: EndedSessions | undefined;
  readonly streams: readonly Stream[];
}) {
  const names = new Map(props.streams.map(({ id, name }) => [id, name]));
  const stream: Column<Session> = {
    ...{ title: 'Stream', isHead: true },
    cell: ({ stream_id }) =>
      stream_id === null ? 'Order feed' : (names.get(stream_id) ?? 'Deleted stream'),
  };
  const ended = props.ended?.data ?? [];
  return (
    <>
      <section aria-labelledby="open-title">
        <div class="section-head">
          <h2 id="open-title">Open sessions</h2>
        </div>
        <CardTable
          label="Open sessions"
          columns={[stream, OPENED]}
          rows={props.open.data}
          keyOf={({ id }) => id}
          empty="No open sessions."
        />
      </section>
      {ended.length === 0 ? null : (
        <section aria-labelledby="ended-title">
          <div class="section-head">
            <h2 id="ended-title">Ended sessions</h2>
          </div>
          <CardTable
            label="Ended sessions"
            columns={[stream, ...ENDED]}
            rows={ended}
            keyOf={({ id }) => id}
            empty=""
          />
        </section>
      )}
    </>
  );
}
