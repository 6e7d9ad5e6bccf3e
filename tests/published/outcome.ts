/** Outcome of models and clients that other people have published. Knows none of them. */
import { execFile } from "node:child_process";

const SCRIPT_TIMEOUT_MS = 300_000;
const NOTE_CHARACTERS = 1500;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

export interface Outcome {
  readonly name: string;
  readonly passed: boolean;
  /** Time of one request after another, if it was measured. */
  readonly msPerRequest?: number;
  /** The adaptation, or the failure. */
  readonly note?: string;
}

/** Runs one check; what it throws becomes its outcome. */
export async function outcomeOf(
  name: string,
  check: () => Promise<Omit<Outcome, "name" | "passed">>,
): Promise<Outcome> {
  try {
    return { name, passed: true, ...(await check()) };
  } catch (error) {
    return { name, passed: false, note: shorten(error instanceof Error ? error.message : String(error)) };
  }
}

/** Complaints of a server that does not start. */
function shorten(text: string): string {
  const complaints = text.split("\n").filter((line) => /^E\d{4} /.test(line));
  return (complaints.length > 0 ? complaints.join("\n") : text).slice(0, NOTE_CHARACTERS);
}

/** The mean of `count` calls, one after another, behind one that is not counted. */
export async function timed(count: number, call: () => Promise<unknown>): Promise<number> {
  await call();
  const startMs = performance.now();
  for (let i = 0; i < count; i++) await call();
  return Number(((performance.now() - startMs) / count).toFixed(2));
}

/** Standard output of a Python program. Rejects with its complaints when it fails. */
export function runPython(python: string, args: readonly string[], cwd?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { cwd, timeout: SCRIPT_TIMEOUT_MS, maxBuffer: MAX_OUTPUT_BYTES };
    execFile(python, [...args], options, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else
        reject(
          new Error(
            `${args[0]?.slice(0, 100)}: ${error.message.slice(0, 200)}\n${stdout.slice(-300)}\n${stderr.slice(-900)}`,
          ),
        );
    });
  });
}

/** @throws Error with what the server said, when it is not content */
export async function postJson(url: string, body: object): Promise<Record<string, unknown>> {
  const reply = await fetch(url, { method: "POST", body: JSON.stringify(body) });
  const text = await reply.text();
  if (!reply.ok) throw new Error(`${url}: ${reply.status} ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}
