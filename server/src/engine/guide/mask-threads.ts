/** Spreads sessions over mask threads. A thread that dies costs the session that it worked for; others move on. */
import { availableParallelism } from "node:os";
import type { MaskThreadData } from "./mask-messages.ts";
import { MaskSession, type SessionGuide } from "./mask-session.ts";
import { type BatchTicket, MaskThreadHost } from "./mask-thread-host.ts";

const MAX_THREADS = 4;
/** With more sessions for each thread a further one starts. */
const SESSIONS_FOR_THREAD = 8;

export class MaskThreads {
  readonly #data: Omit<MaskThreadData, "current">;
  readonly #maxThreads: number;
  readonly #threads = new Map<MaskThreadHost, Set<MaskSession>>();
  readonly #sessions = new Map<number, MaskSession>();
  #nextSession = 1;
  #closed: Error | undefined;

  constructor(data: Omit<MaskThreadData, "current">) {
    this.#data = data;
    this.#maxThreads = Math.max(1, Math.min(MAX_THREADS, Math.floor(availableParallelism() / 2)));
  }

  /** A session with its first mask. @throws Error when its guide has none */
  async open(guide: SessionGuide): Promise<MaskSession> {
    if (this.#closed !== undefined) throw this.#closed;
    const thread = this.#thread();
    const session = new MaskSession(this.#nextSession++, guide, this.#data.vocabSize, thread, (each) =>
      this.#drop(each),
    );
    this.#sessions.set(session.id, session);
    this.#threads.get(thread)?.add(session);
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
    for (const thread of this.#threads.keys()) thread.end(error);
  }

  /** The ready thread with the fewest sessions. A further one starts meanwhile when they are many. */
  #thread(): MaskThreadHost {
    const threads = [...this.#threads].sort(([a, as], [b, bs]) => {
      return Number(b.isReady) - Number(a.isReady) || as.size - bs.size;
    });
    const [first] = threads;
    const isFull = threads.every(([, { size }]) => size >= SESSIONS_FOR_THREAD);
    const further = isFull && threads.length < this.#maxThreads ? this.#start() : undefined;
    const chosen = first?.[0] ?? further ?? this.#start();
    return chosen;
  }

  #start(): MaskThreadHost {
    const thread: MaskThreadHost = new MaskThreadHost(this.#data, {
      failed: (failure) => this.#sessions.get(failure.session)?.failed(failure),
      ended: (session, tickets, error) => this.#onEnd(thread, session, tickets, error),
    });
    this.#threads.set(thread, new Set());
    return thread;
  }

  #onEnd(thread: MaskThreadHost, culprit: number, tickets: readonly BatchTicket[], error: Error): void {
    const sessions = this.#threads.get(thread) ?? new Set();
    this.#threads.delete(thread);
    this.#sessions.get(culprit)?.fail(this.#closed ?? error);
    const isLost = this.#closed !== undefined || (culprit === 0 && !thread.isReady);
    for (const session of sessions) {
      if (isLost) session.fail(this.#closed ?? error);
      else if (session.failure === undefined) this.#move(session);
    }
    for (const ticket of tickets) ticket.finish();
  }

  #move(session: MaskSession): void {
    const thread = this.#thread();
    this.#threads.get(thread)?.add(session);
    session.moveTo(thread);
  }

  #drop(session: MaskSession): void {
    this.#sessions.delete(session.id);
    this.#threads.get(session.thread)?.delete(session);
  }
}
