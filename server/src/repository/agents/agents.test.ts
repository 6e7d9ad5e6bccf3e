import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { createTestRepository, identityConfig, type TestRepository } from "../../../../tests/fakes/model-repository.ts";
import { AgentFinder } from "./agent-finder.ts";
import type { AgentModel, RepositoryAgent } from "./repository-agent.ts";

const root = mkdtempSync(join(tmpdir(), "nereid-agents-"));
after(() => rmSync(root, { recursive: true, force: true }));

function agents(...parts: readonly string[]): string {
  return identityConfig(`model_repository_agents { agents [ ${parts.join(", ")} ] }`);
}

function checksum(file: string, digest: string, key = "MD5:"): string {
  return agents(`{ name: "checksum" parameters { key: "${key}${file}" value: "${digest}" } }`);
}

function md5(text: string): string {
  return createHash("md5").update(text).digest("hex");
}

const FILES = { "m/1/weights.bin": "weights", "m/labels.txt": "a" };

test("the checksum agent lets a model load whose files are those of its configuration", async () => {
  const config = agents(
    `{ name: "checksum" parameters [ { key: "MD5:1/weights.bin" value: "${md5("weights").toUpperCase()}" }, { key: "MD5:labels.txt" value: "${md5("a")}" } ] }`,
  );
  await using repository = createTestRepository({ ...FILES, "m/config.pbtxt": config });
  await repository.manager.load("m", {});
  assert.equal(repository.registry.ready("m").length, 1);
});

