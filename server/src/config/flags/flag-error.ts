/** A command line that cannot be used. The message is for the terminal, around the usage text; `hint` ends it. */
export class FlagError extends Error {
  /** What to write instead; empty when the message says it. */
  readonly hint: string;

  constructor(message: string, { hint = "", ...options }: ErrorOptions & { readonly hint?: string } = {}) {
    super(message, options);
    this.name = "FlagError";
    this.hint = hint;
  }
}
