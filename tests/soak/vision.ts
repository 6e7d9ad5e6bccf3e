/**
 * Images to captions over a large collection: 500 drawn images through `vlm_search` among 10,000 captions, and the same
 * look-ups in every store at hand. As long as it takes, whatever the minutes are.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../retrieval/src/stores/open-store.ts";
import type { Hit, VectorStore } from "../../retrieval/src/stores/vector-store.ts";
import { findPostgres, PostgresServer } from "../support/postgres-server.ts";
import type { ServerProcess } from "../support/server-process.ts";
import {
  createVisionRepository,
  generate,
  indexCaptions,
  makeCaptions,
  mapSome,
  readScenes,
  renderScenes,
  startVisionServer,
} from "../support/vision-server.ts";
import type { Soak, SoakResult } from "./soak.ts";

const NUM_CAPTIONS = 10_000;
const NUM_IMAGES = 500;
const LEAST_RIGHT = 0.98;
const CLIENTS = 16;
const PER_QUERY = 25;
const HITS = 3;

interface Looked {
  readonly isRight: boolean;
  readonly ids: readonly string[];
  readonly description: Float32Array;
  readonly image: Float32Array;
  readonly text: string;
}

async function run(): Promise<SoakResult> {
  using repository = createVisionRepository("memory:../../store");
  const captions = join(repository.folder, "captions.jsonl");
  const images = join(repository.folder, "pictures");
  await makeCaptions(captions, NUM_CAPTIONS);
  await renderScenes(images, NUM_IMAGES);
  const memory = `memory:${join(repository.folder, "store")}`;
  await indexCaptions(repository, captions, memory);
  const server = await startVisionServer(repository);
  let looked: Looked[];
  try {
    looked = await mapSome(readScenes(images), CLIENTS, (scene) => lookUp(server, images, scene));
    await server.stop();
  } finally {
    await server.kill();
  }
  const right = looked.filter(({ isRight }) => isRight).length;
  assert.ok(right >= LEAST_RIGHT * NUM_IMAGES, `${right} of ${NUM_IMAGES} right`);
  const byImage = await inStore(
    openStore(memory, options(repository.folder)),
    looked.map(({ image }) => image),
  );
  const result = {
    right,
    rightByImageVector: countRight(looked, byImage, 1),
    amongThreeByImageVector: countRight(looked, byImage, HITS),
    images: NUM_IMAGES,
    captions: NUM_CAPTIONS,
    ...(await sameIn(repository, captions, looked, `pglite:${join(repository.folder, "pglite")}`, "pglite")),
  };
  const found = findPostgres();
  if (!("bin" in found)) return result;
  await using postgres = await PostgresServer.create(found.bin);
  return { ...result, ...(await sameIn(repository, captions, looked, postgres.url, "postgresql")) };
}

async function lookUp(server: ServerProcess, folder: string, scene: { file: string; text: string }): Promise<Looked> {
  const image = readFileSync(join(folder, scene.file)).toString("base64");
  const body = { image, text_input: "How many shapes are there?", max_tokens: 8 };
  const { matches, match_ids, description } = await generate(server, "vlm_search", body);
  const [best = "{}"] = matches as string[];
  const encoded = await generate(server, "caption_encoder", { TEXT: description });
  const seen = await generate(server, "image_encoder", { IMAGE: image });
  return {
    isRight: JSON.parse(best).text === scene.text,
    ids: match_ids as string[],
    description: Float32Array.from(encoded.embedding as number[]),
    image: Float32Array.from(seen.embedding as number[]),
    text: scene.text,
  };
}

/** The same captions in another store give the same three for every image. */
async function sameIn(
  repository: Parameters<typeof indexCaptions>[0],
  captions: string,
  looked: readonly Looked[],
  address: string,
  name: string,
): Promise<SoakResult> {
  const indexed = await indexCaptions(repository, captions, address);
  assert.equal(indexed.written, NUM_CAPTIONS);
  const again = await indexCaptions(repository, captions, address);
  assert.equal(again.unchanged, NUM_CAPTIONS);
  const hits = await inStore(
    openStore(address, options(repository.folder)),
    looked.map(({ description }) => description),
  );
  const same = looked.filter(({ ids }, i) => ids.join() === hits[i]?.map(({ id }) => id).join()).length;
  assert.equal(same, looked.length, `${same} of ${looked.length} the same in ${name}`);
  return { [`${name}Same`]: same };
}

async function inStore(store: VectorStore, vectors: readonly Float32Array[]): Promise<readonly (readonly Hit[])[]> {
  const hits: (readonly Hit[])[] = [];
  for (let at = 0; at < vectors.length; at += PER_QUERY) {
    const query = { vectors: vectors.slice(at, at + PER_QUERY), k: HITS, metric: "cosine", filter: [] } as const;
    hits.push(...(await store.search("captions", query)));
  }
  await store.close();
  return hits;
}

function countRight(looked: readonly Looked[], hits: readonly (readonly Hit[])[], among: number): number {
  return looked.filter(({ text }, i) =>
    hits[i]?.slice(0, among).some(({ document }) => JSON.parse(document).text === text),
  ).length;
}

function options(folder: string): Parameters<typeof openStore>[1] {
  return { folder, maxConnections: 2, timeoutMs: 120_000, retries: 1, log: () => undefined, env: {} };
}

export const visionSoak: Soak = { name: "vision", run };
