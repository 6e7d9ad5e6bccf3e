import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { hostProgram } from "./host-program.ts";

const folder = mkdtempSync(join(tmpdir(), "nereid-host-program-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const environment = { ...process.env, NEREID_BACKEND_HOST_CACHE: folder };

/** A compiler that writes what it is asked for, or fails with a line. */
function compiler(name: string, code: string): string {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${code}\n`);
  chmodSync(path, 0o700);
  return path;
}

const WRITES = 'while [ "$1" != -o ]; do shift; done; echo built > "$2"';

test("hostProgram() builds once for equal sources, and nothing stays of a draft", async () => {
  const CXX = compiler("writes", `${WRITES}; echo >> '${folder}/calls'`);
  const [first, second] = await Promise.all([
    hostProgram({ ...environment, CXX }),
    hostProgram({ ...environment, CXX }),
  ]);
  assert.equal(first, second);
  assert.equal(await hostProgram({ ...environment, CXX }), first);
  assert.deepEqual(readdirSync(join(first, "..")).sort(), ["libtritonserver.so", "nereid-backend-host"]);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith("draft-")),
    [],
  );
});

for (const [title, CXX, reason] of [
  ["has no compiler", join(folder, "nowhere"), /cannot be built with '.*nowhere': it could not be started: .*ENOENT/],
  ["has one that fails", compiler("fails", "echo 'error: planned' >&2; exit 1"), /exit code 1\nerror: planned\n/],
] as const) {
  test(`hostProgram() says how to get a host when the machine ${title}`, async () => {
    await assert.rejects(hostProgram({ ...environment, CXX }), (error: Error) => {
      assert.match(error.message, reason);
      assert.match(
        error.message,
        /Install g\+\+, name a compiler in the environment variable CXX, or a built host in NEREID_BACKEND_HOST/,
      );
      return true;
    });
  });
}

test("hostProgram() takes a built host, and refuses a folder without one", async () => {
  await assert.rejects(
    hostProgram({ NEREID_BACKEND_HOST: folder }),
    /must be a folder with nereid-backend-host and libtritonserver\.so/,
  );
  for (const file of ["nereid-backend-host", "libtritonserver.so"]) writeFileSync(join(folder, file), "");
  assert.equal(await hostProgram({ NEREID_BACKEND_HOST: folder }), join(folder, "nereid-backend-host"));
});
