/** Graphs of an emulated GPU: while one is recorded, calls are kept and not made; to launch it makes them in order. */

type Call = () => void;

export class EmulatedGraphs {
  /** Graphs that were recorded so far. */
  numRecorded = 0;
  #recording: Call[] | undefined;
  readonly #graphs = new Map<bigint, readonly Call[]>();

  /** The part of a driver that graphs use. */
  readonly driver = {
    version: 0,
    check: (status: number, what: string): void => {
      if (status !== 0) throw new Error(`${what}: status ${status}`);
    },
    calls: {
      beginCapture: (): number => {
        this.#recording = [];
        return 0;
      },
      endCapture: (_stream: bigint, graph: BigUint64Array): number => {
        this.numRecorded += 1;
        graph[0] = BigInt(this.numRecorded);
        this.#graphs.set(BigInt(this.numRecorded), this.#recording ?? []);
        this.#recording = undefined;
        return 0;
      },
      instantiateGraph: (executable: BigUint64Array, graph: bigint): number => {
        executable[0] = graph;
        return 0;
      },
      destroyGraph: (): number => 0,
      destroyExecutable: (executable: bigint): number => {
        this.#graphs.delete(executable);
        return 0;
      },
      launchGraph: (executable: bigint): number => {
        for (const call of this.#graphs.get(executable) ?? []) call();
        return 0;
      },
    },
  };

  /** Now, or with the graph that is being recorded. */
  call(call: Call): void {
    if (this.#recording === undefined) call();
    else this.#recording.push(call);
  }
}
