/** Triton's own clients against the real server: repository control and sequences, over both protocols. */
import process from "node:process";
import { test } from "node:test";
import { createModelRepository, EXAMPLES, GOLDEN_MODELS } from "../support/model-repository.ts";
import { clientVenv, runChecks } from "../support/python-checks.ts";
import { startServerProcess } from "../support/server-process.ts";
import { startClientServer } from "./client-models.ts";

const options = { skip: clientVenv.reason ?? false, timeout: 120_000 };

test("tritonclient: repository.py loads and unloads models", options, async (t) => {
  const copies = [`${EXAMPLES}/simple`, `${GOLDEN_MODELS}/no_batch`];
  await using repository = await createModelRepository({ copies });
  const flags = ["--model-control-mode=explicit", "--load-model=simple"];
  const server = await startServerProcess({ repositories: [repository.path], flags, env: process.env });
  t.after(() => server.kill());
  await runChecks(t, "repository.py", server, [`${EXAMPLES}/simple/1/model.onnx`]);
  await server.stop();
});

test("tritonclient: sequences.py keeps sequences apart", options, async (t) => {
  const server = await startClientServer(t);
  await runChecks(t, "sequences.py", server);
  await server.stop();
});
