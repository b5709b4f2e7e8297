import { describe, expect, test } from 'vitest';
import { filterOf } from '../../api/feed/filter.ts';
import { parseFeedQuery } from '../../api/feed/query.ts';
import { Problem } from '../../api/http/errors.ts';
import { STREAM_OPERATIONS } from '../../api/service/openapi.ts';

const PARAMETERS = STREAM_OPERATIONS['/v1/stream/orders']?.operation.parameters ?? [];

/** Names of the parameters that the feed rejects if all have this value. */
function refused(text: string): string[] {
  const names = PARAMETERS.filter((one) => one.in === 'query');
  try {
    parseFeedQuery(Object.fromEntries(names.map(({ name }) => [name, text])), undefined);
    return [];
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return (error.issues ?? []).map((issue) => issue.path.split('.')[0] ?? '');
  }
}

describe('STREAM_OPERATIONS', () => {
  test('names the parameters that the feed parses', () => {
    const free = ['tags', 'series'];
    const names = PARAMETERS.filter((one) => one.in === 'query' && !free.includes(one.name)).map(
      (one) => one.name,
    );
    expect(refused('no value of any').sort()).toEqual(names.sort());
    const given = parseFeedQuery({ tags: 'a', series: 'b' }, undefined);
    expect(given.filterOf([])).toEqual(filterOf({ tags: ['a'], series: ['b'] }));
  });
});