const REFUSED: readonly (readonly [string, string, RegExp])[] = [
  ["another digest", checksum("1/weights.bin", md5("other")), /Mismatched MD5 hash for file 1\/weights\.bin/],
  ["a file that is not there", checksum("1/nosuch.bin", md5("")), /no file '1\/nosuch\.bin'/],
  ["a file outside of the model", checksum("../../etc/passwd", md5("")), /no relative path inside the model's folder/],
  ["a link that leads out", checksum("1/link", md5("")), /leaves the model's folder/],
  ["another hash", checksum("labels.txt", "00", "SHA1:"), /expected 'MD5:<file>'/],
  ["an agent that is not there", agents('{ name: "nosuch" }'), /unable to find repository agent 'nosuch'/],
];
for (const [title, config, reason] of REFUSED) {
  test(`load() is refused for ${title}, with the reason in the log and what served before`, async () => {
    await using repository = createTestRepository({ ...FILES, "m/config.pbtxt": identityConfig() });
    symlinkSync("/etc/passwd", join(repository.path, "m/1/link"));
    const { manager, registry } = repository;
    await manager.load("m", {});
    const old = registry.lookUp("m", "");
    repository.write("m/config.pbtxt", config);
    await assert.rejects(manager.load("m", {}), {
      code: "internal",
      message: "failed to load 'm', failed to poll from model repository",
    });
    assert.match(repository.errors.join(""), reason);
    assert.equal(registry.lookUp("m", ""), old);
  });
}

test("the agents are those of the file, whatever configuration comes with the request", async () => {
  await using repository = createTestRepository({ ...FILES, "m/config.pbtxt": checksum("labels.txt", "00") });
  const config = JSON.stringify({ backend: "identity", max_batch_size: 1 });
  await assert.rejects(repository.manager.load("m", { config }), /failed to poll/);
  assert.match(repository.errors.join(""), /Mismatched MD5 hash for file labels\.txt/);
});

test("loadAtStart() reports a refused model and serves the others", async () => {
  await using repository = createTestRepository({
    ...FILES,
    "m/config.pbtxt": checksum("labels.txt", "00"),
    "good/config.pbtxt": identityConfig(),
    "good/1/.keep": "",
  });
  const failures = await repository.manager.loadAtStart(undefined);
  assert.deepEqual([...failures.keys()], ["m"]);
  assert.equal(repository.registry.ready("good").length, 1);
});

/** Two agents that note what they hear. */
function noting(notes: string[], load: Readonly<Record<string, RepositoryAgent["load"]>> = {}) {
  return async (name: string): Promise<RepositoryAgent> => {
    const note = (what: string) => async (model: AgentModel) => {
      notes.push(`${name} ${what} ${model.parameters.p ?? ""}`.trim());
    };
    return {
      async load(model) {
        await note("load")(model);
        return load[name]?.(model);
      },
      loadComplete: note("loadComplete"),
      loadFail: note("loadFail"),
      unload: note("unload"),
      unloadComplete: note("unloadComplete"),
    };
  };
}

const BOTH = agents('{ name: "a" parameters { key: "p" value: "x" } }', '{ name: "b" }');

function create(config: string, findAgent: (name: string) => Promise<RepositoryAgent>): TestRepository {
  return createTestRepository({ ...FILES, "m/config.pbtxt": config }, [], undefined, { findAgent });
}

test("agents hear of what comes in their order and of what has happened in reverse", async () => {
  const notes: string[] = [];
  {
    await using repository = create(BOTH, noting(notes));
    await repository.manager.load("m", {});
    assert.deepEqual(notes.splice(0), ["a load x", "b load", "b loadComplete", "a loadComplete x"]);
    await repository.manager.load("m", {}); // nothing has changed
    assert.deepEqual(notes, []);
    await repository.manager.unload("m", false);
  }
  assert.deepEqual(notes, ["a unload x", "b unload", "b unloadComplete", "a unloadComplete x"]);
});

test("agents hear that a load has failed, theirs or the model's", async () => {
  const notes: string[] = [];
  const refuse = (): Promise<never> => Promise.reject(new Error("no"));
  await using refused = create(BOTH, noting(notes, { b: refuse }));
  await assert.rejects(refused.manager.load("m", {}), /failed to poll/);
  assert.deepEqual(notes.splice(0), ["a load x", "b load", "b loadFail", "a loadFail x"]);
  await using broken = create(BOTH.replace("identity", "nosuch"), noting(notes));
  await assert.rejects(broken.manager.load("m", {}), /unable to find backend/);
  assert.deepEqual(notes, ["a load x", "b load", "b loadFail", "a loadFail x"]);
});

test("agents hear that a model cannot be read where they have put it", async () => {
  const empty = join(root, "empty");
  mkdirSync(empty);
  const notes: string[] = [];
  await using repository = create(BOTH, noting(notes, { a: async () => empty }));
  await assert.rejects(repository.manager.load("m", {}), /failed to poll/);
  assert.deepEqual(notes, ["a load x", "b load", "b loadFail", "a loadFail x"]);
});

test("an agent may put another folder in the model's place, which the next agent sees", async () => {
  const other = join(root, "unpacked");
  mkdirSync(join(other, "7"), { recursive: true });
  writeFileSync(join(other, "config.pbtxt"), identityConfig());
  const seen: string[] = [];
  const findAgent = noting([], {
    a: async () => other,
    b: async ({ folder }) => {
      seen.push(folder);
      return undefined;
    },
  });
  await using repository = create(BOTH, findAgent);
  const { manager, registry } = repository;
  await manager.load("m", {});
  assert.deepEqual(seen, [other]);
  const served = registry.lookUp("m", "");
  assert.deepEqual([served.name, served.version], ["m", "7"]);
  await manager.load("m", {});
  assert.equal(registry.lookUp("m", ""), served);
});

test("find() loads a module of the agent folder once, and says what is wrong with one that is none", async () => {
  const write = (name: string, text: string): void => {
    mkdirSync(join(root, name));
    writeFileSync(join(root, name, "agent.mjs"), text);
  };
  write("mine", "export function createRepositoryAgent() { return { load: async () => '/elsewhere' }; }");
  write("hollow", "export const nothing = 1;");
  write("torn", "export function (");
  const finder = new AgentFinder(root);
  const mine = await finder.find("mine");
  assert.equal(await mine.load?.({ name: "m", folder: "/f", parameters: {}, configJson: "" }), "/elsewhere");
  assert.equal(await finder.find("mine"), mine);
  await finder.find("checksum");
  assert.deepEqual(
    finder.used().map(({ name, path }) => [name, path]),
    [
      ["checksum", "<built in>"],
      ["mine", join(root, "mine", "agent.mjs")],
    ],
  );
  await assert.rejects(finder.find("hollow"), /exports no function createRepositoryAgent/);
  await assert.rejects(finder.find("torn"), /repository agent 'torn' of .* failed: /);
  await assert.rejects(finder.find("../mine"), /unable to find repository agent/);
});
