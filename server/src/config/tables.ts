/** The four tables that tritonserver prints at start. Pure text. */
import { backendSettingsOf, type RateLimitResource, type ServerOptions } from "./flags/server-options.ts";

const DEFAULT_MAX_BATCH_SIZE = "4";

export interface BackendRow {
  readonly name: string;
  readonly path: string;
}

export interface ModelRow {
  readonly name: string;
  /** Undefined: no version was found. */
  readonly version: number | undefined;
  /** "READY", or "UNAVAILABLE: <reason>". */
  readonly status: string;
}

/** A frame of `+---+`, a heading and the rows; a cell with line breaks takes several lines. Ends with a line break. */
export function renderTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [header, ...rows].map((row) => header.map((_, column) => (row[column] ?? "").split("\n")));
  const widths = header.map((_, column) => Math.max(...cells.map((row) => widest(row[column] ?? []))));
  const rule = `+${widths.map((width) => "-".repeat(width + 2)).join("+")}+\n`;
  const [heading = "", ...body] = cells.map((row) => rowText(row, widths));
  return `${rule}${heading}${rule}${body.join("")}${rule}`;
}

export function agentTable(rows: readonly BackendRow[]): string {
  return renderTable(
    ["Repository Agent", "Path"],
    rows.map(({ name, path }) => [name, path]),
  );
}

export function backendTable(rows: readonly BackendRow[], options: ServerOptions): string {
  return renderTable(
    ["Backend", "Path", "Config"],
    rows.map(({ name, path }) => [name, path, backendConfigJson(name, options)]),
  );
}

/** In the order of names, then versions. */
export function modelTable(rows: readonly ModelRow[]): string {
  const sorted = rows.toSorted((a, b) => compareText(a.name, b.name) || (a.version ?? 0) - (b.version ?? 0));
  return renderTable(
    ["Model", "Version", "Status"],
    sorted.map(({ name, version, status }) => [name, version === undefined ? "-" : String(version), status]),
  );
}

export interface ServerIdentity {
  readonly version: string;
  readonly extensions: readonly string[];
}

export function optionTable(options: ServerOptions, server: ServerIdentity): string {
  const { repository, rateLimit, memory } = options;
  const modelMode = `MODE_${repository.controlMode.toUpperCase()}`;
  return renderTable(
    ["Option", "Value"],
    [
      ["server_id", options.serverId],
      ["server_version", server.version],
      ["server_extensions", server.extensions.join(" ")],
      ...repository.paths.map((path, index) => [`model_repository_path[${index}]`, path]),
      ["model_control_mode", modelMode],
      ...repository.startupModels.map((model, index) => [`startup_models_${index}`, model]),
      ["strict_model_config", flagText(!repository.autoComplete)],
      ["model_config_name", repository.configName],
      ["rate_limit", rateLimit.mode === "off" ? "OFF" : "EXEC_COUNT"],
      ...rateLimit.resources.map((resource, index) => [`rate_limit_resource[${index}]`, resourceText(resource)]),
      ["pinned_memory_pool_byte_size", String(memory.pinnedPoolBytes)],
      ...[...memory.cudaPoolBytes].map(([device, bytes]) => [`cuda_memory_pool_byte_size{${device}}`, String(bytes)]),
      ["min_supported_compute_capability", memory.minComputeCapability.toFixed(1)],
      ["strict_readiness", flagText(repository.strictReadiness)],
      ["exit_timeout", String(options.exitTimeoutSecs)],
      ["cache_enabled", flagText(options.cache.settings.size > 0)],
    ],
  );
}

/** The command-line settings of a backend, as shown. */
export function backendConfigJson(backend: string, options: ServerOptions): string {
  const { "default-max-batch-size": batchSize, ...settings } = Object.fromEntries(backendSettingsOf(options, backend));
  return JSON.stringify({
    cmdline: {
      "auto-complete-config": String(options.repository.autoComplete),
      "backend-directory": options.backendDirectory,
      "min-compute-capability": options.memory.minComputeCapability.toFixed(6),
      ...settings,
      "default-max-batch-size": batchSize ?? DEFAULT_MAX_BATCH_SIZE,
    },
  });
}

function rowText(row: readonly (readonly string[])[], widths: readonly number[]): string {
  const height = Math.max(...row.map((cell) => cell.length));
  const lines = Array.from({ length: height }, (_, line) => {
    const texts = row.map((cell, column) => padded(cell[line] ?? "", widths[column] ?? 0));
    return `| ${texts.join(" | ")} |\n`;
  });
  return lines.join("");
}

function widest(lines: readonly string[]): number {
  return Math.max(0, ...lines.map((line) => [...line].length));
}

/** By characters, not by UTF-16 units. */
function padded(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - [...text].length));
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function flagText(value: boolean): string {
  return value ? "1" : "0";
}

function resourceText({ name, count, device }: RateLimitResource): string {
  return device < 0 ? `${name}:${count}` : `${name}:${count}:${device}`;
}
