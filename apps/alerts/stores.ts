/** The alerts and destinations of all accounts, and how many the tiers allow. */
import type { Logger } from 'pino';
import { AccountStore } from '../../api/auth/account-store.ts';
import type { Caller, Tier } from '../../api/http/caller.ts';
import { quotaExceeded } from '../../api/http/errors.ts';
import type { Nats } from '../../infra/nats/connection.ts';
import { DestinationRecord } from './destination.ts';
import { ALERTS_BUCKET, DESTINATIONS_BUCKET } from './logs.ts';
import { AlertRecord } from './rule.ts';

const ALERT_LIMITS: Readonly<Record<Tier, { alertsMax: number; destinationsMax: number }>> = {
  demo: { alertsMax: 3, destinationsMax: 1 },
  individual: { alertsMax: 50, destinationsMax: 10 },
  pro: { alertsMax: 1_000, destinationsMax: 100 },
};

type Options<Value> = {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly replicas: number;
  readonly onChange?: (id: string, record: Value | undefined) => void;
};

export type AlertStore = AccountStore<AlertRecord>;
export type DestinationStore = AccountStore<DestinationRecord>;

export function openAlerts(options: Options<AlertRecord>): Promise<AlertStore> {
  return AccountStore.open({
    ...options,
    ...{ bucket: ALERTS_BUCKET, noun: 'alert', schema: AlertRecord },
    overQuota: atMost('max_alerts', (tier) => ALERT_LIMITS[tier].alertsMax),
  });
}

export function openDestinations(options: Options<DestinationRecord>): Promise<DestinationStore> {
  return AccountStore.open({
    ...options,
    ...{ bucket: DESTINATIONS_BUCKET, noun: 'destination', schema: DestinationRecord },
    overQuota: atMost('max_destinations', (tier) => ALERT_LIMITS[tier].destinationsMax),
  });
}

function atMost(name: string, limitOf: (tier: Tier) => number) {
  return ({ tier }: Caller, _record: unknown, state: { readonly others: readonly unknown[] }) => {
    const limit = limitOf(tier);
    const used = state.others.length;
    return used < limit ? undefined : quotaExceeded(name, tier, limit, used);
  };
}
