/** Parses command line and environment to frozen options, or to the text of an error. */
import type { Environment } from "../../core/environment.ts";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import { deepFreeze } from "../model/deep-freeze.ts";
import { FlagError } from "./flag-error.ts";
import { FLAG_HANDLERS } from "./flag-handlers.ts";
import { FLAGS } from "./flag-table.ts";
import { type GivenFlag, type ScannedArguments, scanArguments } from "./getopt.ts";
import { isLoopback } from "./loopback.ts";
import { createDraft, type OptionsDraft, type TlsDraft } from "./options-draft.ts";
import { checkPorts } from "./port-check.ts";
import type { ServerOptions } from "./server-options.ts";
import { settleTrace } from "./trace-flags.ts";
import { unsupportedFlagMessages } from "./unsupported-flags.ts";
import { flagUsage, usageText } from "./usage.ts";
import { checkWorkers } from "./workers-check.ts";

export type ParsedFlags =
  | { readonly kind: "options"; readonly options: ServerOptions }
  /** `text` is for standard error. */
  | { readonly kind: "usage"; readonly text: string; readonly exitCode: number };

export function parseServerFlags(argv: readonly string[], env: Environment): ParsedFlags {
  let warnings: readonly string[] = [];
  try {
    const draft = createDraft(env);
    ({ warnings } = draft);
    applyArguments(draft, scanArguments(argv, FLAGS));
    return { kind: "options", options: settle(draft, env) };
  } catch (error) {
    if (!(error instanceof FlagError)) throw error;
    const above = warnings.map((warning) => `${warning}\n`).join("");
    return { kind: "usage", text: above + usageWith(error), exitCode: 1 };
  }
}

/**
 * Errors of the options as a whole, reported when the server is created: `error: creating server: <code> - <message>`.
 * Unlike parse errors they come without the usage text.
 */
export function creationProblem(options: ServerOptions): ServerError | undefined {
  const { repository, cache } = options;
  if (repository.paths.length === 0) return invalidArgument("--model-repository must be specified");
  if (repository.startupModels.includes("*") && repository.startupModels.length > 1) {
    return invalidArgument("Wildcard model name '*' must be the ONLY startup model if specified at all.");
  }
  const caches = [...cache.settings.keys()];
  if (caches.length > 1) {
    return invalidArgument("found multiple cache configurations, but only a single cache is currently supported");
  }
  const unknown = caches.find((name) => name !== "local" && name !== "redis");
  if (unknown === undefined) return undefined;
  const library = `${cache.directory}/${unknown}/libtritoncache_${unknown}.so`;
  return invalidArgument(`unable to find '${library}' for cache`);
}

/** As Triton prints it: the error stands at the bottom, where a terminal still shows it, and once, because scripts count its lines. */
function usageWith({ message, hint }: FlagError): string {
  const lines = [message.trimStart().replace(/\n$/, ""), hint].filter((text) => text !== "");
  return `${[usageText(), ...lines].join("\n")}\n`;
}

function applyArguments(draft: OptionsDraft, { items, positionals }: ScannedArguments): void {
  for (const item of items) {
    if (item.kind === "error") {
      const hint = item.nearest === undefined ? "" : `Did you mean --${item.nearest}?`;
      throw new FlagError(`tritonserver: ${item.message}\n`, { hint });
    }
    applyFlag(draft, item.flag);
  }
  const [unexpected] = positionals;
  if (unexpected !== undefined) {
    throw new FlagError(`Unexpected argument: ${unexpected}`, {
      hint: "Values follow a flag: --model-repository=<folder> names a model repository.",
    });
  }
}

function applyFlag(draft: OptionsDraft, { name, value }: GivenFlag): void {
  if (name === "help") throw new FlagError("");
  draft.given.add(name);
  try {
    FLAG_HANDLERS.get(name)?.(draft, value);
  } catch (error) {
    if (!(error instanceof FlagError)) throw error;
    throw new FlagError(`Bad option: "--${name}".\n${error.message}\n`, {
      cause: error,
      hint: flagUsage(name),
    });
  }
}

/** Checks that involve several flags. */
function settle(draft: OptionsDraft, env: Environment): ServerOptions {
  settleRepository(draft, env);
  settleMetrics(draft);
  settleTrace(draft, env);
  if (draft.given.has("response-cache-byte-size") && draft.given.has("cache-config")) {
    throw new FlagError(
      "Error: Incompatible flags --response-cache-byte-size and --cache-config both provided. Please provide one or the other.",
    );
  }
  if (draft.given.has("api-keys-for") && draft.openai.apiKeyFile === undefined) {
    throw new FlagError("Error: --api-keys-for needs --api-key-file, the file of the keys.");
  }
  if (draft.given.has("cors-metrics") && draft.http.cors.origins.length === 0) {
    throw new FlagError("Error: --cors-metrics needs --cors-origins, the origins of the pages.");
  }
  const { given: _given, trace, grpc, http, console, ...rest } = draft;
  const { isSwitchedOff: _off, written: _written, ...traceOptions } = trace;
  const options = {
    ...rest,
    trace: traceOptions,
    http: settleTls(http),
    grpc: settleTls(grpc),
    console: settleConsole(console, http),
  };
  if (http.isOnePort && grpc.useTls) {
    throw new FlagError(
      "Error: --grpc-use-ssl cannot be used with --one-port. Use --http-use-ssl, for all of the port.",
    );
  }
  checkPorts(options);
  checkWorkers(options);
  return deepFreeze({ ...options, notYet: unsupportedFlagMessages(options) });
}

function settleRepository({ repository, given, warnings }: OptionsDraft, env: Environment) {
  if (repository.controlMode !== "poll") repository.pollSecs = 0;
  if (repository.startupModels.length > 0 && repository.controlMode !== "explicit") {
    throw new FlagError("Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well.");
  }
  const storage = env.AIP_STORAGE_URI ?? "";
  if (repository.paths.length === 0 && storage !== "") repository.paths.push(storage);
  repository.paths = [...new Set(repository.paths)].sort();
  repository.startupModels = [...new Set(repository.startupModels)].sort();
  if (!given.has("disable-auto-complete-config")) return;
  if (given.has("strict-model-config") && repository.autoComplete) {
    warnings.push(
      "Warning: Overriding deprecated '--strict-model-config' from False to True in favor of '--disable-auto-complete-config'!",
    );
  }
  repository.autoComplete = false;
}

/** Nobody else reaches a listener on loopback, so that the console needs no flag there. */
function settleConsole(
  { asked }: OptionsDraft["console"],
  { isEnabled, address }: OptionsDraft["http"],
): ServerOptions["console"] {
  return { isEnabled: isEnabled && (asked ?? isLoopback(address)), isRequired: asked === true };
}

function settleTls<Endpoint extends TlsDraft>({ useTls, tls, ...rest }: Endpoint) {
  return { ...rest, tls: useTls ? tls : undefined };
}

function settleMetrics({ metrics, http }: OptionsDraft): void {
  metrics.gpu &&= metrics.isEnabled;
  metrics.cpu &&= metrics.isEnabled;
  // A socket path serves one listener. An operator who keeps HTTP off the network does not want metrics on it either.
  metrics.address ||= http.address.startsWith("unix:") ? "127.0.0.1" : http.address;
}
