/** The error of every broken rule of a configuration. */
import { ServerError } from "../../core/server-error.ts";

export function invalid(message: string): ServerError {
  return new ServerError("invalid_argument", message);
}
