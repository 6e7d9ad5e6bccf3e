/** Finished traces under one set of settings; decides when and to which file they are written. */
import type { TraceFile } from "./trace-file.ts";
import type { TraceSampler } from "./trace-setting.ts";

/** Beyond this number, traces are written early, because they would fill the memory. */
const MAX_BUFFERED_CHARS: number = 4 * 1024 * 1024;

export class TraceBatch {
  readonly #file: Pick<TraceFile, "append" | "writeNumbered">;
  readonly #sampler: TraceSampler;
  readonly #logFrequency: number;
  #texts: string[] = [];
  #numChars = 0;
  #numRunning = 0;
  #isRetired = false;

  constructor(file: Pick<TraceFile, "append" | "writeNumbered">, sampler: TraceSampler) {
    this.#file = file;
    this.#sampler = sampler;
    this.#logFrequency = sampler.settings.logFrequency;
  }

  begun(): void {
    this.#numRunning += 1;
  }

  completed(text: string): void {
    this.#numRunning -= 1;
    if (text !== "") this.#texts.push(text); // a request refused early may have no events
    this.#numChars += text.length;
    const isLast = this.#numRunning === 0;
    if (this.#logFrequency > 0 && this.#texts.length >= this.#logFrequency) this.#write(true);
    else if (isLast && this.#sampler.isUsedUp) this.#write(true);
    else if ((isLast && this.#isRetired) || this.#numChars > MAX_BUFFERED_CHARS) this.#write(this.#logFrequency > 0);
  }

  /** The settings are replaced or the server stops: writes finished traces; running ones follow. */
  retire(): void {
    this.#isRetired = true;
    this.#write(this.#logFrequency > 0);
  }

  #write(isNumbered: boolean): void {
    if (this.#texts.length === 0) return;
    const elements = this.#texts.join(",");
    this.#texts = [];
    this.#numChars = 0;
    if (isNumbered) this.#file.writeNumbered(elements);
    else this.#file.append(elements);
  }
}
