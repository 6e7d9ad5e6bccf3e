/**
 * An OCI image of one layer as a tar file, from a root file system in a folder: no daemon, equal bytes for equal files.
 * Source: OCI image specification 1.1, image-layout.md, manifest.md and config.md.
 */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, mkdtemp, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { ImageSettings } from "./steps.ts";

const MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip";
const NS_PER_S = 1e9;

export interface OciImage {
  readonly rootfs: string;
  readonly settings: ImageSettings;
  /** `amd64` or `arm64`. */
  readonly architecture: string;
  /** Name of the image inside of the file, such as `nereid:0.1.0`. */
  readonly name: string;
  readonly created: Date;
}

interface Blob {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** Size of the layer, packed. Writes `target` whole or not at all. */
export async function writeOciImage(image: OciImage, target: string): Promise<{ readonly layerBytes: number }> {
  const file = resolve(target);
  await mkdir(dirname(file), { recursive: true });
  const layout = await mkdtemp(join(dirname(file), ".oci-"));
  try {
    await mkdir(join(layout, "blobs", "sha256"), { recursive: true });
    const { layer, diffId } = await writeLayer(image, layout);
    const config = await writeJson(layout, CONFIG_TYPE, configOf(image, diffId));
    const manifest = await writeJson(layout, MANIFEST_TYPE, {
      schemaVersion: 2,
      mediaType: MANIFEST_TYPE,
      config,
      layers: [layer],
    });
    const annotations = { "org.opencontainers.image.ref.name": image.name };
    await writeFile(join(layout, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
    await writeFile(
      join(layout, "index.json"),
      JSON.stringify({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }),
    );
    await tar(["-cf", `${file}.part`, ...sortedTar(image.created), "-C", layout, "oci-layout", "index.json", "blobs"]);
    await rename(`${file}.part`, file);
    return { layerBytes: layer.size };
  } finally {
    await rm(layout, { recursive: true, force: true });
    await rm(`${file}.part`, { force: true });
  }
}

export function configOf({ settings, architecture, created }: OciImage, diffId: string): Record<string, unknown> {
  return {
    created: created.toISOString(),
    architecture,
    os: "linux",
    config: {
      User: settings.user,
      ExposedPorts: Object.fromEntries(settings.ports.map((port) => [`${port}/tcp`, {}])),
      Env: Object.entries(settings.env).map(([name, value]) => `${name}=${value}`),
      Entrypoint: settings.entrypoint,
      Cmd: settings.command,
      WorkingDir: settings.workFolder,
      Labels: settings.labels,
      StopSignal: settings.stopSignal,
      // Docker's extension to the configuration of OCI.
      Healthcheck: {
        Test: ["CMD", ...settings.healthcheck],
        ...{ Interval: 10 * NS_PER_S, Timeout: 5 * NS_PER_S, StartPeriod: 300 * NS_PER_S },
      },
    },
    rootfs: { type: "layers", diff_ids: [diffId] },
    history: [{ created: created.toISOString(), created_by: "nereid tools/container" }],
  };
}

function sortedTar(created: Date): readonly string[] {
  const time = `--mtime=@${Math.floor(created.getTime() / 1000)}`;
  return ["--sort=name", time, "--owner=0", "--group=0", "--numeric-owner", "--format=posix", ...NO_TIMES];
}

/** Access and change times would differ from run to run. */
const NO_TIMES = ["--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime"];

async function writeLayer(
  { rootfs, created }: OciImage,
  layout: string,
): Promise<{ readonly layer: Blob; readonly diffId: string }> {
  const part = join(layout, "blobs", "layer");
  const child = spawn("tar", ["-c", ...sortedTar(created), "-C", rootfs, "."], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const plain = createHash("sha256");
  child.stdout.on("data", (chunk: Buffer) => plain.update(chunk));
  const ended = once(child, "exit");
  await pipeline(child.stdout, createGzip({ level: 6 }), createWriteStream(part));
  const [code] = (await ended) as [number | null];
  if (code !== 0) throw new Error(`tar of ${rootfs}: expected exit code 0, got ${code}`);
  const packed = createHash("sha256");
  for await (const chunk of createReadStream(part)) packed.update(chunk as Buffer);
  const hex = packed.digest("hex");
  const { size } = await stat(part);
  await rename(part, join(layout, "blobs", "sha256", hex));
  return {
    layer: { mediaType: LAYER_TYPE, digest: `sha256:${hex}`, size },
    diffId: `sha256:${plain.digest("hex")}`,
  };
}

async function writeJson(layout: string, mediaType: string, value: unknown): Promise<Blob> {
  const text = JSON.stringify(value);
  const hex = createHash("sha256").update(text).digest("hex");
  await writeFile(join(layout, "blobs", "sha256", hex), text);
  return { mediaType, digest: `sha256:${hex}`, size: Buffer.byteLength(text) };
}

async function tar(args: readonly string[]): Promise<void> {
  const child = spawn("tar", [...args], { stdio: ["ignore", "inherit", "inherit"] });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`tar ${args.join(" ")}: expected exit code 0, got ${code}`);
}
