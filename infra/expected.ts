/** Its message is written for the user: commands print it without a stack trace. */
export class ExpectedError extends Error {}

/** The command line is invalid. `help` is printed below the message. */
export class UsageError extends ExpectedError {
  readonly help: string;

  constructor(message: string, help = '') {
    super(message);
    this.help = help;
  }
}

/** Whether the message is for the user. Those of the system are, too: a file that cannot be read, or a full disk. */
export function isExpected(error: unknown): error is Error {
  return error instanceof ExpectedError || (error instanceof Error && 'syscall' in error);
}
