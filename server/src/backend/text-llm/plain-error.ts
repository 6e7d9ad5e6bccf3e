/** An error of a request that reaches the client without the prefix of its interface. */
import { ServerError } from "../../core/server-error.ts";

export class PlainError extends ServerError {
  constructor(message: string) {
    super("invalid_argument", message);
  }
}
