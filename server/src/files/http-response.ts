/** Reads HTTP responses: transient statuses, Retry-After (RFC 9110, section 10.2.3), and bodies with a size limit. */

export const MAX_REDIRECTS = 5;
export const TRANSIENT_STATUSES: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);
const MAX_WAIT_MS = 60_000;

/** Retry-After in milliseconds. */
export function retryAfterMs(headers: Headers): number | undefined {
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  return seconds >= 0 ? Math.min(seconds * 1000, MAX_WAIT_MS) : undefined;
}

/** A response whose body is being read. Call `alive` for each chunk, and `done` at the end in every case. */
export interface IncomingResponse {
  readonly response: Response;
  readonly alive: () => void;
  readonly done: () => void;
}

/** The whole body as text. @throws the error of `tooLong` above `maxBytes`, and errors of a broken connection */
export async function readText(
  { response, alive, done }: IncomingResponse,
  maxBytes: number,
  tooLong: () => Error,
): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      alive();
      bytes += chunk.byteLength;
      if (bytes > maxBytes) throw tooLong();
      chunks.push(chunk);
    }
  } finally {
    done();
  }
  return Buffer.concat(chunks).toString("utf8");
}
