/**
 * ONNX models on a GPU beside the same on the CPU, through a server with an ONNX Runtime that has CUDA:
 * `node onnx.mjs --program=<nereid.cjs> --library=<libonnxruntime.so>`, the libraries of CUDA in LD_LIBRARY_PATH.
 * Commands: compare (how far answers differ, what the server holds on the GPU, rates and latencies), refusals (of libraries
 * that lack something), memory (by settings); all without one. Ends with 1 when answers differ by more than the tolerances.
 */
import { copyFileSync, mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { startHttpLoad } from "../serving/http-load.ts";
import { measure } from "../serving/measure.ts";
import { type BenchTensor, binaryRequest } from "../serving/messages.ts";
import { showMemoryBySettings, usedMemory } from "./onnx-memory.ts";
import { MODELS, PLACES, type Place, writeModels } from "./onnx-models.ts";
import { type Server, startServer } from "./served-server.ts";

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    program: { type: "string", default: "" },
    library: { type: "string", default: "" },
    examples: { type: "string", default: "examples" },
    work: { type: "string", default: "/tmp/onnx" },
    port: { type: "string", default: "18480" },
    /** The linker's path for the case in which it finds the driver, but not CUDA's libraries. */
    "bare-path": { type: "string", default: "" },
    seconds: { type: "string", default: "1.2" },
    places: { type: "string", default: Object.keys(PLACES).join() },
  },
});

const PORT = Number(flags.port);
const NAMES = Object.keys(MODELS);
const ALL_PLACES = flags.places.split(",") as readonly Place[];
const COMPARED_ROWS = 8;
/**
 * Tolerance relative to an output's largest value. TF32 keeps 10 bits of each factor; f32 rounds differently on both.
 */
const TOLERANCES: Readonly<Record<string, number>> = { gpu: 5e-3, gpu_of_3: 5e-3, gpu_f32: 5e-5 };
const NUM_AT_ONCE = 24;
const LOADS = [
  { clients: 1, rows: 1 },
  { clients: 32, rows: 1 },
  { clients: 4, rows: 32 },
] as const;

type Outputs = ReadonlyMap<string, readonly number[]>;

async function infer(model: string, inputs: readonly BenchTensor[]): Promise<Outputs> {
  const { path, headers, body } = binaryRequest(model, inputs, { binary_data_output: false });
  const request = { method: "POST", headers: Object.fromEntries(headers), body };
  const answer = (await (await fetch(`http://127.0.0.1:${PORT}${path}`, request)).json()) as {
    readonly outputs?: readonly { readonly name: string; readonly data: readonly number[] }[];
    readonly error?: string;
  };
  if (answer.outputs === undefined) throw new Error(`${model}: ${answer.error}`);
  return new Map(answer.outputs.map(({ name, data }) => [name, data]));
}

function largestDifference(a: readonly number[], b: readonly number[] = []): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY;
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - (b[i] ?? Number.NaN))), 0);
}

async function compare(name: string, place: Place): Promise<void> {
  const inputs = MODELS[name]?.inputs(COMPARED_ROWS) ?? [];
  const expected = await infer(`${name}_cpu`, inputs);
  const all = await Promise.all(Array.from({ length: NUM_AT_ONCE }, () => infer(`${name}_${place}`, inputs)));
  for (const [output, values] of expected) {
    const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const off = Math.max(...all.map((outputs) => largestDifference(values, outputs.get(output))));
    const isWithin = off <= largest * (TOLERANCES[place] ?? 0);
    if (!isWithin) process.exitCode = 1;
    const label = `${name} ${output} ${place}`.padEnd(44);
    const bits = `off by ${off.toExponential(1)} of ${largest.toExponential(1)}`;
    console.log(`${label} ${bits}, ${all.length} requests at once ${isWithin ? "" : "NOT WITHIN THE TOLERANCE"}`);
  }
}

async function rate(name: string, place: Place, server: Server, clients: number, rows: number): Promise<void> {
  const inputs = MODELS[name]?.inputs(rows) ?? [];
  await infer(`${name}_${place}`, inputs); // fails with the server's words, where a load would end the program
  const request = binaryRequest(`${name}_${place}`, inputs);
  const row = { name, protocol: "http", start: (port: number) => startHttpLoad(port, request, clients) } as const;
  const served = { pid: server.child.pid ?? 0, httpPort: PORT, grpcPort: PORT + 1, stop: server.stop };
  const { requestsPerSecond, p50Us, p99Us, cpuUs } = await measure(row, served, Number(flags.seconds));
  const ms = (us: number): string => (us / 1000).toFixed(2).padStart(8);
  const label = `${name.padEnd(15)} ${place.padEnd(8)} ${String(clients).padStart(2)} clients x ${String(rows).padStart(2)} rows`;
  const perSecond = requestsPerSecond.toFixed(0).padStart(6);
  console.log(`${label} ${perSecond}/s p50 ${ms(p50Us)} p99 ${ms(p99Us)} ms, ${ms(cpuUs)} ms of processors each`);
}

