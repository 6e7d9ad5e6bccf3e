/** Messages between a supervisor and its workers, over the channel that Node.js gives to child processes (JSON). */
import { isObject } from "../../core/json-object.ts";

export type ToWorker =
  /** Drain as after SIGTERM; for all workers, at the end of the server. */
  | { readonly kind: "stop" }
  /** Somebody does not want to wait. */
  | { readonly kind: "hurry" }
  /** Others serve on: let the clients of this one go there. */
  | { readonly kind: "retire" }
  | { readonly kind: "scrape"; readonly id: number };

export type FromWorker =
  | { readonly kind: "ready" }
  /** The metrics page. */
  | { readonly kind: "page"; readonly id: number; readonly text: string };

/** Undefined: a message of others, such as those of Node.js's own modules. */
export function parseToWorker(value: unknown): ToWorker | undefined {
  if (!isObject(value)) return undefined;
  const { kind, id } = value;
  if (kind === "stop" || kind === "hurry" || kind === "retire") return { kind };
  return kind === "scrape" && typeof id === "number" ? { kind, id } : undefined;
}

/** Undefined: a message of others. */
export function parseFromWorker(value: unknown): FromWorker | undefined {
  if (!isObject(value)) return undefined;
  const { kind, id, text } = value;
  if (kind === "ready") return { kind };
  return kind === "page" && typeof id === "number" && typeof text === "string" ? { kind, id, text } : undefined;
}
