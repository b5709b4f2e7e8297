/**
 * Runs in a container in place of a server whose image is not available, or of a chain node:
 *
 *   node test/release/containers/stand-in.ts clickhouse | chain
 *
 * Our embedded ClickHouse and our devnet only listen on loopback. This proxy exposes their ports to the
 * other containers on all addresses, and for ClickHouse adds the user and password of the real image.
 */
import { request as ask, createServer, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { clickHousePassword } from '../../../local/secret.ts';
import { start } from '../../support/service.ts';

const CLICKHOUSE_PORT = 8123;
const CLICKHOUSE_DATA = '/var/lib/clickhouse/embedded';
const RPC_PORT = 8545;
const GAMMA_PORT = 8546;
/** Ports behind the proxy are higher by this number. */
const BEHIND = 10_000;

type Headers = IncomingMessage['headers'];

const [kind] = process.argv.slice(2);
const part = kind === 'clickhouse' ? await clickHouse() : await chain();
process.on('SIGTERM', async () => process.exit(await part.stop()));
process.exit(await part.exit);

async function clickHouse() {
  const args = ['--data', CLICKHOUSE_DATA, '--port', String(CLICKHOUSE_PORT + BEHIND)];
  const server = start('local/clickhouse/main.ts', args);
  await server.event('listening');
  const basic = (user: string) => `Basic ${Buffer.from(user).toString('base64')}`;
  const given = basic(`default:${process.env.CLICKHOUSE_PASSWORD}`);
  const own = basic(`service:${clickHousePassword(CLICKHOUSE_DATA)}`);
  open(CLICKHOUSE_PORT, (headers) =>
    headers.authorization === given ? { ...headers, authorization: own } : headers,
  );
  return server;
}

async function chain() {
  const ports = ['--rpc-port', String(RPC_PORT + BEHIND), '--gamma-port', `${GAMMA_PORT + BEHIND}`];
  const size = ['--history-matches', '300', '--history-days', '2'];
  const devnet = start('local/devnet/main.ts', ['--data', '/chain', ...ports, ...size]);
  await devnet.event('ready');
  for (const port of [RPC_PORT, GAMMA_PORT]) open(port, (headers) => headers);
  return devnet;
}

/** Forwards HTTP and WebSockets to the port behind, so that they come from loopback. */
function open(port: number, changed: (headers: Headers) => Headers): void {
  const host = `127.0.0.1:${port + BEHIND}`;
  const server = createServer((request, response) => {
    const headers = { ...changed(request.headers), host };
    const { method, url: path } = request;
    const passed = ask(
      { host: '127.0.0.1', port: port + BEHIND, method, path, headers },
      (answer) => {
        response.writeHead(answer.statusCode ?? 0, answer.headers);
        answer.pipe(response);
      },
    );
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    request.pipe(passed);
  });
  server.on('upgrade', (request, socket) => {
    const lines = Object.entries({ ...request.headers, host }).map(
      ([name, value]) => `${name}: ${value}`,
    );
    const behind = connect(port + BEHIND, '127.0.0.1');
    behind.write([`GET ${request.url} HTTP/1.1`, ...lines, '', ''].join('\r\n'));
    behind.pipe(socket).pipe(behind);
    behind.on('error', () => socket.destroy());
    socket.on('error', () => behind.destroy());
  });
  server.listen(port, '0.0.0.0');
}
