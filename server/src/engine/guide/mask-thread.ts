/**
 * A thread that makes masks: jobs to the sessions, and answers back. Masks of running texts come before new guides, since
 * each step of the engine waits for them.
 */
import { parentPort, workerData } from "node:worker_threads";
import { readTokenizerFiles } from "../../formats/tokenizer/tokenizer-files.ts";
import { type GuideVocabulary, shareVocabulary } from "./guide-vocabulary.ts";
import type { MaskAnswer, MaskFailure, MaskJob, MaskThreadData, MaskThreadReady } from "./mask-messages.ts";
import { MaskSessions } from "./mask-sessions.ts";
import { readVocabulary } from "./tokenizer-vocabulary.ts";

type Opening = Extract<MaskJob, { open: unknown }>;

const data = workerData as MaskThreadData;

class MaskThread {
  readonly #sessions: MaskSessions;
  readonly #openings: Opening[] = [];

  constructor(sessions: MaskSessions) {
    this.#sessions = sessions;
  }

  take(job: MaskJob): void {
    if ("open" in job) this.#queue(job);
    else {
      this.#openFirst(job.steps);
      answer(job.id, this.#sessions.run(job.steps));
    }
  }

  /** One guide in each turn of the event loop, so that steps come in between. */
  #queue(job: Opening): void {
    this.#openings.push(job);
    if (this.#openings.length === 1) setImmediate(() => this.#openNext());
  }

  #openNext(): void {
    this.#open(this.#openings[0]);
    if (this.#openings.length > 0) setImmediate(() => this.#openNext());
  }

  /** A session that moved here from another thread may have steps before its turn. */
  #openFirst(steps: Int32Array): void {
    for (const job of [...this.#openings]) {
      if (steps.some((session, i) => i % 2 === 0 && session === job.open.session)) this.#open(job);
    }
  }

  #open(job: Opening | undefined): void {
    if (job === undefined) return;
    this.#openings.splice(this.#openings.indexOf(job), 1);
    answer(job.id, this.#sessions.open(job.open));
  }
}

function answer(id: number, failures: readonly MaskFailure[]): void {
  parentPort?.postMessage({ id, failures } satisfies MaskAnswer);
}

async function readGuideVocabulary({ tokenizerDir, vocabSize }: MaskThreadData): Promise<GuideVocabulary> {
  const { tokenizer } = await readTokenizerFiles(tokenizerDir);
  return shareVocabulary(readVocabulary(tokenizer), vocabSize);
}

async function main(): Promise<void> {
  const vocabulary = data.vocabulary ?? (await readGuideVocabulary(data));
  const thread = new MaskThread(new MaskSessions(vocabulary, data));
  parentPort?.on("message", (job: MaskJob) => thread.take(job));
  parentPort?.postMessage({ vocabulary } satisfies MaskThreadReady);
}

await main();
