/** Runs named checks in order and prints one JSON line each, as checks.py does. */
import process from "node:process";

export const SERVER = `http://127.0.0.1:${process.argv[2]}`;

export async function runAll(checks) {
  for (const [check, run] of Object.entries(checks)) {
    const error = await run().then(
      () => null,
      (thrown) => (thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)),
    );
    process.stdout.write(`${JSON.stringify({ check, error })}\n`);
  }
}

export const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
