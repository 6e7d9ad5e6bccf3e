/** The requests of the backend's README, as command lines of one release, and what their outputs mean. Pure. */
import { join } from "node:path";

export interface CommandResult {
  readonly code: number;
  readonly output: string;
}

export interface Release {
  readonly python: string;
  /** Files of the release. */
  readonly source: string;
  readonly tokenizer: string;
  /** Host and port. */
  readonly http: string;
  readonly grpc: string;
  readonly hasBls: boolean;
}

export interface Check {
  readonly name: string;
  /** The script, whose text shows its flags; undefined: there is none. A release without it has no such check. */
  readonly file?: string;
  readonly variants: (script: string) => readonly (readonly string[])[];
}

const COLUMNS = ["one command", "`generate`", "BLS", "client", "client, stopped", "end to end", "gRPC client"] as const;
export const TABLE_HEAD = `| release | ${COLUMNS.join(" | ")} |\n|${" --- |".repeat(COLUMNS.length + 1)}\n`;

const BODY = '{"text_input": "What is machine learning?", "max_tokens": 20, "bad_words": "", "stop_words": ""}';

export function checksOf({ python, source, tokenizer, http, grpc, hasBls }: Release): readonly Check[] {
  const generate = (model: string): readonly string[] => {
    return ["curl", "-sS", "--fail-with-body", "-X", "POST", `${http}/v2/models/${model}/generate`, "-d", BODY];
  };
  const client = join(source, "inflight_batcher_llm/client/inflight_batcher_llm_client.py");
  const endToEnd = join(source, "tools/inflight_batcher_llm/end_to_end_test.py");
  const grpcClient = join(source, "inflight_batcher_llm/client/end_to_end_grpc_client.py");
  const ask = (script: string, more: readonly string[]): readonly string[] => {
    const name = script.includes("--tokenizer_dir") ? "--tokenizer_dir" : "--tokenizer-dir";
    const kind = script.match(/--tokenizer[-_]type/)?.[0];
    const type = kind === undefined ? [] : [kind, "auto"];
    return [python, client, "-u", grpc, "--request-output-len", "20", name, tokenizer, ...type, ...more];
  };
  const stop = (script: string): readonly string[] => [
    "--stop-after-ms",
    "200",
    ...(script.includes("--request-id") ? ["--request-id", "1"] : []),
  ];
  return [
    { name: "`generate`", variants: () => [generate("ensemble")] },
    { name: "BLS", variants: () => (hasBls ? [generate("tensorrt_llm_bls")] : []) },
    { name: "client", file: client, variants: (script) => [ask(script, [])] },
    { name: "client, stopped", file: client, variants: (script) => [ask(script, stop(script))] },
    {
      name: "end to end",
      file: endToEnd,
      variants: (script) => {
        const length = script.includes("--max_input_len") ? "--max_input_len" : "--max-input-len";
        const data = join(source, "ci/L0_backend_trtllm/simple_data.json");
        return [[python, endToEnd, "-u", http, "-i", "http", "--dataset", data, length, "500"]];
      },
    },
    {
      name: "gRPC client",
      file: grpcClient,
      variants: () => [[python, grpcClient, "-u", grpc, "-o", "10", "-p", "What is machine learning?"]],
    },
  ];
}

/** "yes", or the last line that says why not. The scripts end with 0 after some errors. */
export function outcomeOf({ code, output }: CommandResult): string {
  const lines = output.split("\n").filter((line) => /error|exception|failed/i.test(line));
  if (code === 0 && lines.length === 0) return "yes";
  return (lines.at(-1) ?? output.trim().split("\n").at(-1) ?? "").trim().replaceAll("|", "/").slice(0, 160);
}

export function releaseRow(tag: string, outcomes: ReadonlyMap<string, string>): string {
  return `| ${tag} | ${COLUMNS.map((name) => outcomes.get(name) ?? "").join(" | ")} |\n`;
}

/** By their numbers. */
export function inOrder(tags: readonly string[]): readonly string[] {
  return [...tags].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}
