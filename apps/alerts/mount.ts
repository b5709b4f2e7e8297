/** The endpoints of alerts, on the API's server. */
import type { Logger } from 'pino';
import { invalid } from '../../api/http/errors.ts';
import type { Mount } from '../../api/http/mount.ts';
import { refuseMethod, serveEndpoints } from '../../api/http/routes.ts';
import type { Nats } from '../../infra/nats/connection.ts';
import { ALERT_ENDPOINTS } from './alert-endpoints.ts';
import { createTargetGuard, RefusedTargetError } from './deliver/targets.ts';
import { DESTINATION_ENDPOINTS } from './destination-endpoints.ts';
import { ensureAlertStreams } from './logs.ts';
import { openPushKeys } from './push-keys.ts';
import { openAlerts, openDestinations } from './stores.ts';
import { alertsStream } from './stream.ts';

export async function alertsMount({
  nats,
  logger,
  replicas,
  allowedNetworks,
}: {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly replicas: number;
  /** Private networks that destinations may lead to. */
  readonly allowedNetworks: readonly string[];
}): Promise<Mount> {
  await ensureAlertStreams(nats, replicas);
  const alerts = await openAlerts({ nats, logger, replicas });
  const destinations = await openDestinations({ nats, logger, replicas });
  const guard = createTargetGuard(allowedNetworks);
  const { publicKey } = await openPushKeys(nats, replicas);
  const checkUrl = (url: string, member: string) => {
    try {
      guard.checkedUrl(url);
    } catch (error) {
      if (!(error instanceof RefusedTargetError)) throw error;
      throw invalid([{ path: member, message: error.message }]);
    }
  };
  return {
    watching: Promise.race([alerts.watching, destinations.watching]),
    close: async () => {
      await Promise.all([alerts.close(), destinations.close()]);
    },
    routes(app, { conditionOf, requireKey, untilRevoked }) {
      const notGet = refuseMethod('GET, HEAD');
      app.route('/v2/alerts/stream').get(requireKey, untilRevoked, alertsStream(nats)).all(notGet);
      const shared = { nats, alerts, destinations, conditionOf, checkUrl, pushKey: publicKey };
      serveEndpoints(app, ALERT_ENDPOINTS, shared, requireKey);
      serveEndpoints(app, DESTINATION_ENDPOINTS, shared, requireKey);
    },
  };
}
