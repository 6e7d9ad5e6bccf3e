/** The process that decodes pictures, from the server's side. Decoders read hostile bytes in C: they share no memory with it. */
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Logger } from "@nereid/server/observe/log";
import { HelperProcess } from "@nereid/server/worker-process/worker-process";
import type { PictureData, PictureResult } from "./messages.ts";

export class PictureProcess {
  readonly #helper: HelperProcess;

  constructor(data: PictureData, log: Logger) {
    this.#helper = new HelperProcess({
      program: fileURLToPath(new URL(`./picture-worker${extname(import.meta.url)}`, import.meta.url)),
      data,
      title: "the process that decodes pictures",
      log: (message) => log.error("image", message),
    });
  }

  /** @throws ServerError when pictures can not be decoded here */
  start(): Promise<void> {
    return this.#helper.start();
  }

  /** @throws ServerError naming the picture that is wrong */
  async process(pictures: readonly Uint8Array[]): Promise<PictureResult> {
    return (await this.#helper.call(pictures)) as PictureResult;
  }

  close(): Promise<void> {
    return this.#helper.close();
  }
}
