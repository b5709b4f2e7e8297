/** The account's event streams: open in any api process, and ended. */

import type { EndedSessions, Session, Sessions, Stream } from './answers.ts';
import { Scroll } from './controls.tsx';
import { Ago } from './figures.tsx';
import { count, span } from './format.ts';

export function SessionTables(props: {
  readonly open: Sessions | undefined;
  readonly ended: EndedSessions | undefined;
  readonly streams: readonly Stream[];
}) {
  const names = new Map(props.streams.map(({ id, name }) => [id, name]));
  const nameOf = ({ stream_id }: Session) =>
    stream_id === null ? 'order feed' : (names.get(stream_id) ?? 'deleted stream');
  const open = props.open?.data ?? [];
  const ended = props.ended?.data ?? [];
  return (
    <>
      <section aria-labelledby="open-title">
        <div class="section-head">
          <h2 id="open-title">Open sessions</h2>
        </div>
        {open.length === 0 ? (
          <p class="card empty">No open sessions.</p>
        ) : (
          <Scroll label="Open sessions">
            <table>
              <thead>
                <tr>
                  <th scope="col">Stream</th>
                  <th scope="col" class="figure">
                    Opened
                  </th>
                </tr>
              </thead>
              <tbody>
                {open.map((session) => (
                  <tr key={session.id}>
                    <th scope="row">{nameOf(session)}</th>
                    <td class="figure">
                      <Ago time={session.started_at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        )}
      </section>
      {ended.length === 0 ? null : (
        <section aria-labelledby="ended-title">
          <div class="section-head">
            <h2 id="ended-title">Ended sessions</h2>
          </div>
          <Scroll label="Ended sessions">
            <table>
              <thead>
                <tr>
                  <th scope="col">Stream</th>
                  <th scope="col">End</th>
                  <th scope="col" class="figure">
                    Events
                  </th>
                  <th scope="col" class="figure">
                    Lasted
                  </th>
                  <th scope="col" class="figure">
                    Ended
                  </th>
                </tr>
              </thead>
              <tbody>
                {ended.map((session) => (
                  <tr key={session.id}>
                    <th scope="row">{nameOf(session)}</th>
                    <td>{session.end.replaceAll('_', ' ')}</td>
                    <td class="figure">{session.events === null ? '–' : count(session.events)}</td>
                    <td class="figure">
                      {span(Date.parse(session.ended_at) - Date.parse(session.started_at))}
                    </td>
                    <td class="figure soft">
                      <Ago time={session.ended_at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </section>
      )}
    </>
  );
}
