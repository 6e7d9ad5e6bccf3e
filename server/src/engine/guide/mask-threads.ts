/** Spreads sessions over mask threads. A thread that dies costs the session that it worked for; others move on. */
import { availableParallelism } from "node:os";
import type { GuideVocabulary } from "./guide-vocabulary.ts";
import type { MaskThreadOptions } from "./mask-messages.ts";
import { MaskSession, type SessionGuide } from "./mask-session.ts";
import { type BatchTicket, MaskThreadHost } from "./mask-thread-host.ts";

const MAX_THREADS = 8;
/** With more sessions for each thread a further one starts. */
const SESSIONS_FOR_THREAD = 8;

export class MaskThreads {
  readonly #data: MaskThreadOptions;
  readonly maxThreads: number;
  readonly #threads = new Set<MaskThreadHost>();
  readonly #sessions = new Map<number, MaskSession>();
  /** Once the first thread has read it. */
  #vocabulary: GuideVocabulary | undefined;
  #nextSession = 1;
  #closed: Error | undefined;

  constructor({ maxThreads, ...data }: MaskThreadOptions & { readonly maxThreads?: number }) {
    this.#data = data;
    this.maxThreads = maxThreads ?? Math.max(1, Math.min(MAX_THREADS, Math.floor(availableParallelism() / 2)));
  }

  /** Sessions for which all threads run. */
  get manySessions(): number {
    return this.maxThreads * SESSIONS_FOR_THREAD;
  }

  /** A session with its first mask. @throws Error when its guide has none */
  async open(guide: SessionGuide): Promise<MaskSession> {
    if (this.#closed !== undefined) throw this.#closed;
    const thread = this.#thread();
    const session = new MaskSession(this.#nextSession++, guide, this.#data, thread, (each) => this.#drop(each));
    this.#sessions.set(session.id, session);
    try {
      await session.opened();
    } catch (error) {
      this.#drop(session);
      throw error;
    }
    return session;
  }

  close(error: Error): void {
    this.#closed = error;
    for (const thread of this.#threads) thread.end(error);
  }

  /** The ready thread with the fewest sessions. Further ones start meanwhile when they are many. */
  #thread(): MaskThreadHost {
    const threads = [...this.#shares(({ thread }) => thread)].sort(([a, as], [b, bs]) => {
      return Number(b.isReady) - Number(a.isReady) || as.length - bs.length;
    });
    const [first = this.#start()] = threads.map(([thread]) => thread);
    this.#startWanted();
    return first;
  }

  /** They wait for the first one, which reads the vocabulary for all. */
  #startWanted(): void {
    if (this.#vocabulary === undefined || this.#closed !== undefined) return;
    const wanted = Math.min(this.maxThreads, Math.ceil((this.#sessions.size + 1) / SESSIONS_FOR_THREAD));
    while (this.#threads.size < wanted) this.#start();
  }

  /** The sessions of each thread. */
  #shares(threadOf: (session: MaskSession) => MaskThreadHost): Map<MaskThreadHost, MaskSession[]> {
    const shares = new Map([...this.#threads].map((thread): [MaskThreadHost, MaskSession[]] => [thread, []]));
    for (const session of this.#sessions.values()) shares.get(threadOf(session))?.push(session);
    return shares;
  }

  #start(): MaskThreadHost {
    const thread: MaskThreadHost = new MaskThreadHost(
      { ...this.#data, vocabulary: this.#vocabulary },
      {
        failed: (failure) => this.#sessions.get(failure.session)?.failed(failure),
        ready: (vocabulary) => this.#onReady(vocabulary),
        ended: (session, tickets, error) => this.#onEnd(thread, session, tickets, error),
      },
    );
    this.#threads.add(thread);
    return thread;
  }

  #onReady(vocabulary: GuideVocabulary): void {
    this.#vocabulary = vocabulary;
    this.#startWanted();
    this.#balance();
  }

  /** Sessions move to threads that were not ready when they were opened, or whose own have ended. */
  #balance(): void {
    const shares = [...this.#shares(({ thread, nextThread }) => nextThread ?? thread)];
    const sorted = shares.filter(([{ isReady }]) => isReady).sort(([, a], [, b]) => a.length - b.length);
    const [emptiest] = sorted;
    const fullest = sorted.at(-1);
    if (emptiest === undefined || fullest === undefined) return;
    const [thread, few] = emptiest;
    const [, many] = fullest;
    const count = Math.floor((many.length - few.length) / 2);
    for (const session of many.slice(0, count)) session.nextThread = thread === session.thread ? undefined : thread;
    if (count > 0) this.#balance();
  }

  #onEnd(thread: MaskThreadHost, culprit: number, tickets: readonly BatchTicket[], error: Error): void {
    const sessions = [...this.#sessions.values()].filter((session) => session.thread === thread);
    this.#threads.delete(thread);
    for (const session of this.#sessions.values()) if (session.nextThread === thread) session.nextThread = undefined;
    this.#sessions.get(culprit)?.fail(this.#closed ?? error);
    const isLost = this.#closed !== undefined || (culprit === 0 && !thread.isReady);
    for (const session of sessions) {
      if (isLost) session.fail(this.#closed ?? error);
      else if (session.failure === undefined) this.#move(session);
    }
    for (const ticket of tickets) ticket.finish();
  }

  #move(session: MaskSession): void {
    session.moveTo(this.#thread());
  }

  #drop(session: MaskSession): void {
    this.#sessions.delete(session.id);
    this.#balance();
  }
}
