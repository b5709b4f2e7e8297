/**
 * `GET /v1/traders/:address`: profile, tags and windows of one trader (specification 2.1, 2.6, 2.7).
 * Windows are exact to the second, [now − W, now], from the trader's own bookings.
 * Times have a space in place of T here, as the specification says of this endpoint.
 */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { address } from '../parameters.ts';
import type { Call } from './call.ts';
import { isoSecond, spaced } from './format.ts';
import { readIdentity } from './identity.ts';
import { SpacedProfileV1 } from './profiles.ts';
import { TagV1, topTags, total, WindowV1, windowV1 } from './sums.ts';
import { readWindows } from './trader-windows.ts';

/** Members of `stats` and their length in seconds, shortest first: each holds those before it. */
const WINDOWS = {
  t_1h: 3_600,
  t_4h: 14_400,
  t_1d: 86_400,
  t_3d: 259_200,
  t_7d: 604_800,
  t_30d: 2_592_000,
} as const;
type Window = keyof typeof WINDOWS;
const NAMES = Object.keys(WINDOWS) as readonly Window[];
const TAGS_MAX = 20;

const Parameters = z.object({
  address: address.describe('wallet of the trader, in any letter case'),
});

const Answer = z.object({
  profile: SpacedProfileV1,
  top_tags: z.array(TagV1),
  stats: z.object({
    t_1h: WindowV1.describe('the last hour'),
    t_4h: WindowV1.describe('the last 4 hours'),
    t_1d: WindowV1.describe('the last day'),
    t_3d: WindowV1.describe('the last 3 days'),
    t_7d: WindowV1.describe('the last 7 days'),
    t_30d: WindowV1.describe('the last 30 days'),
  }),
});

export const traderV1 = endpoint({
  path: '/v1/traders/:address',
  summary: 'One trader: profile, tags, six windows',
  description:
    'Windows end now and are exact to the second. `top_tags` are the at most 20 tags of the last 30 days, ranked by PnL, then volume.',
  parameters: Parameters,
  answer: Answer,
  problems: ['not_found'],
  async run(call: Call, given) {
    const reading = readWindows(call, {
      trader: given.address,
      now: Math.floor(call.now() / 1000),
      lengths: Object.values(WINDOWS),
    });
    const identifying = readIdentity(call, given.address, reading);
    const [identity, { windows }] = await Promise.all([identifying, reading]);
    const of = (name: Window) => windows[NAMES.indexOf(name)] ?? [];
    const windowOf = (name: Window) => windowV1(total(of(name)));
    return {
      profile: {
        address: given.address,
        name: identity.name,
        profile_image: identity.profile_image,
        x_username: identity.x_username,
        profile_created_at: spaced(identity.profile_created_at),
        last_trade_at: spaced(isoSecond(identity.last_trade_at)),
      },
      top_tags: topTags(of('t_30d'), TAGS_MAX).map((sums) => ({
        slug: sums.tag,
        ...windowV1(sums),
      })),
      stats: {
        t_1h: windowOf('t_1h'),
        t_4h: windowOf('t_4h'),
        t_1d: windowOf('t_1d'),
        t_3d: windowOf('t_3d'),
        t_7d: windowOf('t_7d'),
        t_30d: windowOf('t_30d'),
      },
    };
  },
});
