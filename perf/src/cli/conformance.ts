/** `nereid conformance`: probes any V2 server and reports what it answers otherwise than the protocol says. */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { fileError } from "@nereid/server/files/tool-error";
import { conformancePage, conformanceText, resultLine } from "../conformance/conformance-report.ts";
import { createAsk, type HttpAsk, jsonOf } from "../conformance/http-exchange.ts";
import { modelProbes } from "../conformance/model-probes.ts";
import { type Probe, type ProbeResult, runProbes } from "../conformance/probe.ts";
import { recordedProbes } from "../conformance/recorded-probes.ts";
import { serverProbes } from "../conformance/server-probes.ts";
import { inferInputs } from "../input/infer-inputs.ts";
import { htmlPage } from "../report/html-page.ts";
import { createGrpcApi } from "../target/grpc-api.ts";
import { createHttpApi } from "../target/http-api.ts";
import type { ServerApi } from "../target/server-api.ts";
import { parseHeaders, parseTarget, type Target } from "../target/target.ts";
import { parseShape } from "./infer-options.ts";
import { NO_TLS_FILES } from "./no-tls-files.ts";

const FLAGS = {
  model: {
    type: "string",
    short: "m",
    many: "repeated",
    value: "NAME",
    summary: "model to probe; default: every ready one of the index",
  },
  "grpc-url": { type: "string", value: "HOST:PORT", summary: "its gRPC port; without it gRPC is not probed" },
  "metrics-port": { type: "integer", min: 1, max: 65_535, summary: "for recorded probes of metrics" },
  header: {
    type: "string",
    short: "H",
    many: "repeated",
    value: "NAME:VALUE",
    summary: "header field of each request",
  },
  shape: {
    type: "string",
    many: "repeated",
    value: "NAME:DIMS",
    summary: "shape of an input with free sizes; default: 1 for each",
  },
  recorded: {
    type: "string",
    value: "DIR",
    summary: "also the recorded answers of Triton in tests/golden of a checkout",
  },
  html: { type: "string", value: "FILE", summary: "report as a page" },
  "report-json": { type: "string", value: "FILE", summary: "results as JSON" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "conformance",
  description:
    "Probes a server of the V2 protocol: health, metadata, inference in JSON and binary, errors, extensions. Changes nothing on it. Ends with 1 when a probe fails.",
  flags: FLAGS,
  positionals: [{ name: "url", summary: "host:port or URL of its HTTP port" }],
  examples: ["nereid conformance localhost:8000 --grpc-url localhost:8001 --html report.html"],
};

export async function conformanceCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, positionals: [url = ""], reporter, signal }) => {
    const target = parseTarget(url, NO_TLS_FILES);
    const headers = parseHeaders(values.header);
    const ask = createAsk(target.base, Object.fromEntries(headers));
    const grpcTarget = values["grpc-url"] === undefined ? undefined : parseTarget(values["grpc-url"], NO_TLS_FILES);
    const grpc = grpcTarget === undefined ? undefined : createGrpcApi(grpcTarget.address, headers);
    const names = values.model.length > 0 ? values.model : await readyModels(ask);
    const shapes = new Map(values.shape.map(parseShape));
    const api = createHttpApi(target.base, Object.fromEntries(headers));
    const results: ProbeResult[] = [];
    const note = (result: ProbeResult): void => {
      results.push(result);
      if (result.outcome !== "passed") reporter.info(resultLine(result));
    };
    try {
      await runProbes(serverProbes(ask), signal, note);
      for (const name of names) await runModel(ask, api, grpc, name, shapes, signal, note);
      if (values.recorded !== undefined) {
        const probes = await recorded(values.recorded, target, grpcTarget, values["metrics-port"]);
        await runProbes(probes, signal, note);
      }
    } finally {
      grpc?.close();
    }
    const json = { url, date: new Date().toISOString(), results };
    write(values.html, () => htmlPage(conformancePage(results, { url, date: json.date })));
    write(values["report-json"], () => `${JSON.stringify(json, undefined, 2)}\n`);
    if (results.some(({ outcome }) => outcome === "failed")) process.exitCode = 1;
    reporter.result(conformanceText(results), json);
  });
}

/** By the index of the repository; none when the server has no such extension. */
async function readyModels(ask: HttpAsk): Promise<readonly string[]> {
  const answer = await ask("/v2/repository/index", '{"ready":true}');
  if (answer.status !== 200) return [];
  const list = (jsonOf({ ...answer, body: Buffer.from(`{"list":${answer.body}}`) }, "index").list ?? []) as readonly {
    readonly name: string;
    readonly state?: string;
  }[];
  return [...new Set(list.filter(({ state }) => state === undefined || state === "READY").map(({ name }) => name))];
}

/** Models that answer nothing but streams or sequences, and tensors without a form in JSON, are skipped by name. */
async function runModel(
  ask: HttpAsk,
  api: ServerApi,
  grpc: ServerApi | undefined,
  name: string,
  shapes: ReadonlyMap<string, readonly number[]>,
  signal: AbortSignal,
  note: (result: ProbeResult) => void,
): Promise<void> {
  const facts = await api.modelFacts(name, "");
  const hasNoJson = [...facts.inputs, ...facts.outputs].some(
    ({ datatype }) => datatype === "FP16" || datatype === "BF16",
  );
  const reason = facts.isDecoupled
    ? "it is decoupled"
    : facts.isSequence
      ? "it needs sequences"
      : hasNoJson
        ? "its tensors have no form in JSON"
        : undefined;
  if (reason !== undefined) {
    note({ group: `model ${name}`, name: "all", source: "", outcome: "skipped", detail: reason });
    return;
  }
  const free = facts.inputs.map(({ name: input, shape }): [string, readonly number[]] => {
    const own = facts.maxBatchSize > 0 ? shape.slice(1) : shape;
    return [input, shapes.get(input) ?? own.map((dim) => (dim < 0 ? 1 : dim))];
  });
  const options = {
    sources: ["random"],
    batchSize: 1,
    shapes: new Map(free),
    stringLength: 16,
    stringData: undefined,
    seed: 0,
  };
  const [inputs = []] = inferInputs(facts, options);
  const outputs = facts.outputs.map((output) => ({ name: output.name }));
  const spec = { model: name, version: "", inputs, outputs, parameters: {} };
  await runProbes(modelProbes(ask, { facts, spec }, grpc), signal, note);
}

function recorded(
  folder: string,
  target: Target,
  grpc: Target | undefined,
  metrics: number | undefined,
): Promise<readonly Probe[]> {
  if (!["localhost", "127.0.0.1"].includes(target.address.host)) {
    throw new UsageError("--recorded needs a server on this machine");
  }
  return recordedProbes(folder, { http: target.address.port, grpc: grpc?.address.port, metrics });
}

function write(path: string | undefined, text: () => string): void {
  if (path === undefined) return;
  try {
    writeFileSync(path, text());
  } catch (error) {
    throw fileError("write", path, error);
  }
}
