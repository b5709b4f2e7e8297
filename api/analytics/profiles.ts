/**
 * Trader profile objects (specification 2.1) of the traders on one page: SQL that reads just these,
 * and their assembly. A trader without a public profile has empty texts; nothing is invented.
 */
import { z } from 'zod';
import { checksummedAddress, lowerAddress, spacedTime, text, time } from './fields.ts';
import { checksummed, isoSecond, Seconds } from './wire.ts';

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

/**
 * Two columns, `profiles` and `activity`, of the traders in `traders`: an SQL expression (ours, never
 * a value of a client) of type Array(FixedString(20)). Both tables are read by their primary key.
 */
export function profileColumns(traders: string): string {
  return `
    (
      SELECT groupArray((${addressText('trader')}, name, profile_image, x_username,
        profile_created_at))
      FROM traders FINAL
      WHERE trader IN (SELECT arrayJoin(${traders}))
    ) AS profiles,
    (
      SELECT groupArray((${addressText('trader')}, toUnixTimestamp(newest)))
      FROM
      (
        SELECT trader, max(last_trade_at) AS newest
        FROM trader_activity
        WHERE trader IN (SELECT arrayJoin(${traders}))
        GROUP BY trader
      )
    ) AS activity`;
}

/** The row members that `profileColumns` gives. */
export const ProfileColumns = {
  profiles: z.array(z.tuple([z.string(), z.string(), z.string(), z.string(), z.string()])),
  activity: z.array(z.tuple([z.string(), Seconds])),
};

/** 0x and lower-case hexadecimal digits of an address column. */
export function addressText(column: string): string {
  return `concat('0x', lower(hex(${column})))`;
}

/** Gives each address its profile object, ISO 8601 times. */
export function profileReader(row: {
  readonly profiles: z.output<(typeof ProfileColumns)['profiles']>;
  readonly activity: z.output<(typeof ProfileColumns)['activity']>;
}): (address: string) => ProfileV1 {
  const profiles = new Map(row.profiles.map((profile) => [profile[0], profile]));
  const activity = new Map(row.activity);
  return (address) => {
    const [, name, image, xUsername, createdAt] = profiles.get(address) ?? ['', '', '', '', ''];
    return {
      address,
      name,
      profile_image: image,
      x_username: xUsername,
      profile_created_at: createdAt,
      last_trade_at: isoSecond(activity.get(address) ?? 0),
    };
  };
}
