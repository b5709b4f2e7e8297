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
