/** Calls of the page to its server: one place for keys, headers and errors. Routes: docs/console.md. */

export interface Credentials {
  /** API key; "" = none. */
  readonly key: string;
  /** Header of restricted APIs, as `--http-restricted-api` names it; "" = none. */
  readonly headerName: string;
  readonly headerValue: string;
}

export const NO_CREDENTIALS: Credentials = { key: "", headerName: "", headerValue: "" };

/** A refusal by the server. `status` 0: no server answered. */
export class ApiFailure extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = "ApiFailure";
    this.status = status;
  }
}

export interface Api {
  readonly credentials: Credentials;
  /** @throws ApiFailure */
  get<T>(path: string, signal?: AbortSignal): Promise<T>;
  /** @throws ApiFailure */
  post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T>;
  /** The response itself, whose status is good. @throws ApiFailure */
  send(path: string, init: RequestInit): Promise<Response>;
}

export function createApi(credentials: Credentials): Api {
  const send = async (path: string, init: RequestInit): Promise<Response> => {
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(headersOf(credentials))) headers.set(name, value);
    const response = await fetch(path, { ...init, headers }).catch((error: unknown) => {
      if (init.signal?.aborted === true) throw error;
      throw new ApiFailure(0, "The server does not answer");
    });
    if (!response.ok) throw new ApiFailure(response.status, failureText(response.status, await response.text()));
    return response;
  };
  const json = async <T>(response: Response): Promise<T> => {
    const text = await response.text();
    return JSON.parse(text === "" ? "{}" : text) as T;
  };
  return {
    credentials,
    send,
    get: async (path, signal) => json(await send(path, signal === undefined ? {} : { signal })),
    post: async (path, body, signal) => {
      const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
      return json(await send(path, signal === undefined ? init : { ...init, signal }));
    },
  };
}

/** As snippets show them too. */
export function headersOf({ key, headerName, headerValue }: Credentials): Readonly<Record<string, string>> {
  return {
    ...(key === "" ? {} : { authorization: `Bearer ${key}` }),
    ...(headerName === "" ? {} : { [headerName]: headerValue }),
  };
}

/** The message of an error body in any of the server's forms. */
export function failureText(status: number, body: string): string {
  try {
    const { error } = JSON.parse(body) as { error?: string | { message?: string } };
    if (typeof error === "string") return error;
    if (typeof error?.message === "string") return error.message;
  } catch {
    // not JSON: the text itself
  }
  return body === "" ? `The server answers with status ${status}` : body;
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