async function showMemory(server: Server): Promise<void> {
  const text = await (await fetch(`http://127.0.0.1:${PORT + 2}/metrics`)).text();
  console.log(text.match(/^nv_gpu_memory_used_bytes\{.*$/m)?.[0] ?? "no metric of the GPU's memory");
  try {
    console.log(`NVML: the server's process holds ${usedMemory(server.child.pid)}`);
  } catch (error) {
    console.log(`no nvidia-smi: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function printLines(server: Server, wanted: RegExp): void {
  for (const line of server.lines) if (wanted.test(line)) console.log(line.slice(0, 900));
}

const PLAN = {
  program: flags.program,
  repository: join(flags.work, "repository"),
  port: PORT,
  readyTimeoutMs: 60_000,
  flags: [`--backend-config=onnxruntime,library=${flags.library}`],
};

/** Prints a failure; the rest goes on. */
async function attempt(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    process.exitCode = 1;
    console.log(`FAILED: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function showAll(): Promise<void> {
  writeModels(PLAN.repository, flags.examples, NAMES, ALL_PLACES);
  const server = await startServer({ ...PLAN, flags: [...PLAN.flags, "--log-verbose=1"] });
  try {
    printLines(server, /onnx_backend\.cc:1\] /);
    await showMemory(server);
    for (const name of NAMES) {
      for (const place of ALL_PLACES) if (place !== "cpu") await attempt(() => compare(name, place));
    }
    for (const name of NAMES.slice(1)) {
      for (const { clients, rows } of LOADS) {
        for (const place of ["cpu", "gpu"] as const) await attempt(() => rate(name, place, server, clients, rows));
      }
    }
    for (const place of ["gpu_of_3", "gpu_f32"] as const) {
      await attempt(() => rate("text_encoder", place, server, 32, 1));
    }
    await showMemory(server);
  } catch (error) {
    console.log(server.lines.slice(-20).join("\n"));
    throw error;
  } finally {
    await server.stop();
  }
}

interface Lacking {
  readonly title: string;
  readonly model: string;
  readonly flags: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** A server goes on without the models that its library cannot run. */
async function showRefusal({ title, model, ...lacking }: Lacking): Promise<void> {
  console.log(`-- ${title}`);
  writeModels(PLAN.repository, flags.examples, [model], ["cpu", "gpu"]);
  const ofAll = ["--exit-on-error=false", "--strict-readiness=false", "--log-verbose=1"];
  const server = await startServer({ ...PLAN, flags: [...ofAll, ...lacking.flags], env: lacking.env ?? {} });
  try {
    printLines(server, /onnx_backend\.cc:1\] |failed to load|E\d{4} /);
    for (const place of ["cpu", "gpu"]) {
      const inputs = MODELS[model]?.inputs(1) ?? [];
      const answer = await infer(`${model}_${place}`, inputs).then(
        (outputs) => `answers with ${[...outputs.keys()].join()}`,
        (error: unknown) => String(error).slice(0, 600),
      );
      console.log(`${model}_${place}: ${answer}`);
    }
  } finally {
    await server.stop();
  }
}

async function showRefusals(): Promise<void> {
  const alone = join(flags.work, "alone", basename(flags.library));
  mkdirSync(join(flags.work, "alone"), { recursive: true });
  copyFileSync(flags.library, alone);
  const bare = { NEREID_ONNXRUNTIME_LIB: flags.library, LD_LIBRARY_PATH: flags["bare-path"] };
  for (const model of ["simple", "vision_encoder"]) {
    const title = "named in NEREID_ONNXRUNTIME_LIB, CUDA's libraries not on the linker's path";
    await showRefusal({ title, model, flags: [], env: bare });
  }
  const flagsOfAlone = [`--backend-config=onnxruntime,library=${alone}`];
  await showRefusal({ title: "no provider's library beside it", model: "simple", flags: flagsOfAlone });
}

const COMMANDS: Readonly<Record<string, () => Promise<void>>> = {
  compare: showAll,
  refusals: showRefusals,
  memory: () => showMemoryBySettings(PLAN, flags.examples),
};
for (const name of positionals.length > 0 ? positionals : Object.keys(COMMANDS)) await COMMANDS[name]?.();
