/** Requests of a Python model to the server beside inference: model control and metrics. Message in, message out. */
import type { LoadOptions } from "../../core/model-server.ts";
import { ServerError } from "../../core/server-error.ts";
import { encodeAnswer, type Frame } from "./messages.ts";
import type { OwnedMetrics } from "./owned-metrics.ts";
import type { FrameReader } from "./wire-codec.ts";

const LOAD_MODEL = 1;
const UNLOAD_MODEL = 2;
const MODEL_READY = 3;
const NEW_FAMILY = 4;
const NEW_METRIC = 5;
const METRIC_VALUE = 6;
const DROP_FAMILY = 65;
const DROP_METRIC = 66;
const INCREMENT_METRIC = 67;
const SET_METRIC = 68;
const OBSERVE_METRIC = 69;

/** The server's repository, as far as models may use it. All of them reject or throw with ServerError. */
export interface ModelControl {
  load(name: string, options: LoadOptions): Promise<void>;
  unload(name: string, unloadDependents: boolean): Promise<void>;
  modelReady(name: string, version: string): Promise<boolean>;
}

export class Questions {
  readonly #control: ModelControl | undefined;

  /** Without a control, models get an error that says so. */
  constructor(control: ModelControl | undefined) {
    this.#control = control;
  }

  /** Every question gets one answer, however it ends. @throws RangeError when the message is none */
  take(reader: FrameReader, metrics: OwnedMetrics, send: (frame: Frame) => void): void {
    const number = reader.u32();
    const what = reader.u8();
    if (number === 0) {
      told(what, reader, metrics);
      return;
    }
    try {
      const answer = this.#answer(what, reader, metrics);
      if (typeof answer === "number") send(encodeAnswer(number, answer));
      else void answer.then((result) => send(encodeAnswer(number, result)));
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      send(encodeAnswer(number, error));
    }
  }

  #answer(what: number, reader: FrameReader, metrics: OwnedMetrics): number | Promise<number | ServerError> {
    if (what === NEW_FAMILY) metrics.newFamily(reader);
    else if (what === NEW_METRIC) metrics.newMetric(reader);
    else if (what === METRIC_VALUE) return metrics.series(reader.u32()).value;
    else return settled(this.#control === undefined ? refused() : controlled(what, reader, this.#control));
    return 0;
  }
}

function controlled(what: number, reader: FrameReader, control: ModelControl): Promise<number> {
  const name = reader.string();
  if (what === UNLOAD_MODEL) return control.unload(name, reader.bool()).then(() => 0);
  if (what === MODEL_READY) return control.modelReady(name, reader.string()).then((isReady) => (isReady ? 1 : 0));
  if (what !== LOAD_MODEL) throw new RangeError(`unknown question ${what}`);
  const config = reader.string();
  // Copies: the message's memory is not kept for as long as a load may take.
  const files = new Map(reader.list((): [string, Uint8Array] => [reader.string(), Uint8Array.from(reader.data())]));
  const options: LoadOptions = { ...(config === "" ? {} : { config }), ...(files.size === 0 ? {} : { files }) };
  return control.load(name, options).then(() => 0);
}

function told(what: number, reader: FrameReader, metrics: OwnedMetrics): void {
  const number = reader.u32();
  if (what === DROP_FAMILY) metrics.dropFamily(number);
  else if (what === DROP_METRIC) metrics.dropMetric(number);
  else changed(what, number, reader.f64(), metrics);
}

function changed(what: number, number: number, amount: number, metrics: OwnedMetrics): void {
  const series = metrics.series(number);
  if (what === INCREMENT_METRIC) series.value += amount;
  else if (what === SET_METRIC) series.value = amount;
  else if (what === OBSERVE_METRIC) series.histogram?.observe(amount);
  else throw new RangeError(`unknown statement ${what}`);
}

function refused(): Promise<number> {
  return Promise.reject(new ServerError("unsupported", "this server lets no model control other models"));
}

function settled(answer: Promise<number>): Promise<number | ServerError> {
  return answer.catch((error: unknown) => ServerError.from(error));
}
