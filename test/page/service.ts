/** Vitest's global setup of the page's tests: the service with a trading devnet as a user starts it, for all files. */
import type { TestProject } from 'vitest/node';
import { type Service, startService, temporaryDirectory } from '../support/service.ts';
import { CHROMIUM, MISSING } from './browser.ts';

/** How a test reaches a service. */
export type Place = Pick<Service, 'ready' | 'env'>;

declare module 'vitest' {
  interface ProvidedContext {
    place: Place;
  }
}

export const ARGS = ['--history-days', '4', '--demo-rate', '8'];

export default async function setup({ provide }: TestProject) {
  if (CHROMIUM === undefined) return console.warn(MISSING);
  const directory = temporaryDirectory();
  const { up, ready, env } = await startService(`${directory.path}/data`, {
    ...{ args: ARGS, env: { PUBLIC_TIER: 'demo', ALERT_NETWORKS: '127.0.0.0/8' } },
  });
  provide('place', { ready, env });
  return async () => {
    await up.stop();
    directory.remove();
  };
}
