import { type Agent, request as httpRequest } from "node:http";

/** A probe of an HTTP rule: a request and the parts of the response that Triton's rule fixes. */
export interface HttpRow {
  readonly rule: string;
  /** "POST /path"; a GET without the method. */
  readonly to: string;
  readonly body?: string | Uint8Array | object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly status: number;
  /** application/json by default; undefined for a response without a body. */
  readonly type?: string;
  /** The metrics port in place of the HTTP port. */
  readonly at?: "metrics";
  /** A response without a body may have any type. */
  readonly isTypeFree?: boolean;
  /** The text of the error, or the whole text of a response without one. */
  readonly says: string | RegExp;
}

export const TEXT = "text/plain";

/** The name of a test. */
export function titleOf({ rule, to }: HttpRow): string {
  return `${to}: ${rule}`;
}

type Refusal = readonly [
  rule: string,
  body: HttpRow["body"],
  status: number,
  says: HttpRow["says"],
  headers?: HttpRow["headers"],
];

/** Rows of refused requests to one path, answered as JSON. */
export function refusals(to: string, rows: readonly Refusal[], type?: string): readonly HttpRow[] {
  return rows.map(([rule, body, status, says, headers]) => ({
    rule,
    to,
    status,
    says,
    ...(body === undefined ? {} : { body }),
    ...(headers === undefined ? {} : { headers }),
    ...(type === undefined ? {} : { type }),
  }));
}

export interface Answer {
  readonly status: number;
  readonly type: string | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** One character a byte. */
  readonly text: string;
}

function bytesOf(body: HttpRow["body"]): Uint8Array | undefined {
  if (body === undefined || body instanceof Uint8Array) return body;
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}

export function sendRow(
  port: number,
  { to, body, headers = {} }: Pick<HttpRow, "to" | "body" | "headers">,
  agent: Agent,
): Promise<Answer> {
  const [method = "", path = ""] = to.startsWith("/") ? ["GET", to] : to.split(" ");
  const bytes = bytesOf(body);
  const length = method === "POST" ? { "Content-Length": String(bytes?.length ?? 0) } : {};
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, method, path, headers: { ...headers, ...length }, agent };
    const call = httpRequest(options, (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(parts).toString("latin1");
        const { statusCode = 0, headers: got } = response;
        resolve({ status: statusCode, type: got["content-type"], headers: got, text });
      });
    });
    call.on("error", reject);
    call.end(bytes);
  });
}

/** The text of an error; other bodies as they are. */
export function saidIn({ status, text }: Answer): string {
  return status < 400 || text === "" ? text : String((JSON.parse(text) as { readonly error: string }).error);
}
