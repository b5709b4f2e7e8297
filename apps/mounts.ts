/** The apps whose routes the API's server has. */
import type { Mount } from '../api/http/mount.ts';
import { mcpMount } from './mcp/route.ts';
import { type PageFacts, pageMount } from './page.ts';
import { REDIRECTS } from './redirects.ts';
import { pictureMount } from './reference/pictures.ts';
import { REFERENCE } from './reference/reference.ts';

export function mountsOf(
  options: PageFacts & {
    /** The analyst's ClickHouse, for the MCP tool `query`; without it, there is no such tool. */
    readonly analystUrl: string | undefined;
  },
): readonly Mount[] {
  const { analystUrl, pictureOrigins } = options;
  return [
    ...[REFERENCE, pictureMount(pictureOrigins), mcpMount(analystUrl)],
    ...[pageMount(options), REDIRECTS],
  ];
}
