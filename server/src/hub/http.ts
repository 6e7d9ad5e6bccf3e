/**
 * One HTTP exchange with a hub. The token goes to the hub only, never to redirect targets; statuses become errors that
 * a user can act on. Knows no repositories.
 */

import {
  brokenConnection,
  type HttpTimeouts,
  openResponse,
  PLAIN_HEADERS,
  TransientFailure,
} from "../files/http-exchange.ts";
import { type IncomingResponse, retryAfterMs, TRANSIENT_STATUSES } from "../files/http-response.ts";
import { ToolError } from "../files/tool-error.ts";

export interface HubConnection extends HttpTimeouts {
  readonly endpoint: string;
  readonly token: string | undefined;
  /** Environment variable that names another endpoint; default: that of the hub. */
  readonly endpointVariable?: string;
}

/** Follows redirects. @throws TransientFailure, or ToolError for permanent failures */
export function requestHub(
  connection: HubConnection,
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<IncomingResponse> {
  return openResponse(new URL(url), connection, {
    followsRedirects: true,
    send: (current, signal) =>
      fetch(current, {
        headers: { ...PLAIN_HEADERS, ...headers, ...authorization(connection, current) },
        redirect: "manual",
        signal,
      }),
    refusal: (response) => statusError(response, url, connection),
    failure: (error, current) => networkError(error, current, connection),
  });
}

function authorization({ endpoint, token }: HubConnection, url: URL): Record<string, string> {
  const isHub = url.origin === new URL(endpoint).origin;
  return isHub && token !== undefined ? { authorization: `Bearer ${token}` } : {};
}

/** Converts errors of a broken connection to a transient failure. */
export function networkError(error: unknown, url: URL, connection: HubConnection): unknown {
  const { endpoint, signal, endpointVariable = "HF_ENDPOINT" } = connection;
  return brokenConnection(error, signal, (reason, code) => {
    if (code !== "ENOTFOUND" && code !== "ECONNREFUSED") return new TransientFailure(reason, { cause: error });
    const fix = `Check the network, name a mirror with ${endpointVariable}, or use what is there with --offline`;
    return new ToolError(`Cannot reach ${url.host || endpoint}: ${reason}`, { cause: error, fix });
  });
}

async function statusError(response: Response, url: string, { endpoint, token }: HubConnection): Promise<Error> {
  await response.body?.cancel();
  const { status } = response;
  const reason = response.headers.get("x-error-code") ?? "";
  if (TRANSIENT_STATUSES.has(status)) {
    return new TransientFailure(`${url} answers ${status}`, { waitMs: retryAfterMs(response.headers) });
  }
  if (reason === "GatedRepo" || status === 403) {
    const fix = `Ask for access on the model's page at ${endpoint}, then set HF_TOKEN to a token of that account`;
    return new ToolError(`${url} is not open to ${token === undefined ? "visitors without a token" : "this token"}`, {
      fix,
    });
  }
  if (status === 401) {
    const fix =
      token === undefined ? "Check the name, or set HF_TOKEN if it is private" : "Check the name and the token";
    return new ToolError(`${url} answers 401: there is no such repository, or it is not open to this user`, { fix });
  }
  if (reason === "RevisionNotFound")
    return new ToolError(`${url}: there is no such revision`, { fix: "Check --revision" });
  if (status === 404) return new ToolError(`${url} answers 404: there is no such thing`, { fix: "Check the name" });
  return new ToolError(`${url} answers ${status}`);
}
