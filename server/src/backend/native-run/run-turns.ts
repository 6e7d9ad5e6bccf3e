/** The threads and the time of the event loop that all native runs of a process share. */
import process from "node:process";
import type { Environment } from "../../core/environment.ts";
import { RunGate, runsInPool } from "./run-gate.ts";
import { TurnBudget } from "./turn-budget.ts";

export interface RunTurns {
  readonly budget: TurnBudget;
  readonly gate: RunGate;
}

export function newRunTurns(): RunTurns {
  const { UV_THREADPOOL_SIZE }: Environment = process.env;
  return { budget: new TurnBudget(), gate: new RunGate(runsInPool(UV_THREADPOOL_SIZE)) };
}
