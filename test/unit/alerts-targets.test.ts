/** Targets of alerts that must be refused, and the limits of a request. Nothing leaves this machine. */
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type LookupFunction } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from 'vitest';
import { createSender, type Post } from '../../apps/alerts/deliver/post.ts';
import {
  createTargetGuard,
  isPublic,
  networkList,
  RefusedTargetError,
} from '../../apps/alerts/deliver/targets.ts';
import { NoAnswerError } from '../../infra/http-request.ts';

/** Any number of addresses of each class, and every notation of one address. */
const REFUSED_HOSTS = [
  // Notations of 127.0.0.1
  ...['127.0.0.1', '127.1', '127.0.1', '2130706433', '0x7f000001', '0x7f.1', '0177.0.0.1'],
  ...[
    '017700000001',
    '0x7f.0x0.0x0.0x1',
    '127.0.0.1.',
    '①②⑦.⓪.⓪.①',
    '127。0。0。1',
    '%31%32%37.0.0.1',
  ],
  ...['127.255.255.254', '127.0.0.53'],
  // This host
  ...['0.0.0.0', '0', '0x0', '0.1.2.3'],
  // Private
  ...['10.0.0.1', '10.255.255.255', '172.16.0.1', '172.31.255.255', '192.168.0.1', '0xc0a80001'],
  // Carrier-grade NAT, link-local, metadata of clouds
  ...['100.64.0.1', '100.127.255.255', '100.100.100.200', '169.254.0.1', '169.254.169.254'],
  ...['2852039166', '0xa9fea9fe', '192.0.0.192', '168.63.129.16'],
  // Documentation, benchmarks, protocols
  ...['192.0.0.1', '192.0.2.1', '198.51.100.1', '203.0.113.1', '198.18.0.1', '198.19.255.255'],
  ...['192.88.99.1', '192.31.196.1', '192.52.193.1', '192.175.48.1'],
  // Multicast, reserved, broadcast
  ...['224.0.0.1', '239.255.255.250', '240.0.0.1', '255.255.255.255', '4294967295'],
  // IPv6: this host
  ...['[::]', '[::1]', '[0:0:0:0:0:0:0:1]', '[0000::0001]'],
  // IPv4 addresses within IPv6
  ...[
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[0:0:0:0:0:ffff:10.0.0.1]',
    '[::ffff:169.254.169.254]',
  ],
  ...['[::127.0.0.1]', '[::7f00:1]', '[::ffff:0:127.0.0.1]', '[::ffff:8.8.8.8]'],
  ...['[64:ff9b::127.0.0.1]', '[64:ff9b::a00:1]', '[64:ff9b:1::10.0.0.1]', '[2002:7f00:1::]'],
  ...['[2002:a9fe:a9fe::1]', '[2001::1]', '[2001:0:7f00:1::]'],
  // IPv6: local
  ...['[fc00::1]', '[fd00::1]', '[fd00:ec2::254]', '[fe80::1]', '[febf::1]', '[fec0::1]'],
  // IPv6: multicast, discard, documentation, protocols, unassigned
  ...['[ff01::1]', '[ff02::1]', '[ff0e::1]', '[100::1]', '[100:0:0:1::1]', '[2001:db8::1]'],
  ...['[3fff::1]', '[2001:2::1]', '[2001:10::1]', '[2001:20::1]', '[2001:30::1]', '[5f00::1]'],
  ...['[2001:3::1]', '[2001:4:112::1]', '[2620:4f:8000::1]', '[200::1]', '[4000::1]', '[8000::1]'],
];

/** Addresses that a name can resolve to. */
const PRIVATE_ADDRESSES = [
  ...['127.0.0.1', '10.1.2.3', '172.20.0.1', '192.168.1.1', '100.64.0.1', '169.254.169.254'],
  ...['0.0.0.0', '198.18.0.1', '203.0.113.1', '224.0.0.1', '255.255.255.255', '168.63.129.16'],
  ...['::1', '::', '::ffff:127.0.0.1', '::ffff:10.0.0.1', '::127.0.0.1', '64:ff9b::7f00:1'],
  ...['2002:7f00:1::', '2001::1', 'fd00::1', 'fe80::1', 'fe80::1%eth0', 'fec0::1', 'ff02::1'],
  ...['not an address', ''],
];

