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
