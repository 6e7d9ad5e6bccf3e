/**
 * The server's side of the image decoding process. Decoders parse hostile bytes in C, so they share no memory with the
 * server.
 */
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Logger } from "@nereid/server/observe/log";
import { WorkerProcess } from "@nereid/server/worker-process/worker-process";
import type { ImageData, ImageResult } from "./messages.ts";

export class ImageProcess {
  readonly #worker: WorkerProcess;

  constructor(data: ImageData, log: Logger) {
    this.#worker = new WorkerProcess({
      program: fileURLToPath(new URL(`./image-worker${extname(import.meta.url)}`, import.meta.url)),
      data,
      title: "the process that decodes images",
      log: (message) => log.error("image", message),
    });
  }

  /** @throws ServerError when images cannot be decoded here */
  start(): Promise<void> {
    return this.#worker.start();
  }

  /** @throws ServerError naming the invalid image */
  async process(images: readonly Uint8Array[]): Promise<ImageResult> {
    return (await this.#worker.call(images)) as ImageResult;
  }

  close(): Promise<void> {
    return this.#worker.close();
  }
}
