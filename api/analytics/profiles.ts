/**
 * Profile objects of the traders on a page. A trader without a public profile has empty texts.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import type { Call } from './call.ts';
import { checksummed, isoSecond } from './format.ts';
import { FEW_ROWS, read } from './query.ts';
import { hexText, rowOf, seconds } from './rows.ts';
import { checksummedAddress, lowerAddress, spacedTime, text, time } from './schemas.ts';

const name = text('display name, or empty', 'Ada');
const image = text('URL of an image, or empty', 'https://example.com/ada.png');
const xUsername = text('account on X, or empty', 'ada');

export const ProfileV1 = z
  .object({
    address: lowerAddress,
    name,
    profile_image: image,
    x_username: xUsername,
    profile_created_at: time('when the profile was created, or empty'),
    last_trade_at: time('newest trade'),
  })
  .meta({ id: 'ProfileV1' });
type ProfileV1 = z.output<typeof ProfileV1>;

/** The v1 trader profile, whose times have a space in place of T. */
export const SpacedProfileV1 = ProfileV1.extend({
  profile_created_at: spacedTime('when the profile was created, or empty'),
  last_trade_at: spacedTime('newest trade, or empty'),
}).meta({ id: 'SpacedProfileV1' });

export const ProfileV2 = z
  .object({
    address: checksummedAddress,
    name,
    profile_created_at: time('when the profile was created, or empty'),
    profile_image: image,
    x_username: xUsername,
  })
  .meta({ id: 'Profile' });

/** The profile object of v2, which does not contain the last trade. */
export function profileV2(profile: Omit<ProfileV1, 'last_trade_at'>): z.output<typeof ProfileV2> {
  return {
    address: checksummed(profile.address),
    name: profile.name,
    profile_created_at: profile.profile_created_at,
    profile_image: profile.profile_image,
    x_username: profile.x_username,
  };
}

const ActivityRow = rowOf({ address: hexText('trader'), newest: seconds('last_trade_at') });

const ACTIVITY_SQL = `
SELECT ${ActivityRow.columns}
FROM trader_activity
WHERE trader IN {traders:Array(FixedString(20))}
${FEW_ROWS}`;

/** Reads the profiles of these traders; returns a function from address to object, with ISO 8601 times. */
export async function readProfiles(
  call: Call,
  addresses: readonly string[],
): Promise<(address: string) => ProfileV1> {
  const [profiles, activity] = await Promise.all([
    call.metadata.profiles(addresses),
    addresses.length === 0
      ? []
      : read(call, {
          sql: ACTIVITY_SQL,
          parameters: { traders: new Bytes(addresses) },
          row: ActivityRow,
        }),
  ]);
  // Each unmerged part of the table has a row.
  const tradedAt = new Map<string, number>();
  for (const { address, newest } of activity) {
    tradedAt.set(address, Math.max(newest, tradedAt.get(address) ?? 0));
  }
  return (address) => {
    const { name, profile_image, x_username, profile_created_at } =
      profiles.get(address) ?? NO_PROFILE;
    const last_trade_at = isoSecond(tradedAt.get(address) ?? 0);
    return { address, name, profile_image, x_username, profile_created_at, last_trade_at };
  };
}

/** The same for v2, whose profiles do not have the last trade. It needs no statement if the profiles are cached. */
export async function readProfilesV2(
  call: Call,
  addresses: readonly string[],
): Promise<(address: string) => z.output<typeof ProfileV2>> {
  const profiles = await call.metadata.profiles(addresses);
  return (address) => profileV2({ ...(profiles.get(address) ?? NO_PROFILE), address });
}

/** The profile of a trader without a public profile. */
export const NO_PROFILE = {
  ...{ name: '', profile_image: '', x_username: '', profile_created_at: '' },
  ...{ taker_tier: 0, taker_tier_name: '', weighted_volume_usd: 0, has_weighted_volume: false },
};
