/**
 * Lines of the output and error file while a batch runs. Both grow by whole lines, so that a restarted server knows which
 * requests are answered. Source: OpenAI's API reference, "The request output object".
 */
import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { object, required, string } from "../../api/schema.ts";
import type { FileStore } from "../files/file-store.ts";
import { linesOf } from "./input-lines.ts";

export type ResultKind = "output" | "error";

export interface RequestResult {
  readonly customId: string;
  /** Undefined: the request was not run. */
  readonly response: { readonly status: number; readonly requestId: string; readonly body: string } | undefined;
  readonly error: { readonly code: string; readonly message: string } | undefined;
}

const LINE = object<{ readonly custom_id: string }>({ custom_id: required(string()) });

export class BatchResults {
  readonly #files: FileStore;
  readonly #ids = new Set<string>();
  readonly #output: ResultFile;
  readonly #error: ResultFile;

  private constructor(files: FileStore, output: ResultFile, error: ResultFile) {
    this.#files = files;
    this.#output = output;
    this.#error = error;
  }

  /** Goes on behind the last whole line that an earlier server wrote. */
  static async open(folder: string, id: string, files: FileStore): Promise<BatchResults> {
    const [output, error] = await Promise.all([
      ResultFile.open(join(folder, `${id}.output.jsonl`)),
      ResultFile.open(join(folder, `${id}.error.jsonl`)),
    ]);
    const results = new BatchResults(files, output, error);
    files.grow(output.bytes + error.bytes);
    for (const each of [...output.ids, ...error.ids]) results.#ids.add(each);
    return results;
  }

  has(customId: string): boolean {
    return this.#ids.has(customId);
  }

  get numCompleted(): number {
    return this.#output.ids.length;
  }

  get numFailed(): number {
    return this.#error.ids.length;
  }

  /** @throws ApiError when the store of files is full */
  async add(result: RequestResult): Promise<void> {
    const isGood = result.response !== undefined && result.response.status < 400;
    const line = Buffer.from(lineOf(result));
    this.#files.grow(line.length);
    this.#ids.add(result.customId);
    await (isGood ? this.#output : this.#error).add(result.customId, line);
  }

  /** The files that have lines become files of the owner. */
  async finish(
    adopt: (kind: ResultKind, path: string, bytes: number) => Promise<string>,
  ): Promise<Record<ResultKind, string | undefined>> {
    await this.close();
    const take = async (kind: ResultKind, { path, bytes }: ResultFile): Promise<string | undefined> => {
      if (bytes > 0) return adopt(kind, path, bytes);
      await rm(path, { force: true });
      return undefined;
    };
    return { output: await take("output", this.#output), error: await take("error", this.#error) };
  }

  async close(): Promise<void> {
    await this.#output.close();
    await this.#error.close();
  }

  async discard(): Promise<void> {
    this.#files.shrink(this.#output.bytes + this.#error.bytes);
    await this.close();
    for (const { path } of [this.#output, this.#error]) await rm(path, { force: true });
  }
}

/** The body stays as the route wrote it. */
function lineOf({ customId, response, error }: RequestResult): string {
  const head = `{"id":"batch_req_${randomUUID().replaceAll("-", "")}","custom_id":${JSON.stringify(customId)}`;
  const answer =
    response === undefined
      ? "null"
      : `{"status_code":${response.status},"request_id":${JSON.stringify(response.requestId)},"body":${response.body}}`;
  return `${head},"response":${answer},"error":${JSON.stringify(error ?? null)}}\n`;
}

class ResultFile {
  readonly path: string;
  readonly ids: string[] = [];
  bytes = 0;
  readonly #file: FileHandle;
  /** Lines are written one after the other. */
  #last: Promise<void> = Promise.resolve();

  private constructor(path: string, file: FileHandle) {
    this.path = path;
    this.#file = file;
  }

  static async open(path: string): Promise<ResultFile> {
    const made = new ResultFile(path, await open(path, "a", 0o600));
    for await (const { text, end, isWhole } of linesOf(createReadStream(path), Number.POSITIVE_INFINITY)) {
      if (!isWhole) break;
      made.ids.push(LINE.read(JSON.parse(text), "").custom_id);
      made.bytes = end;
    }
    await made.#file.truncate(made.bytes);
    return made;
  }

  add(customId: string, line: Uint8Array): Promise<void> {
    this.#last = this.#last.then(() => this.#file.appendFile(line));
    this.bytes += line.length;
    this.ids.push(customId);
    return this.#last;
  }

  async close(): Promise<void> {
    await this.#file.sync();
    await this.#file.close();
  }
}
