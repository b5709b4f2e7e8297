/** Finds a trader by the text that a person or a model has. */
import type { Endpoints } from './endpoints.ts';
import { ApiError, type CallOptions } from './http.ts';

const NOT_FOUND = 404;
const SIMILAR_MAX = 3;

/**
 * The address of a trader by address, or by exact name or account, with or without `@`. An address is returned without a
 * request. Rejects with ApiError 404, which lists up to three similar names, if no trader has the name.
 */
export async function traderAddress(
  api: Pick<Endpoints, 'search' | 'trader'>,
  text: string,
  options?: CallOptions,
): Promise<string> {
  const given = text.trim();
  if (/^0x[0-9a-f]{40}$/i.test(given)) return given;
  const name = given.replace(/^@/, '');
  try {
    return (await api.trader(`@${name}`, {}, options)).profile.address;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== NOT_FOUND) throw error;
    const { traders } = await api.search({ q: name, limit: SIMILAR_MAX }, options);
    const similar = traders.map(({ profile: { address, name, x_username: account } }) => {
      return name || (account === '' ? address : `@${account}`);
    });
    if (similar.length > 0) error.message += `; similar: ${similar.join(', ')}`;
    throw error;
  }
}
