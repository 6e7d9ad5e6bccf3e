/**
 * `@nereid/client` beside bare fetch: small and large requests to one server, in turns, in one process. Writes
 * `bench/results/client.md`. Ratios hold on a loaded machine; times do not compare between machines.
 */
import { writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { NereidClient, NereidGrpcClient, tensor } from "@nereid/client";
import { createModelRepository, EXAMPLES, GOLDEN_MODELS } from "../../tests/support/model-repository.ts";
import { startServerProcess } from "../../tests/support/server-process.ts";

const RESULTS = fileURLToPath(new URL("../results/client.md", import.meta.url));
const ROUNDS = 15;
const WARM_UP_ROUNDS = 3;

type Call = () => Promise<unknown>;
interface Comparison {
  readonly title: string;
  readonly callsPerRound: number;
  readonly bare: Call;
  readonly others: readonly (readonly [name: string, call: Call])[];
}

await using repository = await createModelRepository({
  copies: [`${EXAMPLES}/simple`, `${GOLDEN_MODELS}/id_fp32`],
});
const server = await startServerProcess({ repositories: [repository.path] });
const lines: string[] = [];
try {
  for (const comparison of comparisons(server.baseUrl, `http://127.0.0.1:${server.grpc}`)) {
    lines.push(...(await measure(comparison)));
  }
} finally {
  await server.stop();
}
writeFileSync(RESULTS, page(lines));
console.log(lines.join("\n"));

function comparisons(http: string, grpc: string): Comparison[] {
  const own = new NereidClient({ url: http });
  const viaFetch = new NereidClient({ url: http, fetch: globalThis.fetch });
  const overGrpc = new NereidGrpcClient({ url: grpc });
  const ones = new Int32Array(16).fill(1);
  const small = () => ({
    inputs: [tensor("INPUT0", "INT32", [1, 16], ones), tensor("INPUT1", "INT32", [1, 16], ones)],
  });
  const elements = new Float32Array(1_000_000);
  const large = () => ({ inputs: [tensor("IN", "FP32", [elements.length], elements)] });
  const modelsOf = (name: string, options: () => Parameters<ReturnType<typeof own.model>["infer"]>[0]) =>
    [
      ["the client", () => own.model(name).infer(options())],
      ["the client over fetch", () => viaFetch.model(name).infer(options())],
      ["the client over gRPC", () => overGrpc.model(name).infer(options())],
    ] as const;
  return [
    {
      title: "two inputs of 64 bytes",
      callsPerRound: 40,
      bare: bareFetch(http, "simple", ["INPUT0", "INPUT1"], "INT32", [1, 16], ones),
      others: modelsOf("simple", small),
    },
    {
      title: "one input of 4 MB",
      callsPerRound: 2,
      bare: bareFetch(http, "id_fp32", ["IN"], "FP32", [elements.length], elements),
      others: modelsOf("id_fp32", large),
    },
  ];
}

/** As a program would write it by hand: JSON in front of the tensors, and the outputs as one buffer. */
function bareFetch(
  url: string,
  model: string,
  names: readonly string[],
  datatype: string,
  shape: readonly number[],
  elements: Int32Array | Float32Array,
): Call {
  const bytes = new Uint8Array(elements.buffer);
  return async () => {
    const inputs = names.map((name) => ({ name, datatype, shape, parameters: { binary_data_size: bytes.length } }));
    const head = new TextEncoder().encode(JSON.stringify({ inputs, parameters: { binary_data_output: true } }));
    const body = new Uint8Array(head.length + bytes.length * names.length);
    body.set(head);
    names.forEach((_, index) => {
      body.set(bytes, head.length + index * bytes.length);
    });
    const headers = { "inference-header-content-length": String(head.length), "accept-encoding": "identity" };
    const response = await fetch(`${url}/v2/models/${model}/infer`, { method: "POST", headers, body });
    if (!response.ok) throw new Error(await response.text());
    const all = await response.arrayBuffer();
    const length = Number(response.headers.get("inference-header-content-length"));
    const answer = JSON.parse(new TextDecoder().decode(new Uint8Array(all, 0, length)));
    return new Int32Array(all.slice(length, length + answer.outputs[0].parameters.binary_data_size));
  };
}

/** Each round runs every way once, so that all meet the same load. */
async function measure({ title, callsPerRound, bare, others }: Comparison): Promise<string[]> {
  const ways = [["bare fetch", bare] as const, ...others];
  const times = new Map(ways.map(([name]) => [name, [] as number[]]));
  const processorTimes = new Map(ways.map(([name]) => [name, [] as number[]]));
  for (let round = 0; round < ROUNDS + WARM_UP_ROUNDS; round++) {
    for (const [name, call] of ways) {
      const start = performance.now();
      const before = process.cpuUsage();
      for (let count = 0; count < callsPerRound; count++) await call();
      if (round < WARM_UP_ROUNDS) continue;
      const { user, system } = process.cpuUsage(before);
      times.get(name)?.push((performance.now() - start) / callsPerRound);
      processorTimes.get(name)?.push(user + system);
    }
  }
  return ways.map(([name]) => {
    const own = times.get(name) ?? [];
    const ratio = ratioOf(own, times.get("bare fetch")).toFixed(2);
    const processorRatio = ratioOf(processorTimes.get(name), processorTimes.get("bare fetch")).toFixed(2);
    return `| ${title} | ${name} | ${(median(own) * 1000).toFixed(0)} | ${ratio} | ${processorRatio} |`;
  });
}

/** Median of the ratios of the rounds. */
function ratioOf(own: readonly number[] = [], base: readonly number[] = []): number {
  return median(own.map((time, index) => time / (base[index] ?? Number.NaN)));
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

function page(rows: readonly string[]): string {
  const [load = 0] = loadavg();
  return `# The client beside bare fetch

\`npm run build && node --conditions=nereid-source --import ./tools/loader/register.mjs bench/client/main.ts\` writes this page.

One connection, one call after another, ${ROUNDS} rounds in which all ways take turns. The ratio is the median of the rounds' ratios to bare fetch,
so that other load of the machine meets all alike. Bare fetch builds and reads the binary bodies by hand.

Node.js ${process.versions.node}, ${cpus().length} cores${load >= 1 ? `, load ${load.toFixed(1)} from other work: only the ratios count` : ""}.

| request | way | us a call | time beside bare fetch | processor time beside bare fetch |
|---|---|---|---|---|
${rows.join("\n")}
`;
}
