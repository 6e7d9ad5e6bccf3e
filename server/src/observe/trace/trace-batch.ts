/** The finished traces of one set of settings, and the decision when they are written and into which file. */
import type { TraceFile } from "./trace-file.ts";
import type { TraceSampler } from "./trace-setting.ts";

/** Beyond, traces are written before their time: they would fill the memory of a server that runs for weeks. */
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
    if (text !== "") this.#texts.push(text); // a request refused early may leave nothing
    this.#numChars += text.length;
    const isLast = this.#numRunning === 0;
    if (this.#logFrequency > 0 && this.#texts.length >= this.#logFrequency) this.#write(true);
    else if (isLast && this.#sampler.isUsedUp) this.#write(true);
    else if ((isLast && this.#isRetired) || this.#numChars > MAX_BUFFERED_CHARS) this.#write(this.#logFrequency > 0);
  }

  /** The settings are replaced or the server ends: what is there is written, what still runs follows. */
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
