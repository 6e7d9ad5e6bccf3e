/** Flags that say who may ask: API keys, origins, restricted routes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseServerFlags } from "./parse-server-flags.ts";
import type { ServerOptions } from "./server-options.ts";
import { usageText } from "./usage.ts";

function options(argv: readonly string[]): ServerOptions {
  const parsed = parseServerFlags(argv, {});
  assert.equal(parsed.kind, "options", JSON.stringify(parsed));
  return (parsed as { options: ServerOptions }).options;
}

const REFUSED: readonly (readonly [argv: readonly string[], start: string])[] = [
  [["--api-keys-for=v2"], "Error: --api-keys-for needs --api-key-file, the file of the keys."],
  [
    ["--api-key-file=k", "--api-keys-for=v2,v3"],
    "Bad option: \"--api-keys-for\".\n--api-keys-for: expected some of openai, v2, grpc, sagemaker, vertex-ai, got 'v3'\n",
  ],
  [["--cors-metrics=true"], "Error: --cors-metrics needs --cors-origins, the origins of the pages."],
  ...[
    "https://a.example/",
    "a.example",
    "https://A.example",
    "null",
    "",
    "https://a.example,",
    "https://u@a.example",
  ].map(
    (value) =>
      [
        [`--cors-origins=${value}`],
        `Bad option: "--cors-origins".\n--cors-origins: expected * or an origin such as https://app.example:8443, got '`,
      ] as const,
  ),
];

for (const [argv, start] of REFUSED) {
  test(`refuses ${argv.join(" ")}`, () => {
    const parsed = parseServerFlags(argv, {});
    assert.equal(parsed.kind, "usage");
    const text = (parsed as { text: string }).text.slice(usageText().length).trimStart();
    assert.equal(text.slice(0, start.length), start);
  });
}

test("API keys guard OpenAI's routes unless told otherwise", () => {
  assert.deepEqual(options(["--api-key-file=k"]).openai.apiKeysFor, ["openai"]);
  assert.deepEqual(options(["--api-key-file=k", "--api-keys-for=v2, grpc"]).openai.apiKeysFor, ["v2", "grpc"]);
});

test("origins may be several, of any scheme, or all", () => {
  const { cors } = options(["--cors-origins=https://a.example, http://[::1]:5173,tauri://localhost,*"]).http;
  assert.deepEqual(cors.origins, ["https://a.example", "http://[::1]:5173", "tauri://localhost", "*"]);
  assert.deepEqual(options([]).http.cors, { origins: [], includesMetrics: false });
});

const ONE_LOCK = [["inference", { header: "admin-key", value: "secret" }]];
for (const argv of [
  ["--openai-restricted-api", "inference", "admin-key", "secret"],
  ["--openai-restricted-api=inference", "admin-key", "secret"],
  ["--openai-restricted-api", "inference admin-key secret"],
  ["--openai-restricted-api=inference:admin-key=secret"],
]) {
  test(`${argv.join(" ")}: arguments behind it are flags again`, () => {
    const { openai, http } = options([...argv, "--http-port=9"]);
    assert.deepEqual([...openai.accessKeys], ONE_LOCK);
    assert.equal(http.port, 9);
  });
}
