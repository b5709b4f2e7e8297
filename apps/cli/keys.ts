/** `fillstream keys`: the API keys of your account. */
import { UsageError } from '../../infra/expected.ts';
import { cleanJson } from '../../infra/printed.ts';
import { command } from './command.ts';
import { minute, table } from './format.ts';

export const keys = command({
  summary: 'your API keys: list, create, revoke',
  usage: '[list | create | revoke ID]',
  takes: [0, 2],
  options: {
    label: { value: 'TEXT', text: 'create: your name for the key' },
    expires: {
      value: 'TIME',
      text: 'create: when it expires, ISO 8601 (default: when your current key does)',
    },
    format: {
      value: 'FORMAT',
      choices: ['pretty', 'json'],
      text: 'of the list (default: pretty)',
    },
  },
  more: `A new key is printed once, and nothing else is on standard output. Revoking a key ends its streams within a second.`,
  examples: ['keys', 'keys create --label laptop > laptop.key', 'keys revoke ID'],
  async run({ args, client, flags, screen, write, note }) {
    const [action = 'list', id] = args;
    if ((id !== undefined) !== (action === 'revoke')) {
      throw new UsageError(
        action === 'revoke' ? 'missing argument: ID' : `unexpected argument: ${id}`,
      );
    }
    const fillstream = client();
    switch (action) {
      case 'list': {
        const { keys: own } = await fillstream.keys();
        if (flags.format === 'json') {
          await write(own.map((one) => `${cleanJson(one)}\n`).join(''));
          return;
        }
        await write(
          table(
            [
              { head: 'id', cell: (one) => one.id },
              { head: 'label', cut: 'end', cell: (one) => one.label },
              { head: 'tier', cell: (one) => one.tier },
              {
                head: 'status',
                cell: (one) => (one.is_current ? `${one.status}, this one` : one.status),
                color: (one) => (one.status === 'valid' ? 'green' : 'dim'),
              },
              { head: 'created', cell: (one) => minute(one.created_at) },
              { head: 'expires', cell: (one) => minute(one.expires_at) || 'never' },
            ],
            own,
            screen,
          ),
        );
        return;
      }
      case 'create': {
        const made = await fillstream.createKey({
          ...(flags.label !== undefined && { label: flags.label }),
          ...(flags.expires !== undefined && { expires_at: flags.expires }),
        });
        note(`created ${made.id} (${made.tier}); the key is not shown again`);
        await write(`${made.key}\n`);
        return;
      }
      case 'revoke':
        await fillstream.deleteKey(id ?? '');
        note(`revoked ${id}`);
        return;
      default:
        throw new UsageError(`unknown action: ${action}`);
    }
  },
});
