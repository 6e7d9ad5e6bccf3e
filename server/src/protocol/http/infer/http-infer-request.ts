/** The `InferRequest` of an HTTP call (KServe V2, HTTP/REST). Its abort signal is created on first use. */
import type {
  InferRequest,
  ParameterValue,
  RequestOrigin,
  SequenceInfo,
  TokenCounter,
} from "../../../core/infer-request.ts";
import { NO_PARAMETERS, NO_SEQUENCE } from "../../../core/infer-request.ts";
import type { RequestTrace } from "../../../core/request-trace.ts";
import type { Tensor } from "../../../core/tensor.ts";
import type { OutputTarget } from "../../request-memory.ts";
import type { HttpCall } from "../http-call.ts";

/** How an output is wanted. */
export interface HttpOutputForm {
  readonly isBinary: boolean;
  /** Number of classes; 0 = the tensor itself. */
  readonly numClasses: number;
  /** Set: the data go there, and the answer has none. */
  readonly target?: OutputTarget;
}

/** The decoded body of a request, independent of its encoding. */
export interface DecodedInfer {
  readonly id: string;
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly string[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly sequence: SequenceInfo;
  readonly priority: number;
  readonly timeoutUs: number;
  /** By name; outputs that are not here take `defaultForm`. */
  readonly forms: ReadonlyMap<string, HttpOutputForm>;
  readonly defaultForm: HttpOutputForm;
}

export const JSON_FORM: HttpOutputForm = { isBinary: false, numClasses: 0 };
export const BINARY_FORM: HttpOutputForm = { isBinary: true, numClasses: 0 };
export const NO_FORMS: ReadonlyMap<string, HttpOutputForm> = new Map();
/** Stands in for the id of the body. Source: tensorrtllm_backend, README, "Cancel an in-flight request". */
const REQUEST_ID_HEADER = "triton-request-id";
const NO_NAMES: readonly string[] = [];

/** A request without id, parameters and choice of outputs. */
export function bareInfer(inputs: readonly Tensor[], defaultForm: HttpOutputForm): DecodedInfer {
  return {
    id: "",
    inputs,
    outputs: NO_NAMES,
    parameters: NO_PARAMETERS,
    sequence: NO_SEQUENCE,
    priority: 0,
    timeoutUs: 0,
    forms: NO_FORMS,
    defaultForm,
  };
}

export class HttpInferRequest implements InferRequest, RequestOrigin {
  readonly modelName: string;
  readonly modelVersion: string;
  readonly id: string;
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly string[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly sequence: SequenceInfo;
  readonly priority: number;
  readonly timeoutUs: number;
  readonly arrivalMs: number;
  readonly trace: RequestTrace | undefined;
  readonly isLast = true;
  readonly tokens: TokenCounter | undefined;
  readonly #call: HttpCall;

  constructor(model: string, version: string, decoded: DecodedInfer, call: HttpCall) {
    this.modelName = model;
    this.modelVersion = version;
    this.id = decoded.id === "" ? (call.header(REQUEST_ID_HEADER) ?? "") : decoded.id;
    call.inferenceId = this.id;
    this.inputs = decoded.inputs;
    this.outputs = decoded.outputs;
    this.parameters = decoded.parameters;
    this.sequence = decoded.sequence;
    this.priority = call.access?.priority ?? decoded.priority;
    this.tokens = call.access;
    this.timeoutUs = decoded.timeoutUs;
    this.arrivalMs = call.arrivalMs;
    this.trace = call.trace;
    this.#call = call;
  }

  get signal(): AbortSignal {
    return this.#call.signal;
  }

  get isCancelled(): boolean {
    return this.#call.isCancelled;
  }

  /** A client's own request is its own origin. */
  get origin(): RequestOrigin {
    return this;
  }

  get key(): object {
    return this;
  }
}
