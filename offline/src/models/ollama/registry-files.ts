/**
 * Models of Ollama registries in this user's cache: blobs by hash, a manifest for each name, and a link that
 * gives the GGUF file its ending. Names that share a blob share the file.
 */
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, symlink } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { writeFileAtomically } from "@nereid/server/files/atomic-output";
import { TargetLock } from "@nereid/server/files/target-lock";
import type { RegistryName } from "../name/model-name.ts";
import type { ModelStore } from "../store/model-store.ts";
import { parseManifest, type RegistryBlob, type RegistryManifest } from "./registry-manifest.ts";

export const DEFAULT_HOST = "registry.ollama.ai";
const MANIFEST = "manifest.json";
const MODEL = "model.gguf";

export interface StoredRegistryModel {
  /** As people type it. */
  readonly name: string;
  readonly folder: string;
  readonly manifest: RegistryManifest;
}

export class RegistryFiles {
  readonly #root: string;

  constructor({ registries }: ModelStore) {
    this.#root = registries;
  }

  get blobs(): string {
    return join(this.#root, "blobs");
  }

  blob({ sha256 }: RegistryBlob): string {
    return join(this.blobs, `sha256-${sha256}`);
  }

  folder({ host = DEFAULT_HOST, namespace, model, tag }: RegistryName): string {
    return join(this.#root, "models", host.replace(":", "+"), namespace, model, tag);
  }

  /** The GGUF file, under a name that ends in .gguf. */
  modelPath(name: RegistryName): string {
    return join(this.folder(name), MODEL);
  }

  /** Undefined when a blob is missing. */
  async read(name: RegistryName): Promise<RegistryManifest | undefined> {
    const manifest = await readManifest(join(this.folder(name), MANIFEST));
    if (manifest === undefined) return undefined;
    const { model, params, system } = manifest;
    const needed = [model, params, system].filter((blob) => blob !== undefined);
    return needed.every((blob) => existsSync(this.blob(blob))) && existsSync(this.modelPath(name))
      ? manifest
      : undefined;
  }

  /** Makes the model visible: all blobs are there. */
  async write(name: RegistryName, json: unknown, { model }: RegistryManifest): Promise<void> {
    const path = this.modelPath(name);
    await mkdir(dirname(path), { recursive: true });
    await rm(path, { force: true });
    await symlink(relative(dirname(path), this.blob(model)), path);
    await writeFileAtomically(join(this.folder(name), MANIFEST), `${JSON.stringify(json)}\n`);
  }

  /** Text of a small blob; empty when there is none. */
  async text(blob: RegistryBlob | undefined): Promise<string> {
    return blob === undefined ? "" : readFile(this.blob(blob), "utf8");
  }

  async all(): Promise<readonly StoredRegistryModel[]> {
    const root = join(this.#root, "models");
    const paths = await readdir(root, { recursive: true }).catch((): string[] => []);
    const found = await Promise.all(
      paths
        .filter((path) => path.endsWith(`/${MANIFEST}`))
        .map(async (path) => storedModel(join(root, dirname(path)), dirname(path))),
    );
    return found.flat();
  }

  /** The name, and the blobs that no other name has. */
  async remove(folder: string): Promise<void> {
    await using _lock = await TargetLock.acquire(this.blobs); // parts of a download are no rest
    await rm(folder, { recursive: true, force: true });
    const others = (await this.all()).flatMap(({ manifest: { model, params, system } }) => [model, params, system]);
    const kept = new Set(others.flatMap((blob) => (blob === undefined ? [] : [`sha256-${blob.sha256}`])));
    for (const name of await readdir(this.blobs).catch((): string[] => [])) {
      if (!kept.has(name)) await rm(join(this.blobs, name), { force: true });
    }
  }
}

async function storedModel(folder: string, path: string): Promise<readonly StoredRegistryModel[]> {
  const manifest = await readManifest(join(folder, MANIFEST));
  const [host = "", namespace = "", model = "", tag = ""] = path.split("/");
  if (manifest === undefined) return [];
  const isDefault = host === DEFAULT_HOST;
  const owner =
    isDefault && namespace === "library"
      ? ""
      : `ollama:${isDefault ? "" : `//${host.replace("+", ":")}/`}${namespace}/`;
  return [{ name: `${owner}${model}:${tag}`, folder, manifest }];
}

async function readManifest(path: string): Promise<RegistryManifest | undefined> {
  try {
    return parseManifest(JSON.parse(await readFile(path, "utf8")), path);
  } catch {
    return undefined; // not fetched yet, or cut off: it is fetched again
  }
}
