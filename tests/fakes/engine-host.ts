/**
 * The engine host's program with a hash for a model. `FAKE_HOST` makes it misbehave: "hang-at-load", "exit-at-load",
 * "fail-at-load", "hang-at-step", "fail-at-step" (the fourth), "fail-at-first-step", "load-once:<file>" (the second load and later ones fail).
 */
import { existsSync, writeFileSync } from "node:fs";
import { Socket } from "node:net";
import process from "node:process";
import { HOST_SOCKET_FD } from "../../server/src/engine/host/host-process.ts";
import { serveEngine } from "../../server/src/engine/host/serve-engine.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { HashRunner } from "./hash-runner.ts";

const behaviour = process.env.FAKE_HOST ?? "";

async function createRunner(): Promise<StepRunner> {
  process.stderr.write("fake host loads\n");
  if (behaviour === "hang-at-load") await new Promise(() => undefined);
  if (behaviour === "exit-at-load") process.exit(3);
  if (behaviour === "fail-at-load") throw new Error("no weights in the folder");
  if (behaviour.startsWith("load-once:")) loadOnce(behaviour.slice("load-once:".length));
  return new HashRunner({ stepMs: 2, numBlocks: 128, onStep: misbehave });
}

function loadOnce(file: string): void {
  if (existsSync(file)) throw new Error("the weights are gone");
  writeFileSync(file, "");
}

function misbehave(_: unknown, step: number): void {
  if (behaviour === "fail-at-first-step") throw new Error("the device is lost");
  if (step < 3) return;
  if (behaviour === "hang-at-step") for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
  if (behaviour === "fail-at-step") throw new Error("the device is lost");
}

serveEngine({
  socket: new Socket({ fd: HOST_SOCKET_FD }),
  createRunner,
  exit: (code) => process.exit(code),
  serverGone: () => process.exit(0),
});
