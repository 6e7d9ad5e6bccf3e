import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { HostProcessEvents } from "./host-process.ts";
import { SpareHost } from "./spare-host.ts";

/** A host that runs this program. */
function hostOf(t: TestContext, program: string): SpareHost {
  const folder = mkdtempSync(join(tmpdir(), "nereid-spare-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const entry = join(folder, "host.mjs");
  writeFileSync(entry, program);
  return new SpareHost({ entry });
}

interface Heard extends HostProcessEvents {
  readonly lines: string[];
  readonly exit: Promise<string>;
}

function listener(): Heard {
  const lines: string[] = [];
  let ended: (how: string) => void = () => undefined;
  const exit = new Promise<string>((resolve) => {
    ended = resolve;
  });
  return {
    lines,
    exit,
    onFrame: () => undefined,
    onOutput: (line) => void lines.push(line),
    onExit: (how) => ended(how),
  };
}

const WAITS = 'process.stdout.write("early\\n"); setInterval(() => undefined, 1000);';

test("take() hands the process and its output over, once", async (t) => {
  const spare = hostOf(t, `${WAITS} process.on("SIGTERM", () => undefined);`);
  const heard = listener();
  const process = spare.take(heard);
  assert.equal(process?.pid, spare.pid);
  assert.equal(spare.take(listener()), undefined);
  spare[Symbol.dispose](); // it has an owner
  process?.kill();
  assert.equal(await heard.exit, "signal SIGKILL");
  assert.deepEqual(
    heard.lines.filter((line) => line !== "early"),
    [],
  );
});

test("take() gives nothing when the process has ended", { timeout: 240_000 }, async (t) => {
  const spare = hostOf(t, "process.exit(3)");
  const isOver = (): boolean => {
    const heard = listener();
    const taken = spare.take(heard);
    taken?.kill();
    return taken === undefined;
  };
  await new Promise<void>((resolve) => {
    const poll = setInterval(() => {
      try {
        process.kill(spare.pid ?? 0, 0);
      } catch {
        clearInterval(poll);
        setTimeout(resolve, 300);
      }
    }, 10);
  });
  assert.equal(isOver(), true);
});

test("a host that nobody took ends with its owner", { timeout: 240_000 }, async (t) => {
  const spare = hostOf(t, WAITS);
  spare[Symbol.dispose]();
  await new Promise<void>((resolve) => {
    const poll = setInterval(() => {
      try {
        process.kill(spare.pid ?? 0, 0);
      } catch {
        clearInterval(poll);
        resolve();
      }
    }, 10);
  });
});
