/** The apps whose routes the API's server has. */
import type { Mount } from '../api/http/mount.ts';
import { alertsMount } from './alerts/mount.ts';
import { mcpMount } from './mcp/route.ts';
import { type PageFacts, pageMount } from './page.ts';
import { REDIRECTS } from './redirects.ts';
import { pictureMount } from './reference/pictures.ts';
import { REFERENCE } from './reference/reference.ts';

export async function mountsOf(
  options: PageFacts &
    Parameters<typeof alertsMount>[0] & {
      /** The analyst's ClickHouse, for the MCP tool `query`; without it, there is no such tool. */
      readonly analystUrl: string | undefined;
    },
): Promise<readonly Mount[]> {
  const { analystUrl, pictureOrigins } = options;
  return [
    ...[REFERENCE, pictureMount(pictureOrigins), mcpMount(analystUrl)],
    ...[pageMount(options), REDIRECTS, await alertsMount(options)],
  ];
}
