/** The log lines of a shutdown: seconds left, and pending work. Ends nothing itself. */
import type { Logger } from "./log.ts";
import type { OpenWork } from "./open-work.ts";

const SECOND_MS = 1000;

export interface BusyModel {
  readonly name: string;
  readonly version: string;
  readonly inFlight: number;
}

/** Logs the lines of `linesOf` at once and then every second. */
export function startCountdown(
  log: Logger,
  deadlineMs: number,
  linesOf: (secondsLeft: number) => readonly string[],
): Disposable {
  const say = (): void => {
    const secondsLeft = Math.max(0, Math.ceil((deadlineMs - performance.now()) / SECOND_MS));
    for (const line of linesOf(secondsLeft)) log.info("server", line);
  };
  say();
  const timer = setInterval(say, SECOND_MS).unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

/** Front ends without open work are omitted. */
export function connectionLines(secondsLeft: number, open: ReadonlyMap<string, OpenWork>): string[] {
  const [http, grpc] = ["http", "grpc"].map((protocol) => open.get(protocol)?.connectionCount ?? 0);
  const lines: string[] = [];
  if (http) lines.push(`Timeout ${secondsLeft}: Found ${http} HTTP service connections`);
  if (grpc) lines.push(`Timeout ${secondsLeft}: Found ${grpc} gRPC service connections and inference handlers`);
  return lines;
}

export function inferenceLines(secondsLeft: number, busy: readonly BusyModel[]): string[] {
  return [
    `Timeout ${secondsLeft}: Found ${busy.length} model versions that have in-flight inferences`,
    ...busy.map(
      ({ name, version, inFlight }) => `Model '${name}' (version ${version}) has ${inFlight} in-flight inferences`,
    ),
  ];
}

export function unloadLines(secondsLeft: number, numLive: number, open: ReadonlyMap<string, OpenWork>): string[] {
  let numCalls = 0;
  for (const { callCount } of open.values()) numCalls += callCount;
  return [`Timeout ${secondsLeft}: Found ${numLive} live models and ${numCalls} in-flight non-inference requests`];
}
