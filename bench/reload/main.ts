/**
 * Latencies while a model is reloaded: 200 requests a second with and without reloads, in turn, in one run.
 * `npm run bench:reload -- [--reloads=1000] [--rounds=4] [--rate=200] [--pause-ms=100] [--megabytes=32]
 * [--base-port=18000] [--name=reload]`. Half of the requests go to the model that is reloaded, half to one beside it. A
 * name stores the result under bench/results. 1,000 reloads take some four minutes.
 */
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { KeepAliveClient } from "../../tests/support/hostile-http.ts";
import { circumstances } from "../serving/report.ts";
import { startNereid } from "../serving/servers.ts";
import { Latencies } from "./latencies.ts";
import { INPUTS, writeModels } from "./models.ts";
import { SteadyLoad } from "./steady-load.ts";

const { values: flags } = parseArgs({
  options: {
    reloads: { type: "string", default: "1000" },
    rounds: { type: "string", default: "4" },
    rate: { type: "string", default: "200" },
    "pause-ms": { type: "string", default: "100" },
    megabytes: { type: "string", default: "32" },
    "base-port": { type: "string", default: "18000" },
    name: { type: "string", default: "" },
  },
});

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const RESULTS = fileURLToPath(new URL("../results/", import.meta.url));
const WARM_UP_MS = 3000;
/** Quiet time of each round, at least. */
const QUIET_MS = 10_000;
const RELOADED = ["small", "large"] as const;
const numReloads = Number(flags.reloads);
const numRounds = Number(flags.rounds);

const folder = mkdtempSync(join(tmpdir(), "nereid-bench-reload-"));
writeModels(folder, Number(flags.megabytes));
const serverFlags = ["--model-control-mode=explicit", "--load-model=*"];
const server = await startNereid(ROOT, [folder], Number(flags["base-port"]), [], serverFlags);
const lines: string[] = [];
try {
  using client = new KeepAliveClient(server.httpPort, 64);
  for (const model of RELOADED) lines.push(...(await measure(client, model)));
} finally {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
if (flags.name !== "") save(lines);

async function measure(client: KeepAliveClient, model: string): Promise<string[]> {
  const quiet = { reloaded: new Latencies(), beside: new Latencies() };
  const busy = { reloaded: new Latencies(), beside: new Latencies() };
  const loads = new Latencies();
  await loadFor(client, model, WARM_UP_MS, { reloaded: new Latencies(), beside: new Latencies() });
  const perRound = Math.ceil(numReloads / RELOADED.length / numRounds);
  for (let round = 0; round < numRounds; round += 1) {
    await loadFor(client, model, QUIET_MS, quiet);
    const load = new SteadyLoad(client, Number(flags.rate), bodiesOf(model), busy);
    const sending = load.run();
    for (let i = 0; i < perRound; i += 1) await reload(client, model, round * perRound + i, loads);
    load.stop();
    await sending;
  }
  const rows = [
    ["without reloads", model, quiet.reloaded],
    ["during reloads", model, busy.reloaded],
    ["without reloads", "beside", quiet.beside],
    ["during reloads", "beside", busy.beside],
    ["a load request", model, loads],
  ] as const;
  const text = rows.map(([when, what, latencies]) => `| ${when} | ${what} | ${latencies.cells().join(" | ")} |`);
  for (const line of text) console.log(line);
  return text;
}

async function loadFor(
  client: KeepAliveClient,
  model: string,
  ms: number,
  into: { readonly reloaded: Latencies; readonly beside: Latencies },
): Promise<void> {
  const load = new SteadyLoad(client, Number(flags.rate), bodiesOf(model), into);
  const sending = load.run();
  await sleep(ms);
  load.stop();
  await sending;
}

function bodiesOf(model: string): { readonly reloaded: string; readonly beside: string; readonly body: string } {
  const data = Array.from({ length: INPUTS }, (_, i) => i / INPUTS);
  const body = JSON.stringify({ inputs: [{ name: "x", datatype: "FP32", shape: [1, INPUTS], data }] });
  return { reloaded: `/v2/models/${model}/infer`, beside: "/v2/models/beside/infer", body };
}

/** A newer file: the whole model is loaded anew. */
async function reload(client: KeepAliveClient, model: string, number: number, loads: Latencies): Promise<void> {
  utimesSync(join(folder, model, "1", "model.onnx"), number + 1, number + 1);
  const startMs = performance.now();
  const { status, body } = await client.send({ path: `/v2/repository/models/${model}/load` });
  loads.add(performance.now() - startMs, status === 200);
  if (status !== 200) console.error(body.toString());
  await sleep(Number(flags["pause-ms"]));
}

function save(rows: readonly string[]): void {
  mkdirSync(RESULTS, { recursive: true });
  const { commit, command, machine, node, date } = circumstances(
    `npm run bench:reload -- ${process.argv.slice(2).join(" ")}`,
  );
  const text = `# Reloads under load

Commit ${commit}, ${date}, Node ${node}, ${machine}.
Command: \`${command}\`.

Half of ${flags.rate} requests a second go to the model that is reloaded, half to the model \`beside\`. There are ${flags.reloads}
reloads in all, in ${flags.rounds} rounds a model, each after a quiet time. \`large\` has ${flags.megabytes} MB of weights.

| when | model | requests | failed | p50 ms | p99 ms | p99.9 ms | max ms |
| --- | --- | --- | --- | --- | --- | --- | --- |
${rows.join("\n")}
`;
  writeFileSync(join(RESULTS, `${flags.name}.md`), text);
}
