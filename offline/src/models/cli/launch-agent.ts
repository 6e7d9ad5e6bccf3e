/** `nereid launch AGENT`: starts a coding agent that asks this server, or prints how to. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { type CommandSyntax, type FlagTable, type FlagValues, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { ToolError } from "@nereid/server/files/tool-error";
import { AGENT_NAMES, type AgentLaunch, agentLaunch, isAgent, shellText } from "../agents/agent-environment.ts";
import { findModel, type ServedChatModel } from "../chat/find-server.ts";
import { resolveContext } from "./model-flags.ts";

const NO_KEY = "none";

const FLAGS = {
  model: { type: "string", value: "NAME", summary: "the model that answers; default: the only one of the server" },
  server: { type: "string", value: "URL", summary: "the server; default: the last nereid serve NAME, or port 8000" },
  "api-key": { type: "string", value: "KEY", summary: "key for a server with --api-key-file" },
  print: {
    type: "switch",
    short: "p",
    summary: "print the environment and the command for a shell, and start nothing",
  },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "launch",
  description: `Starts a coding agent with the environment that points it at this server: ${AGENT_NAMES.join(", ")}. Arguments behind -- go to the agent. With flags in place of an agent, it serves as launch_triton_server.py does.`,
  flags: FLAGS,
  positionals: [
    { name: "agent", summary: AGENT_NAMES.join(", ") },
    { name: "-- arguments", summary: "arguments of the agent", optional: true, many: true },
  ],
  examples: [
    "nereid launch claude",
    "nereid launch codex --model org/model -- --sandbox read-only",
    'eval "$(nereid launch aider --print)"',
  ],
};

export async function launchAgentCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, positionals, reporter, signal }) => {
    const [name = "", ...args] = positionals;
    if (!isAgent(name)) throw new UsageError(`<agent> is one of ${AGENT_NAMES.join(", ")}, got '${name}'`);
    const { chat, contextLength } = await findTarget(values, resolveContext({}, { reporter, signal }).store);
    const launch = agentLaunch(name, {
      url: chat.url,
      model: chat.model,
      apiKey: chat.apiKey ?? NO_KEY,
      contextLength,
    });
    if (launch === undefined) throw new Error(`no agent ${name}`);
    const isPrinted = values.print || launch.file !== undefined || reporter.mode === "json";
    if (isPrinted) {
      reporter.result(shellText(launch).trimEnd(), { ...launch });
      return;
    }
    reporter.info(`${launch.program} asks ${chat.model} at ${chat.url}`);
    process.exitCode = await start(launch, args);
  });
}

function findTarget(
  values: FlagValues<typeof FLAGS>,
  store: Parameters<typeof findModel>[0],
): Promise<ServedChatModel> {
  const { server, model, "api-key": apiKey } = values;
  return findModel(store, { url: server?.replace(/\/+$/, ""), model, apiKey });
}

/** The agent has the terminal; its exit code is ours. @throws ToolError when it is not installed */
async function start({ program, install, env, unset, args }: AgentLaunch, more: readonly string[]): Promise<number> {
  const given = Object.entries(process.env).filter(([name]) => !unset.includes(name));
  const child = spawn(program, [...args, ...more], { env: { ...Object.fromEntries(given), ...env }, stdio: "inherit" });
  try {
    const [code] = await once(child, "exit");
    return typeof code === "number" ? code : 1;
  } catch (cause) {
    throw new ToolError(`${program} could not be started: it is not on the PATH`, {
      cause,
      fix: `Install it (${install}), or give --print for its environment`,
    });
  }
}
