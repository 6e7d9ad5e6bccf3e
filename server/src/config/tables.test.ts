import assert from "node:assert/strict";
import { test } from "node:test";
import { parseServerFlags } from "./flags/parse-server-flags.ts";
import type { ServerOptions } from "./flags/server-options.ts";
import { agentTable, backendConfigJson, backendTable, modelTable, optionTable, renderTable } from "./tables.ts";

function options(...argv: string[]): ServerOptions {
  const parsed = parseServerFlags(["--model-repository=/models", ...argv], {});
  assert.equal(parsed.kind, "options");
  return (parsed as { options: ServerOptions }).options;
}

test("renderTable() draws a frame without rows", () => {
  assert.equal(
    agentTable([]),
    "+------------------+------+\n| Repository Agent | Path |\n+------------------+------+\n+------------------+------+\n",
  );
});

test("renderTable() widens columns to their longest cell and breaks cells at line breaks", () => {
  assert.equal(
    renderTable(
      ["A", "B"],
      [
        ["x\nlonger", "y"],
        ["é", ""],
      ],
    ),
    "+--------+---+\n| A      | B |\n+--------+---+\n| x      | y |\n| longer |   |\n| é      |   |\n+--------+---+\n",
  );
});

test("modelTable() sorts by name and version and shows a dash where no version was found", () => {
  const table = modelTable([
    { name: "b", version: 10, status: "READY" },
    { name: "b", version: 2, status: "UNAVAILABLE: Internal: no" },
    { name: "a", version: undefined, status: "Not loaded: No model version was found" },
  ]);
  assert.deepEqual(
    table
      .split("\n")
      .slice(3, 6)
      .map((line) =>
        line
          .split("|")
          .slice(1, 4)
          .map((cell) => cell.trim()),
      ),
    [
      ["a", "-", "Not loaded: No model version was found"],
      ["b", "2", "UNAVAILABLE: Internal: no"],
      ["b", "10", "READY"],
    ],
  );
});

const DEFAULT_CONFIG =
  '{"cmdline":{"auto-complete-config":"true","backend-directory":"/opt/tritonserver/backends","min-compute-capability":"0.000000","default-max-batch-size":"4"}}';

test("backendConfigJson() shows the built-in settings", () => {
  assert.equal(backendConfigJson("onnxruntime", options()), DEFAULT_CONFIG);
});

test("backendConfigJson() lays a backend's own settings over those for all", () => {
  const given = options(
    "--backend-config=default-max-batch-size=16",
    "--backend-config=a=1",
    "--backend-config=python,a=2",
    "--disable-auto-complete-config",
  );
  const { cmdline } = JSON.parse(backendConfigJson("python", given));
  assert.deepEqual(cmdline, {
    "auto-complete-config": "false",
    "backend-directory": "/opt/tritonserver/backends",
    "min-compute-capability": "0.000000",
    a: "2",
    "default-max-batch-size": "16",
  });
});

test("backendTable() has a row per backend", () => {
  const table = backendTable([{ name: "onnxruntime", path: "/x.so" }], options());
  assert.match(table, /^\| onnxruntime \| \/x\.so \| \{"cmdline":/m);
});

test("optionTable() lists the options in their order at their defaults", () => {
  const rows = optionTable(options(), { version: "2.70.0", extensions: ["classification", "sequence"] });
  assert.deepEqual(
    rows
      .split("\n")
      .slice(3, -2)
      .map((line) =>
        line
          .split("|")
          .slice(1, 3)
          .map((cell) => cell.trim()),
      ),
    [
      ["server_id", "triton"],
      ["server_version", "2.70.0"],
      ["server_extensions", "classification sequence"],
      ["model_repository_path[0]", "/models"],
      ["model_control_mode", "MODE_NONE"],
      ["strict_model_config", "0"],
      ["model_config_name", ""],
      ["rate_limit", "OFF"],
      ["pinned_memory_pool_byte_size", "268435456"],
      ["min_supported_compute_capability", "0.0"],
      ["strict_readiness", "1"],
      ["exit_timeout", "30"],
      ["cache_enabled", "0"],
    ],
  );
});

test("optionTable() shows what was asked for", () => {
  const table = optionTable(
    options(
      "--model-control-mode=explicit",
      "--load-model=b",
      "--load-model=a",
      "--rate-limit=execution_count",
      "--rate-limit-resource=R1:3",
      "--rate-limit-resource=R2:1:0",
      "--cuda-memory-pool-byte-size=1:64",
      "--cache-config=local,size=1",
      "--strict-model-config=true",
    ),
    { version: "1", extensions: [] },
  );
  for (const [option, value] of [
    ["model_control_mode", "MODE_EXPLICIT"],
    ["startup_models_0", "a"],
    ["startup_models_1", "b"],
    ["rate_limit", "EXEC_COUNT"],
    ["rate_limit_resource[0]", "R1:3"],
    ["rate_limit_resource[1]", "R2:1:0"],
    ["cuda_memory_pool_byte_size{1}", "64"],
    ["cache_enabled", "1"],
    ["strict_model_config", "1"],
  ]) {
    assert.ok(
      table.split("\n").some((line) => line.replace(/ +/g, " ") === `| ${option} | ${value} |`),
      `${option} ${value}`,
    );
  }
});
