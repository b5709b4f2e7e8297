/** The OpenAPI document of all endpoints, with the guides and a sample request for each operation. */
import { ANALYTICS_ENDPOINTS } from '../../api/analytics/endpoints.ts';
import { FEED_ENDPOINTS } from '../../api/feed/recent.ts';
import type { Described } from '../../api/http/endpoint.ts';
import { ACCOUNT_ENDPOINTS } from '../../api/service/account.ts';
import { openApi } from '../../api/service/openapi.ts';
import { STATUS_ENDPOINTS } from '../../api/service/status.ts';
import { STREAMS_ENDPOINTS } from '../../api/streams/endpoints.ts';
import { ALERT_ENDPOINTS } from '../alerts/alert-endpoints.ts';
import { DESTINATION_ENDPOINTS } from '../alerts/destination-endpoints.ts';
import { codeSamples } from './code-samples.ts';
import { GUIDES } from './guides.ts';

/** All endpoints except the event streams. */
export const ENDPOINTS: readonly Described[] = [
  ...ANALYTICS_ENDPOINTS,
  ...ACCOUNT_ENDPOINTS,
  ...STREAMS_ENDPOINTS,
  ...STATUS_ENDPOINTS,
  ...FEED_ENDPOINTS,
  ...ALERT_ENDPOINTS,
  ...DESTINATION_ENDPOINTS,
];

export const OPEN_API = openApi(ENDPOINTS, { guides: GUIDES, samplesOf: codeSamples });
