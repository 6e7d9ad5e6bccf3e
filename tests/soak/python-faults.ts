/** Kills and stops the processes of a Python model under load, 1,000 times or as often as the time allows. */
import { pythonVenv } from "../python-venv.ts";
import { runPythonFaults } from "../support/python-faults.ts";
import { createRandom } from "../support/random.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const NUM_POINTS = 1000;

export const pythonFaultsSoak: Soak = { name: "python-faults", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const { python, reason } = await pythonVenv(["numpy"]);
  if (python === undefined) throw new Error(reason);
  const isOver = (points: number): boolean => points >= NUM_POINTS || performance.now() >= deadlineMs;
  const { recoveryMs, ...counts } = await runPythonFaults(python, createRandom(seed), isOver);
  const bySignal = Object.entries(recoveryMs).flatMap(([signal, { slowest, median }]) => [
    [`${signal} slowest recovery ms`, slowest],
    [`${signal} median recovery ms`, median],
  ]);
  return { ...counts, ...Object.fromEntries(bySignal) };
}
