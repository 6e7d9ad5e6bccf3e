/** Functions of OpenVINO's C API. Source: the headers openvino/c of the Python package, 2026.4. */
import { CheckedCalls } from "../checked-calls.ts";
import {
  type Address,
  type CType,
  type NativeFunction,
  type NativeLibrary,
  openLibrary,
  type Pointer,
  structType,
} from "../ffi.ts";

export type Call<Args extends unknown[]> = NativeFunction<Args, number>;
type Free = NativeFunction<[Address], void>;

/** `ov_shape_t`, passed by value. */
export interface NativeShape {
  readonly rank: number;
  readonly dims: Pointer;
}

export interface OpenvinoApi {
  readonly calls: CheckedCalls;
  readonly coreCreate: Call<[Pointer]>;
  readonly coreFree: Free;
  readonly coreReadModel: Call<[Address, Pointer, Pointer, Pointer]>;
  readonly coreAddExtension: Call<[Address, Pointer]>;
  readonly coreCompileModel: Call<[Address, Address, Pointer, bigint, Pointer, Pointer]>;
  readonly modelFree: Free;
  readonly modelSize: Readonly<Record<"inputs" | "outputs", Call<[Address, Pointer]>>>;
  readonly modelPort: Readonly<Record<"inputs" | "outputs", Call<[Address, bigint, Pointer]>>>;
  readonly modelReshape: Call<[Address, Pointer, Pointer, bigint]>;
  readonly portName: Call<[Address, Pointer]>;
  readonly portType: Call<[Address, Pointer]>;
  readonly portShape: Call<[Address, Pointer]>;
  readonly portFree: Free;
  readonly partialShapeFree: NativeFunction<[Pointer], void>;
  readonly shapeFree: Call<[Pointer]>;
  readonly textFree: Free;
  readonly compiledFree: Free;
  readonly createRequest: Call<[Address, Pointer]>;
  readonly requestFree: Free;
  readonly setInput: Call<[Address, bigint, Address]>;
  readonly getOutput: Call<[Address, bigint, Pointer]>;
  readonly infer: Call<[Address]>;
  readonly tensorOf: Call<[number, NativeShape, Pointer, Pointer]>;
  readonly tensorShape: Call<[Address, Pointer]>;
  readonly tensorType: Call<[Address, Pointer]>;
  readonly tensorData: Call<[Address, Pointer]>;
  readonly tensorFree: Free;
}

/** In the words of the library. */
export class OpenvinoError extends Error {
  constructor(message: string) {
    super(withoutPlaces(message));
    this.name = "OpenvinoError";
  }
}

/** Without the lines of its sources in which it failed. */
function withoutPlaces(message: string): string {
  const lines = message
    .split("\n")
    .map((line) => line.replace(/^(Exception from|Check) '?src\/\S+:?\d*:?'?/, "").trim());
  return lines.filter((line) => line !== "").join(" ");
}

/** By value; names of structures are global, so it is made once. */
const SHAPE: CType = structType("ov_shape_t", { rank: "int64", dims: "void*" });
const P = "void*";

/** @throws Error with the reason of the dynamic linker, or when the release is too old */
export function loadOpenvinoApi(path: string): OpenvinoApi {
  const library = openLibrary(path);
  if (!library.has("ov_core_compile_model_props")) {
    throw new Error("the release is older than 2026.4: pip install 'openvino>=2026.4'");
  }
  const lastError = library.func<[], string | null>("ov_get_last_err_msg", "str", []);
  const errorInfo = library.func<[number], string | null>("ov_get_error_info", "str", ["int"]);
  const failure = (status: number): Error => new OpenvinoError(lastError() ?? errorInfo(status) ?? `status ${status}`);
  return { calls: new CheckedCalls(failure), ...ofModels(library), ...ofRequests(library) };
}

function ofModels(library: NativeLibrary): Omit<OpenvinoApi, RequestKeys | "calls"> {
  return {
    coreCreate: library.func("ov_core_create", "int", [P]),
    coreFree: library.func("ov_core_free", "void", [P]),
    coreReadModel: library.func("ov_core_read_model", "int", [P, P, P, P]),
    coreAddExtension: library.func("ov_core_add_extension", "int", [P, P]),
    coreCompileModel: library.func("ov_core_compile_model_props", "int", [P, P, P, "size_t", P, P]),
    modelFree: library.func("ov_model_free", "void", [P]),
    modelSize: {
      inputs: library.func("ov_model_inputs_size", "int", [P, P]),
      outputs: library.func("ov_model_outputs_size", "int", [P, P]),
    },
    modelPort: {
      inputs: library.func("ov_model_const_input_by_index", "int", [P, "size_t", P]),
      outputs: library.func("ov_model_const_output_by_index", "int", [P, "size_t", P]),
    },
    modelReshape: library.func("ov_model_reshape", "int", [P, P, P, "size_t"]),
    portName: library.func("ov_port_get_any_name", "int", [P, P]),
    portType: library.func("ov_port_get_element_type", "int", [P, P]),
    portShape: library.func("ov_port_get_partial_shape", "int", [P, P]),
    portFree: library.func("ov_output_const_port_free", "void", [P]),
    partialShapeFree: library.func("ov_partial_shape_free", "void", [P]),
    textFree: library.func("ov_free", "void", [P]),
    compiledFree: library.func("ov_compiled_model_free", "void", [P]),
  };
}

type RequestKeys =
  | "createRequest"
  | "requestFree"
  | "setInput"
  | "getOutput"
  | "infer"
  | "shapeFree"
  | "tensorOf"
  | "tensorShape"
  | "tensorType"
  | "tensorData"
  | "tensorFree";

function ofRequests(library: NativeLibrary): Pick<OpenvinoApi, RequestKeys> {
  return {
    createRequest: library.func("ov_compiled_model_create_infer_request", "int", [P, P]),
    requestFree: library.func("ov_infer_request_free", "void", [P]),
    setInput: library.func("ov_infer_request_set_input_tensor_by_index", "int", [P, "size_t", P]),
    getOutput: library.func("ov_infer_request_get_output_tensor_by_index", "int", [P, "size_t", P]),
    infer: library.func("ov_infer_request_infer", "int", [P]),
    tensorOf: library.func("ov_tensor_create_from_host_ptr", "int", ["int", SHAPE, P, P]),
    tensorShape: library.func("ov_tensor_get_shape", "int", [P, P]),
    tensorType: library.func("ov_tensor_get_element_type", "int", [P, P]),
    tensorData: library.func("ov_tensor_data", "int", [P, P]),
    tensorFree: library.func("ov_tensor_free", "void", [P]),
    shapeFree: library.func("ov_shape_free", "int", [P]),
  };
}
