/** What every exchange over HTTP asks of an answer: whether its status passes, how long to wait, its body within a bound. */

export const MAX_REDIRECTS = 5;
export const TRANSIENT_STATUSES: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);
const MAX_WAIT_MS = 60_000;

/** What the server asked to wait. */
export function retryAfterMs(headers: Headers): number | undefined {
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  return seconds >= 0 ? Math.min(seconds * 1000, MAX_WAIT_MS) : undefined;
}

/** Bytes on their way. `alive` is to be called for each sign of life, `done` at the end, whatever it was. */
export interface IncomingResponse {
  readonly response: Response;
  readonly alive: () => void;
  readonly done: () => void;
}

/** The whole body as text. @throws what `tooLong` makes when there are more than `maxBytes`, and what a broken connection throws */
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
