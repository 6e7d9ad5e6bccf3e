/**
 * How coding agents are pointed at a server: variables, arguments, or a file for their users to write. Pure. Sources:
 * Claude Code documentation, "Environment variables"; Codex documentation, "Advanced Configuration", model providers;
 * OpenCode documentation, "Config" and "Providers"; Aider documentation, "OpenAI compatible APIs"; Continue
 * documentation, "config.yaml Reference".
 */

export interface AgentTarget {
  /** Address of the server, without a trailing slash. */
  readonly url: string;
  readonly model: string;
  /** A server without keys takes any. */
  readonly apiKey: string;
  /** Tokens of prompt and answer together; undefined: unknown. */
  readonly contextLength: number | undefined;
}

export interface AgentLaunch {
  /** The program on the PATH. */
  readonly program: string;
  /** Command that installs it. */
  readonly install: string;
  readonly env: Readonly<Record<string, string>>;
  /** Variables that would lead the agent elsewhere. */
  readonly unset: readonly string[];
  /** In front of the user's own arguments. */
  readonly args: readonly string[];
  /** A file that its user writes, where variables do not suffice. */
  readonly file?: { readonly path: string; readonly text: string };
}

interface Agent {
  readonly names: readonly string[];
  readonly describe: (target: AgentTarget) => AgentLaunch;
}

const PROVIDER = "nereid";
const KEY_VARIABLE = "NEREID_API_KEY";

const AGENTS: readonly Agent[] = [
  { names: ["claude", "claude-code"], describe: claude },
  { names: ["codex"], describe: codex },
  { names: ["opencode"], describe: openCode },
  { names: ["aider"], describe: aider },
  { names: ["continue", "cn"], describe: continueDev },
];

/** First names only. */
export const AGENT_NAMES: readonly string[] = AGENTS.map(({ names: [first = ""] }) => first);

/** Whether an argument names an agent. */
export function isAgent(name: string): boolean {
  return AGENTS.some(({ names }) => names.includes(name));
}

/** Undefined: no agent has this name. */
export function agentLaunch(name: string, target: AgentTarget): AgentLaunch | undefined {
  return AGENTS.find(({ names }) => names.includes(name))?.describe(target);
}

/** It asks for models of three sizes by name; here all are one. */
function claude({ url, model, apiKey }: AgentTarget): AgentLaunch {
  const sizes = ["OPUS", "SONNET", "HAIKU"].map((size) => [`ANTHROPIC_DEFAULT_${size}_MODEL`, model] as const);
  const env = {
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_AUTH_TOKEN: apiKey,
    ANTHROPIC_MODEL: model,
    ANTHROPIC_SMALL_FAST_MODEL: model,
    ...Object.fromEntries(sizes),
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  };
  return {
    program: "claude",
    install: "npm install -g @anthropic-ai/claude-code",
    env,
    unset: ["ANTHROPIC_API_KEY"],
    args: [],
  };
}

/** It speaks the Responses API, and takes values of its config.toml as arguments. A JSON string is a TOML string. */
function codex({ url, model, apiKey, contextLength }: AgentTarget): AgentLaunch {
  const table = `{ name = "Nereid", base_url = ${JSON.stringify(`${url}/v1`)}, wire_api = "responses", env_key = "${KEY_VARIABLE}" }`;
  const settings = [
    `model_provider="${PROVIDER}"`,
    `model_providers.${PROVIDER}=${table}`,
    ...(contextLength === undefined ? [] : [`model_context_window=${contextLength}`]),
  ];
  const args = [...settings.flatMap((setting) => ["-c", setting]), "-m", model];
  return {
    program: "codex",
    install: "npm install -g @openai/codex",
    env: { [KEY_VARIABLE]: apiKey },
    unset: [],
    args,
  };
}

function openCode({ url, model, apiKey, contextLength }: AgentTarget): AgentLaunch {
  const limit =
    contextLength === undefined ? {} : { limit: { context: contextLength, output: Math.ceil(contextLength / 4) } };
  const config = {
    $schema: "https://opencode.ai/config.json",
    model: `${PROVIDER}/${model}`,
    provider: {
      [PROVIDER]: {
        npm: "@ai-sdk/openai-compatible",
        name: "Nereid",
        options: { baseURL: `${url}/v1`, apiKey },
        models: { [model]: { name: model, ...limit } },
      },
    },
  };
  const env = { OPENCODE_CONFIG_CONTENT: JSON.stringify(config) };
  return { program: "opencode", install: "npm install -g opencode-ai", env, unset: [], args: [] };
}

function aider({ url, model, apiKey }: AgentTarget): AgentLaunch {
  const env = { OPENAI_API_BASE: `${url}/v1`, OPENAI_API_KEY: apiKey };
  const args = ["--model", `openai/${model}`, "--no-show-model-warnings"];
  return { program: "aider", install: "pip install aider-chat", env, unset: [], args };
}

/** Its extension and its program read one file. JSON strings are YAML strings. */
function continueDev({ url, model, apiKey }: AgentTarget): AgentLaunch {
  const text = `name: Nereid
version: 1.0.0
schema: v1
models:
  - name: ${JSON.stringify(model)}
    provider: openai
    model: ${JSON.stringify(model)}
    apiBase: ${JSON.stringify(`${url}/v1`)}
    apiKey: ${JSON.stringify(apiKey)}
    roles: [chat, edit, apply]
`;
  const file = { path: "~/.continue/config.yaml", text };
  return { program: "cn", install: "npm install -g @continuedev/cli", env: {}, unset: [], args: [], file };
}

/** Lines for a shell that set the environment and start the agent. */
export function shellText({ program, env, unset, args, file }: AgentLaunch): string {
  if (file !== undefined) return `# ${file.path}\n${file.text}`;
  const lines = [
    ...unset.map((name) => `unset ${name}`),
    ...Object.entries(env).map(([name, value]) => `export ${name}=${quoted(value)}`),
    [program, ...args.map(quoted)].join(" "),
  ];
  return `${lines.join("\n")}\n`;
}

/** For a POSIX shell. */
function quoted(text: string): string {
  return /^[\w./:@=+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
