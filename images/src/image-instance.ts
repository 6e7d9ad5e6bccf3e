/**
 * One instance of an image model: reads the images of a request, decodes them in the worker process, and returns pixel
 * values. Requests with URLs are answered later, so that others need not wait for remote servers.
 */

import type { BackendRequest, Batch, ModelInstance } from "@nereid/server/backend/backend";
import { bytesElements } from "@nereid/server/core/bytes-tensor";
import { MAX_IMAGE_FETCHES, MAX_IMAGES, MAX_PIXEL_VALUES_BYTES } from "@nereid/server/core/limits";
import { invalidArgument, ServerError } from "@nereid/server/core/server-error";
import type { Tensor } from "@nereid/server/core/tensor";
import { fetchImage } from "./fetch-image.ts";
import type { ImageProcess } from "./image-process.ts";
import type { ImageSettings, IntOutput } from "./image-settings.ts";
import { expectDecodable, type ImageSource, readImageSource } from "./image-source.ts";
import type { ImageResult } from "./messages.ts";
import { POSITION_AXES, patchPositions } from "./patch-positions.ts";

type Outputs = () => void;

export class ImageInstance implements ModelInstance {
  readonly name: string;
  readonly answersLater = true;
  readonly #settings: ImageSettings;
  readonly #process: ImageProcess;
  readonly #fetching = new Set<Promise<void>>();
  readonly #closing = new AbortController();

  constructor(name: string, settings: ImageSettings, decoder: ImageProcess) {
    this.name = name;
    this.#settings = settings;
    this.#process = decoder;
  }

  async execute(batch: Batch): Promise<void> {
    batch.computeStarted();
    const answers = await Promise.all(batch.requests.map((request) => this.#start(request)));
    batch.computeEnded();
    for (const answer of answers) answer?.();
  }

  isReady(): boolean {
    return true;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#fetching);
    await this.#process.close();
  }

  /** Undefined: the request is answered later. */
  async #start(request: BackendRequest): Promise<Outputs | undefined> {
    try {
      const sources = this.#sources(request);
      if (sources.every(({ kind }) => kind === "file")) return await this.#answer(request, sources);
      this.#answerLater(request, sources);
      return undefined;
    } catch (error) {
      return () => request.fail(ServerError.from(error));
    }
  }

  #answerLater(request: BackendRequest, sources: readonly ImageSource[]): void {
    if (this.#fetching.size >= MAX_IMAGE_FETCHES) {
      throw new ServerError("unavailable", `${MAX_IMAGE_FETCHES} requests wait for images from elsewhere; try again`);
    }
    const work = this.#answer(request, sources)
      .catch(
        (error: unknown): Outputs =>
          () =>
            request.fail(ServerError.from(error)),
      )
      .then((answer) => answer());
    this.#fetching.add(work);
    void work.finally(() => this.#fetching.delete(work));
  }

  #sources({ request }: BackendRequest): readonly ImageSource[] {
    const tensor = request.inputs.find(({ name }) => name === this.#settings.input);
    const elements = tensor === undefined ? [] : bytesElements(tensor);
    if (elements.length === 0 || elements.length > MAX_IMAGES) {
      throw invalidArgument(
        `input '${this.#settings.input}' has ${elements.length} images, expected 1 to ${MAX_IMAGES}`,
      );
    }
    return elements.map((element, index) => this.#numbered(index, () => this.#source(element)));
  }

  #source(element: Uint8Array): ImageSource {
    const source = readImageSource(element);
    if (source.kind === "file") expectDecodable(source.bytes, this.#settings.maxPixels);
    else if (this.#settings.fetching === undefined) {
      throw invalidArgument(
        "is an address: this model fetches none (parameter 'image_urls'); send the file or its base64",
      );
    }
    return source;
  }

  async #answer(request: BackendRequest, sources: readonly ImageSource[]): Promise<Outputs> {
    const files = await Promise.all(sources.map((source, index) => this.#file(source, index, request)));
    const result = await this.#process.process(files).catch((error: unknown) => {
      const { code, message } = ServerError.from(error);
      throw new ServerError(
        code,
        code === "invalid_argument" ? `input '${this.#settings.input}': ${message}` : message,
      );
    });
    const outputs = this.#outputs(request, result);
    return () => request.respond({ outputs, final: true });
  }

  async #file(source: ImageSource, index: number, { request }: BackendRequest): Promise<Uint8Array<ArrayBuffer>> {
    const { fetching, maxPixels } = this.#settings;
    if (source.kind === "file") return source.bytes;
    if (fetching === undefined) throw invalidArgument("no images are fetched");
    try {
      const signal = AbortSignal.any([request.signal, this.#closing.signal]);
      const bytes = await fetchImage(source.url, fetching, signal);
      expectDecodable(bytes, maxPixels);
      return bytes;
    } catch (error) {
      throw this.#named(index, error);
    }
  }

  #numbered<T>(index: number, read: () => T): T {
    try {
      return read();
    } catch (error) {
      throw this.#named(index, error);
    }
  }

  #named(index: number, thrown: unknown): ServerError {
    const error = ServerError.from(thrown);
    if (error.code === "cancelled" || error.code === "internal") return error;
    return new ServerError(error.code, `input '${this.#settings.input}': image ${index} ${error.message}`, {
      cause: thrown,
    });
  }

  #outputs({ request }: BackendRequest, result: ImageResult): readonly Tensor[] {
    const { pixels, sizes, grids, order, lengths, positions, processing } = this.#settings;
    if (result.data.length > MAX_PIXEL_VALUES_BYTES) {
      throw invalidArgument(`images become ${result.data.length} bytes, expected at most ${MAX_PIXEL_VALUES_BYTES}`);
    }
    const given = request.inputs[0]?.shape ?? [];
    const isList = processing.patches !== undefined || processing.tiles !== undefined;
    const shape = isList ? result.shape : this.#pixelShape(given, result.shape);
    const outputs: Tensor[] = [{ name: pixels.name, datatype: pixels.type, shape, data: result.data }];
    if (sizes !== undefined) outputs.push(intTensor(sizes, given, result.sizes));
    if (grids !== undefined) outputs.push(intTensor(grids, given, result.grids));
    if (order !== undefined) outputs.push(intList(order, result.order, [result.order.length]));
    if (lengths !== undefined) outputs.push(intList(lengths, result.lengths, [result.lengths.length]));
    if (positions !== undefined) {
      const places = patchPositions(result.grids, processing.patches?.mergeSize ?? 1);
      outputs.push(intList(positions, places, [places.length / POSITION_AXES, POSITION_AXES]));
    }
    return outputs;
  }

  /** With one image per row, removes the dimension of 1, unless the configuration has it. */
  #pixelShape(given: readonly number[], image: readonly number[]): readonly number[] {
    const full = [...given, ...image];
    if (full.length === this.#settings.pixels.rank + 1 && given.at(-1) === 1) return [...given.slice(0, -1), ...image];
    return full;
  }
}

function intTensor({ name, type }: IntOutput, given: readonly number[], rows: readonly (readonly number[])[]): Tensor {
  const leading = given.length > 1 && given.at(-1) === 1 ? given.slice(0, -1) : given;
  return intList({ name, type }, rows.flat(), [...leading, rows[0]?.length ?? 0]);
}

function intList({ name, type }: IntOutput, list: ArrayLike<number>, shape: readonly number[]): Tensor {
  const values = type === "INT32" ? Int32Array.from(list) : BigInt64Array.from(Array.from(list), BigInt);
  return { name, datatype: type, shape, data: new Uint8Array(values.buffer) };
}
