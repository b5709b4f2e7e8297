/**
 * Trader profile objects (specification 2.1) of the traders on one page: the reads of just these,
 * and their assembly. A trader without a public profile has empty texts; nothing is invented.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse-reader.ts';
import { checksummed, isoSecond } from './format.ts';
import { type Call, FEW_ROWS, newestBy, read } from './query.ts';
import {
  boolean,
  hexText,
  int,
  number,
  oneOf,
  type RowOf,
  rowOf,
  seconds,
  string,
} from './rows.ts';
import { checksummedAddress, lowerAddress, spacedTime, text, time } from './schemas.ts';

const name = text('display name, or empty', 'Ada');
const image = text('URL of an image, or empty', 'https://example.com/ada.png');
const xUsername = text('account on X, or empty', 'ada');

export const ProfileV1 = z.object({
  address: lowerAddress,
  name,
  profile_image: image,
  x_username: xUsername,
  profile_created_at: time('when the profile was created, or empty'),
  last_trade_at: time('newest trade'),
});
type ProfileV1 = z.output<typeof ProfileV1>;

/** As the v1 trader profile has it: times with a space. */
export const SpacedProfileV1 = ProfileV1.extend({
  profile_created_at: spacedTime('when the profile was created, or empty'),
  last_trade_at: spacedTime('newest trade, or empty'),
});

export const ProfileV2 = z.object({
  address: checksummedAddress,
  name,
  profile_created_at: time('when the profile was created, or empty'),
  profile_image: image,
  x_username: xUsername,
});

/** The profile object of v2, where the last trade stands beside it. */
export function profileV2(profile: Omit<ProfileV1, 'last_trade_at'>): z.output<typeof ProfileV2> {
  return {
    address: checksummed(profile.address),
    name: profile.name,
    profile_created_at: profile.profile_created_at,
    profile_image: profile.profile_image,
    x_username: profile.x_username,
  };
}

/** Both tables are read by their primary key, at the same time. */
const AMONG = 'trader IN {traders:Array(FixedString(20))}';

const PROFILES_SQL = `
SELECT
  trader AS address,
  name,
  profile_image,
  x_username,
  profile_created_at,
  taker_tier,
  taker_tier_name,
  weighted_volume_usd,
  has_weighted_volume,
  toUnixTimestamp64Milli(observed_at) AS sequence
FROM traders
WHERE ${AMONG}
${FEW_ROWS}`;

const ProfileRow = rowOf({
  address: hexText,
  name: string,
  profile_image: string,
  x_username: string,
  profile_created_at: string,
  taker_tier: (value) => oneOf([0, 1, 2, 3, 4, 5, 6], value),
  taker_tier_name: string,
  weighted_volume_usd: number,
  has_weighted_volume: boolean,
  sequence: int,
});
export type ProfileRow = RowOf<typeof ProfileRow>;

const ACTIVITY_SQL = `
SELECT trader AS address, last_trade_at AS newest
FROM trader_activity
WHERE ${AMONG}
${FEW_ROWS}`;

const ActivityRow = rowOf({ address: hexText, newest: seconds });

/** Reads the profiles of these traders; gives each address its object, ISO 8601 times. */
export async function readProfiles(
  call: Call,
  addresses: readonly string[],
): Promise<(address: string) => ProfileV1> {
  const [profileOf, activity] = await Promise.all([
    readPublicProfiles(call, addresses),
    addresses.length === 0
      ? []
      : read(call, { sql: ACTIVITY_SQL, parameters: boundTo(addresses), row: ActivityRow }),
  ]);
  // A row of each part of the table that is not merged yet.
  const tradedAt = new Map<string, number>();
  for (const { address, newest } of activity) {
    tradedAt.set(address, Math.max(newest, tradedAt.get(address) ?? 0));
  }
  return (address) => ({
    ...profileOf(address),
    last_trade_at: isoSecond(tradedAt.get(address) ?? 0),
  });
}

/** As `readProfiles`, for who knows the last trades already. */
export async function readPublicProfiles(
  call: Call,
  addresses: readonly string[],
): Promise<(address: string) => Omit<ProfileV1, 'last_trade_at'>> {
  const profiles = await readProfileRows(call, addresses);
  return (address) => {
    const { name, profile_image, x_username, profile_created_at } =
      profiles.get(address) ?? NO_PROFILE;
    return { address, name, profile_image, x_username, profile_created_at };
  };
}

/** The public profiles of these traders by address; without those that have none. */
export async function readProfileRows(
  call: Call,
  addresses: readonly string[],
): Promise<ReadonlyMap<string, ProfileRow>> {
  return await call.memories.profiles.readTogether(addresses, async (missing) => {
    const select = { sql: PROFILES_SQL, parameters: boundTo(missing), row: ProfileRow };
    return newestBy(await read({ ...call, signal: null }, select), ({ address }) => address);
  });
}

function boundTo(addresses: readonly string[]) {
  return { traders: new Bytes(addresses) };
}

/** What is shown of a trader without a public profile. */
export const NO_PROFILE = {
  ...{ name: '', profile_image: '', x_username: '', profile_created_at: '' },
  ...{ taker_tier: 0, taker_tier_name: '', weighted_volume_usd: 0, has_weighted_volume: false },
};
