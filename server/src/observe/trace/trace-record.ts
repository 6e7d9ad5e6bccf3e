/**
 * Events of one sampled request and of those that it caused. Its owner gets the whole tree once, when every holder has
 * released it. Knows no file and no collector.
 */
import { MAX_TRACE_MOMENTS, MAX_TREE_TRACES } from "../../core/limits.ts";
import type { RequestTrace, TensorMoment, TraceMoment } from "../../core/request-trace.ts";
import type { Tensor } from "../../core/tensor.ts";
import { type TensorText, tensorText } from "./trace-tensor-text.ts";

export interface TraceNode {
  readonly id: number;
  /** 0: the client's request. */
  readonly parentId: number;
  readonly modelName: string;
  /** "" until a model has taken the request. */
  readonly modelVersion: string;
  readonly requestId: string;
  readonly moments: readonly { readonly name: TraceMoment; readonly atMs: number }[];
  readonly tensors: readonly { readonly moment: TensorMoment; readonly tensor: TensorText }[];
}

export interface TraceTreeOptions {
  readonly nextId: () => number;
  readonly keepsMoments: boolean;
  readonly keepsTensors: boolean;
  /** The W3C context that the request propagates; undefined when it is not propagated. */
  readonly contextOf: (id: number) => string | undefined;
  /** The client's request first. */
  readonly onComplete: (nodes: readonly TraceNode[]) => void;
}

/** Starts a tree; the caller holds the root trace and must release it. */
export function createTraceTree(modelName: string, options: TraceTreeOptions): RequestTrace {
  const tree = new TraceTree(options);
  const root = new RecordedTrace(tree, 0, modelName);
  root.hold();
  return root;
}

class TraceTree {
  readonly options: TraceTreeOptions;
  readonly #nodes: TraceNode[] = [];
  #isComplete = false;
  #numHolders = 0;

  constructor(options: TraceTreeOptions) {
    this.options = options;
  }

  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** False when the trace is complete or full. */
  add(node: TraceNode): boolean {
    if (this.#isComplete || this.#nodes.length >= MAX_TREE_TRACES) return false;
    this.#nodes.push(node);
    return true;
  }

  hold(): void {
    this.#numHolders += 1;
  }

  release(): void {
    this.#numHolders -= 1;
    if (this.#numHolders > 0 || this.#isComplete) return;
    this.#isComplete = true;
    this.options.onComplete(this.#nodes);
  }
}

type Draft = { -readonly [K in keyof TraceNode]: TraceNode[K] } & {
  readonly moments: TraceNode["moments"][number][];
  readonly tensors: TraceNode["tensors"][number][];
};

class RecordedTrace implements RequestTrace {
  readonly #tree: TraceTree;
  readonly #node: Draft;
  #numHolds = 0;
  #isKept = false;

  constructor(tree: TraceTree, parentId: number, modelName: string) {
    this.#tree = tree;
    const id = tree.options.nextId();
    this.#node = { id, parentId, modelName, modelVersion: "", requestId: "", moments: [], tensors: [] };
  }

  get context(): string | undefined {
    return this.#tree.options.contextOf(this.#node.id);
  }

  mark(name: TraceMoment, atMs: number): void {
    const { moments } = this.#node;
    if (!this.#tree.options.keepsMoments || this.#tree.isComplete || moments.length >= MAX_TRACE_MOMENTS) return;
    moments.push({ name, atMs });
  }

  tensors(moment: TensorMoment, tensors: readonly Tensor[]): void {
    const kept = this.#node.tensors;
    if (!this.#tree.options.keepsTensors || this.#tree.isComplete || kept.length >= MAX_TRACE_MOMENTS) return;
    for (const tensor of tensors) kept.push({ moment, tensor: tensorText(tensor) });
  }

  begin(modelVersion: string, requestId: string, atMs: number): void {
    this.#node.modelVersion = modelVersion;
    this.#node.requestId = requestId;
    this.hold();
    this.mark("REQUEST_START", atMs);
  }

  hold(): void {
    this.#isKept ||= this.#tree.add(this.#node);
    if (!this.#isKept) return;
    this.#numHolds += 1;
    this.#tree.hold();
  }

  end(): void {
    if (this.#numHolds === 0) return;
    this.#numHolds -= 1;
    this.#tree.release();
  }

  child(modelName: string): RequestTrace {
    return new RecordedTrace(this.#tree, this.#node.id, modelName);
  }
}
