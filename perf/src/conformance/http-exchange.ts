/** One request of a conformance run over HTTP. */
import { Failure } from "./probe.ts";

const TIMEOUT_MS = 60_000;

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
}

export type HttpAsk = (
  path: string,
  body?: string | Uint8Array,
  headers?: Readonly<Record<string, string>>,
) => Promise<HttpAnswer>;

/** `base` has no slash at its end. A body makes it a POST. */
export function createAsk(base: string, common: Readonly<Record<string, string>>): HttpAsk {
  return async (path, body, headers = {}) => {
    const method = body === undefined ? "GET" : "POST";
    const init = { method, headers: { ...common, ...headers }, signal: AbortSignal.timeout(TIMEOUT_MS) };
    try {
      const response = await fetch(`${base}${path}`, body === undefined ? init : { ...init, body: Buffer.from(body) });
      return { status: response.status, headers: response.headers, body: Buffer.from(await response.arrayBuffer()) };
    } catch (error) {
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
      throw new Failure(`${method} ${path}: no answer: ${cause instanceof Error ? cause.message : String(cause)}`);
    }
  };
}

/** @throws Failure when it is no object */
export function jsonOf({ body, status }: HttpAnswer, at: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(body.toString());
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // falls through to the failure, which shows the body
  }
  throw new Failure(`${at}: expected a JSON object, got status ${status} and '${body.toString("utf8", 0, 200)}'`);
}

/** An error of KServe V2: a status of errors, typically 400 (Triton has 500 for some), and an object with the text `error`. */
export function expectV2Error(answer: HttpAnswer, at: string): void {
  const { error } = jsonOf(answer, at);
  if (answer.status < 400 || typeof error !== "string" || error === "") {
    const body = answer.body.toString("utf8", 0, 200);
    throw new Failure(`${at}: expected a status from 400 on and {"error": "..."}, got ${answer.status} and '${body}'`);
  }
}
