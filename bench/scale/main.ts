/**
 * One process at its limits: a thousand models, ten thousand connections, a thousand streams, tensors of a gigabyte; and for how long each
 * operation holds the event loop. `npm run bench:scale -- [--parts=models,onnx,...] [--save]` writes bench/results/scale.md.
 */
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { circumstances, figure, table } from "../serving/report.ts";
import { idleConnections } from "./connections.ts";
import { largeTensors } from "./large-tensors.ts";
import { manyModels } from "./many-models.ts";
import { manyStreams } from "./streams.ts";
import type { Row } from "./watched.ts";

const PARTS: Readonly<Record<string, () => Promise<readonly Row[]>>> = {
  models: () => manyModels("identity"),
  onnx: () => manyModels("onnx"),
  connections: idleConnections,
  streams: manyStreams,
  tensors: largeTensors,
};
/** No operation is to hold the event loop for longer. */
const LIMIT_MS = 100;
const RESULT = fileURLToPath(new URL("../results/scale.md", import.meta.url));

const { values: flags } = parseArgs({
  options: {
    parts: { type: "string", default: Object.keys(PARTS).join(",") },
    save: { type: "boolean", default: false },
  },
});
const rows: Row[] = [];
for (const part of flags.parts.split(",")) {
  const measure = PARTS[part];
  if (measure === undefined) throw new Error(`no part named '${part}'; there are ${Object.keys(PARTS).join(", ")}`);
  for (const row of await measure()) {
    rows.push(row);
    console.log(cells(row).join(" | "));
  }
}
if (flags.save) save();

function cells({ operation, wallMs, longestMs, longestCpuMs, note }: Row): string[] {
  return [operation, figure(wallMs), figure(longestMs), figure(longestCpuMs), note];
}

function save(): void {
  const { commit, command, machine, node, date } = circumstances("npm run bench:scale -- --save");
  const long = rows.filter(({ longestCpuMs }) => longestCpuMs > LIMIT_MS).map(({ operation }) => operation);
  const head = ["operation", "ms", "loop held, ms", "of it CPU, ms", "size or memory"];
  writeFileSync(
    RESULT,
    `# Scale of one process

Commit ${commit}, ${date}, Node ${node}, ${machine}.
Command: \`${command}\`.

\`loop held\` is the longest time between two turns of the event loop, by the clock; \`CPU\` is the most CPU time that the loop's thread
took between two turns. They differ where other processes ran on the same cores.

${table(head, rows.map(cells))}

Above ${LIMIT_MS} ms of CPU, which is the goal: ${long.length === 0 ? "none" : long.join("; ")}.
`,
  );
}
