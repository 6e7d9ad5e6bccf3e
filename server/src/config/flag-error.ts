/** A command line that cannot be used. The message is for the terminal, ahead of the usage text. */
export class FlagError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "FlagError";
  }
}
