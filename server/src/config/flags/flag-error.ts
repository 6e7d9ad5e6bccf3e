/** An invalid command line. The message is printed around the usage text; `hint` ends it. */
export class FlagError extends Error {
  /** The suggested correction; empty when the message contains it. */
  readonly hint: string;

  constructor(message: string, { hint = "", ...options }: ErrorOptions & { readonly hint?: string } = {}) {
    super(message, options);
    this.name = "FlagError";
    this.hint = hint;
  }
}