const PUBLIC_ADDRESSES = [
  ...['93.184.215.14', '1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '100.63.255.255'],
  ...['100.128.0.0', '126.255.255.255', '128.0.0.0', '169.253.255.255', '172.15.255.255'],
  ...['172.32.0.0', '192.167.255.255', '192.169.0.0', '198.17.255.255', '198.20.0.0'],
  ...['223.255.255.255', '2606:4700::1111', '2a00:1450:4001::1', '2001:200::1', '2001:4860::8888'],
];

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

function senderOf(options: Partial<Parameters<typeof createSender>[0]> = {}) {
  const send = createSender({ allowedNetworks: [], ...options });
  closers.push(send.close);
  return send;
}

function postTo(url: string, change: Partial<Post> = {}): Post {
  return { url, method: 'POST', headers: {}, body: '{}', ...change };
}

/** Resolves every name to the same addresses. */
function lookupTo(...addresses: readonly string[]): LookupFunction {
  const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  return (_name, _options, done) => done(null, found);
}

async function serve(listener: RequestListener): Promise<number> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

/** Answers each connection with the given bytes. */
async function serveBytes(bytes: string): Promise<{ port: number; connections: () => number }> {
  let connections = 0;
  const server = createTcpServer((socket) => {
    connections++;
    socket.on('error', () => {});
    socket.end(bytes);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(() => server.close());
  return { port: (server.address() as AddressInfo).port, connections: () => connections };
}

const LOOPBACK = ['127.0.0.0/8'];

describe('refused hosts', () => {
  test('there are many, and no host is listed twice', () => {
    expect(REFUSED_HOSTS.length).toBeGreaterThanOrEqual(60);
    expect(new Set(REFUSED_HOSTS).size).toBe(REFUSED_HOSTS.length);
  });

  // The check comes before the sender: a test that fails must not send anything.
  test.each(REFUSED_HOSTS)('%s', async (host) => {
    const send = senderOf();
    const { checkedUrl } = createTargetGuard([]);
    for (const scheme of ['https', 'http']) {
      for (const port of ['', ':8443']) {
        const url = `${scheme}://${host}${port}/secret?token=secret`;
        expect(() => checkedUrl(url)).toThrow(RefusedTargetError);
        const sent = send(postTo(url));
        await expect(sent).rejects.toThrow(RefusedTargetError);
        await expect(sent).rejects.not.toThrow(/secret/);
      }
    }
  });

  test.each(PRIVATE_ADDRESSES)('a name that resolves to %j', async (address) => {
    const lookup = lookupTo(address);
    const send = senderOf({ lookup });
    const guard = createTargetGuard([], lookup);
    for (const scheme of ['https', 'http']) {
      const errors: unknown[] = [];
      guard.lookup(`${scheme}:`)('bot.example', {}, (error) => errors.push(error));
      expect(errors).toEqual([expect.any(RefusedTargetError)]);
      const sent = send(postTo(`${scheme}://bot.example/secret`));
      await expect(sent).rejects.toThrow(RefusedTargetError);
      await expect(sent).rejects.toThrow(/^bot\.example /);
    }
  });

  test.each(['localhost', 'LOCALHOST'])('%s, by the real lookup', async (host) => {
    const send = senderOf();
    await expect(send(postTo(`https://${host}/`))).rejects.toThrow(RefusedTargetError);
    await expect(send(postTo(`http://${host}/`))).rejects.toThrow(RefusedTargetError);
  });

  test.each([
    'localhost.',
    'ip6-localhost',
    'a.localhost',
    'localhost.example',
    '127.0.0.1.example',
  ])('%s, when it resolves to this host', async (host) => {
    const send = senderOf({ lookup: lookupTo('127.0.0.1', '::1') });
    await expect(send(postTo(`https://${host}/`))).rejects.toThrow(RefusedTargetError);
    await expect(send(postTo(`http://${host}/`))).rejects.toThrow(RefusedTargetError);
  });

  test('a name with several addresses, all of them private', async () => {
    const send = senderOf({ lookup: lookupTo('10.0.0.1', '::1', '192.168.0.1') });
    await expect(send(postTo('https://bot.example/'))).rejects.toThrow(RefusedTargetError);
  });

  test.each([
    ['not a URL', /not a valid URL/],
    ['https://', /not a valid URL/],
    ['https://[fe80::1%25eth0]/', /not a valid URL/],
    ['ftp://bot.example/', /only https/],
    ['file:///etc/passwd', /only https/],
    ['data:text/plain,x', /only https/],
    ['https://user@bot.example/', /user or a password/],
    ['https://user:password@bot.example/', /user or a password/],
    ['https://:password@bot.example/', /user or a password/],
    ['http://93.184.215.14/', /only be used with https:/],
  ])('%s', async (url, message) => {
    const sent = senderOf()(postTo(url));
    await expect(sent).rejects.toThrow(RefusedTargetError);
    await expect(sent).rejects.toThrow(message);
  });

  test('http: to a name of a public address', async () => {
    const send = senderOf({ allowedNetworks: LOOPBACK, lookup: lookupTo('93.184.215.14') });
    await expect(send(postTo('http://bot.example/'))).rejects.toThrow(/only be used with https:/);
  });

  test('an allowed network allows no other', async () => {
    const send = senderOf({ allowedNetworks: ['127.0.0.0/8', 'fd00::/16'] });
    for (const host of ['10.0.0.1', '128.0.0.1', '[::1]', '[fd01::1]']) {
      await expect(send(postTo(`http://${host}/`))).rejects.toThrow(RefusedTargetError);
    }
  });

  test('no connection is opened', async () => {
    const { port, connections } = await serveBytes('');
    const refused = senderOf();
    for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]']) {
      await expect(refused(postTo(`https://${host}:${port}/`))).rejects.toThrow(RefusedTargetError);
    }
    expect(connections()).toBe(0);

    // The server counts: a sender that may connect does so, and finds no TLS.
    const allowed = senderOf({ allowedNetworks: LOOPBACK });
    await expect(allowed(postTo(`https://127.0.0.1:${port}/`))).rejects.toThrow(NoAnswerError);
    expect(connections()).toBe(1);
  });
});

describe('allowed addresses', () => {
  test.each(PUBLIC_ADDRESSES)('%s is public', (address) => {
    expect(isPublic(address)).toBe(true);
  });

  test('a URL with a public address passes the check', () => {
    const { checkedUrl } = createTargetGuard([]);
    expect(checkedUrl('https://93.184.215.14:8443/x').hostname).toBe('93.184.215.14');
    expect(checkedUrl('https://[2606:4700::1111]/').hostname).toBe('[2606:4700::1111]');
  });

  test('a name resolves to its public addresses, without the private ones', () => {
    const guard = createTargetGuard([], lookupTo('10.0.0.1', '93.184.215.14', '2606:4700::1111'));
    const results: unknown[] = [];
    const lookup = guard.lookup('https:');
    lookup('bot.example', { all: true }, (...result) => results.push(result));
    lookup('bot.example', {}, (...result) => results.push(result));
    expect(results).toEqual([
      [
        null,
        [
          { address: '93.184.215.14', family: 4 },
          { address: '2606:4700::1111', family: 6 },
        ],
      ],
      [null, '93.184.215.14', 4],
    ]);
  });

  test('an error of the lookup is not a refusal', async () => {
    const lookup: LookupFunction = (_name, _options, done) => done(new Error('ENOTFOUND'), []);
    await expect(senderOf({ lookup })(postTo('https://bot.example/'))).rejects.toThrow(
      NoAnswerError,
    );
  });

  test('each connection checks its own lookup', async () => {
    const port = await serve((_request, response) =>
      response.setHeader('connection', 'close').end(),
    );
    const answers = [lookupTo('127.0.0.1'), lookupTo('127.0.0.2')];
    const lookup: LookupFunction = (...call) => answers.shift()?.(...call);
    const send = senderOf({ allowedNetworks: ['127.0.0.1/32'], lookup });
    expect((await send(postTo(`http://bot.example:${port}/`))).status).toBe(200);
    await expect(send(postTo(`http://bot.example:${port}/`))).rejects.toThrow(RefusedTargetError);
  });

  test.each(['127.0.0.1', '127.0.0.1/', '127.0.0.1/33', '::/129', 'x/8', '127.0.0.0/-8', ''])(
    '%j is no network',
    (network) => {
      expect(() => networkList([network])).toThrow();
    },
  );
});

describe('requests', () => {
  test('method, path, headers and body arrive', async () => {
    const requests: unknown[] = [];
    const port = await serve(async (request, response) => {
      const body = await text(request);
      const { method, url, headers } = request;
      const { 'x-test': test, 'content-length': length, host } = headers;
      requests.push({ method, url, test, length, host, body });
      response.writeHead(201).end('done');
    });
    const send = senderOf({ allowedNetworks: LOOPBACK });
    const url = `http://127.0.0.1:${port}/a/b?c=d`;
    const reply = await send(
      postTo(url, { method: 'PATCH', headers: { 'x-test': '1' }, body: '"¢"' }),
    );
    expect(reply).toEqual({ status: 201, text: 'done', body: 'done', retryAfterMs: undefined });
    expect(requests).toEqual([
      {
        ...{ method: 'PATCH', url: '/a/b?c=d', test: '1', length: '4' },
        ...{ host: `127.0.0.1:${port}`, body: '"¢"' },
      },
    ]);
  });

  test('connections are reused', async () => {
    const ports = new Set<number | undefined>();
    const port = await serve((request, response) => {
      ports.add(request.socket.remotePort);
      response.end('ok');
    });
    const send = senderOf({ allowedNetworks: LOOPBACK });
    for (let i = 0; i < 3; i++) await send(postTo(`http://127.0.0.1:${port}/`));
    expect(ports.size).toBe(1);
  });

  test('an allowed network is also reached as IPv4 within IPv6, and by name', async () => {
    const port = await serve((_request, response) => response.end('ok'));
    const send = senderOf({ allowedNetworks: LOOPBACK, lookup: lookupTo('10.0.0.1', '127.0.0.1') });
    for (const host of ['[::ffff:127.0.0.1]', 'bot.example']) {
      expect((await send(postTo(`http://${host}:${port}/`))).text).toBe('ok');
    }
  });

  test.each([301, 302, 303, 307, 308])('a redirect with %d is not followed', async (status) => {
    const paths: unknown[] = [];
    const port = await serve((request, response) => {
      paths.push(request.url);
      const location = request.url === '/1' ? 'http://169.254.169.254/' : '/elsewhere';
      response.writeHead(status, { location }).end();
    });
    const send = senderOf({ allowedNetworks: LOOPBACK });
    expect((await send(postTo(`http://127.0.0.1:${port}/1`))).status).toBe(status);
    expect((await send(postTo(`http://127.0.0.1:${port}/2`))).status).toBe(status);
    expect(paths).toEqual(['/1', '/2']);
  });

  test('an endless body is cut, and its connection dropped', async () => {
    let dropped: () => void = () => {};
    const isDropped = new Promise<void>((resolve) => {
      dropped = resolve;
    });
    const port = await serve((_request, response) => {
      const write = () => {
        while (!response.destroyed && response.write('x'.repeat(1_000)));
      };
      response.on('drain', write).on('close', dropped);
      response.writeHead(202);
      write();
    });
    const reply = await senderOf({ allowedNetworks: LOOPBACK })(
      postTo(`http://127.0.0.1:${port}/`),
    );
    expect(reply.status).toBe(202);
    expect(reply.body).toBe('x'.repeat(16_384));
    expect(reply.text).toBe('x'.repeat(1_024));
    await isDropped;
  });

  test.each([
    ['no reply', () => {}],
    ['headers only', (_request, response) => response.writeHead(200).flushHeaders()],
    ['a part of the body', (_request, response) => response.writeHead(200).write('x')],
  ] satisfies [string, RequestListener][])('the time limit covers %s', async (_, listener) => {
    const port = await serve(listener);
    const send = senderOf({ allowedNetworks: LOOPBACK, msMax: 300 });
    const sent = send(postTo(`http://127.0.0.1:${port}/`));
    await expect(sent).rejects.toMatchObject({ reason: 'timeout' });
    await expect(sent).rejects.toThrow(NoAnswerError);
  });

  test('the time limit covers the lookup', async () => {
    const send = senderOf({ msMax: 50, lookup: () => {} });
    await expect(send(postTo('https://bot.example/'))).rejects.toMatchObject({ reason: 'timeout' });
  });

  test('a signal aborts', async () => {
    const controller = new AbortController();
    const port = await serve(() => controller.abort());
    const send = senderOf({ allowedNetworks: LOOPBACK });
    const sent = send(postTo(`http://127.0.0.1:${port}/`), controller.signal);
    await expect(sent).rejects.toMatchObject({ reason: 'network' });
    const late = send(postTo(`http://127.0.0.1:${port}/`), controller.signal);
    await expect(late).rejects.toMatchObject({ reason: 'network' });
  });

  test.each([
    ['nothing', ''],
    ['no HTTP', 'SSH-2.0-OpenSSH\r\n'],
    [
      'a switch of protocols',
      'HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n',
    ],
    ['too many headers', `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(100_000)}\r\n\r\n`],
    ['a part of the body', 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc'],
  ])('a target that answers %s', async (_, bytes) => {
    const { port } = await serveBytes(bytes);
    const send = senderOf({ allowedNetworks: LOOPBACK });
    const sent = send(postTo(`http://127.0.0.1:${port}/`));
    await expect(sent).rejects.toMatchObject({ reason: 'network' });
  });

  test.each([
    ['120', 120_000],
    ['0', 0],
    ['3601', 3_600_000],
    ['99999999999999999999', 3_600_000],
    ['Wed, 21 Oct 2015 07:28:00 GMT', 0],
    ['Wed, 21 Oct 2199 07:28:00 GMT', 3_600_000],
    ['soon', undefined],
  ])('Retry-After: %s', async (header, expected) => {
    const port = await serve((_request, response) => {
      response.writeHead(429, { 'retry-after': header }).end();
    });
    const reply = await senderOf({ allowedNetworks: LOOPBACK })(
      postTo(`http://127.0.0.1:${port}/`),
    );
    expect(reply.retryAfterMs).toBe(expected);
  });
});
