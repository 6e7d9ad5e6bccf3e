/** `nereid stop NAME`: ends the server of a model, as control-C would. */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { ToolError } from "@nereid/server/files/tool-error";
import type { ModelStore } from "../store/model-store.ts";
import { type RunningServer, runningServers } from "../store/running-servers.ts";
import { resolveContext } from "./model-flags.ts";

/** A server drains for 30 s at most, unless its flags say otherwise. */
const MAX_WAIT_MS = 40_000;
const POLL_MS = 50;

const FLAGS = {
  all: { type: "switch", summary: "end all of them" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "stop",
  description: "Ends servers of nereid serve NAME. Requests that have begun are answered first.",
  flags: FLAGS,
  positionals: [{ name: "name", summary: "the model's name, or the process id", optional: true }],
  examples: ["nereid stop org/model", "nereid stop --all"],
};

export async function stopCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, positionals, reporter, signal }) => {
    const [name] = positionals;
    if ((name === undefined) !== values.all) throw new UsageError("give a name, or --all");
    const { store } = resolveContext({}, { reporter, signal });
    const running = runningServers(store);
    const chosen = running.filter((server) => values.all || server.name === name || String(server.pid) === name);
    if (chosen.length === 0 && name !== undefined) throw notRunning(name, running);
    for (const { pid } of chosen) process.kill(pid, "SIGTERM");
    for (const server of chosen) await untilGone(store, server, signal);
    const text = chosen.map((server) => `Stopped ${server.name} (process ${server.pid})`).join("\n");
    reporter.result(text === "" ? "No server is running." : text, { stopped: chosen.map(({ pid }) => pid) });
  });
}

async function untilGone(store: ModelStore, { pid, name }: RunningServer, signal: AbortSignal): Promise<void> {
  const deadline = Date.now() + MAX_WAIT_MS;
  while (runningServers(store).some((server) => server.pid === pid)) {
    signal.throwIfAborted();
    if (Date.now() > deadline) {
      throw new ToolError(`${name} (process ${pid}) has not ended after ${MAX_WAIT_MS / 1000} s`, {
        fix: `kill -9 ${pid} ends it at once`,
      });
    }
    await sleep(POLL_MS);
  }
}

function notRunning(name: string, running: readonly RunningServer[]): ToolError {
  const others =
    running.length === 0 ? "no server is running" : `running: ${running.map((server) => server.name).join(", ")}`;
  return new ToolError(`No running server serves '${name}' (${others})`, {
    fix: "nereid ps lists the servers that nereid serve NAME started",
  });
}
