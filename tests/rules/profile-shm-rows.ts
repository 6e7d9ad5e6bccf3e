/** Rules of client shared memory (server, shared_memory_manager.cc and http_server.cc), with an object of two pages. */
import process from "node:process";
import { type HttpRow, TEXT } from "./http-row.ts";

/** The name of the object in /dev/shm. */
export const SHM_OBJECT = `nereid-rules-${process.pid}`;
export const SHM_BYTES = 8192;

const KEY = `/${SHM_OBJECT}`;
const SYSTEM = "/v2/systemsharedmemory";
const INFER = "POST /v2/models/floats/infer";

function register(name: string, body: unknown, status: number, says: HttpRow["says"], rule: string): HttpRow {
  return { rule, to: `POST ${SYSTEM}/region/${name}/register`, body: JSON.stringify(body), status, says };
}

/** An input of four floats from a region. */
function infer(rule: string, parameters: object, status: number, says: HttpRow["says"], shape = [4]): HttpRow {
  const inputs = [{ name: "X", datatype: "FP32", shape, parameters }];
  return { rule, to: INFER, body: { inputs }, status, says };
}

/** Four floats into a region. */
function answer(
  rule: string,
  parameters: object,
  status: number,
  says: HttpRow["says"],
  type = "application/json",
): HttpRow {
  const inputs = [{ name: "X", datatype: "FP32", shape: [4], data: [1, 2, 3, 4] }];
  return { rule, to: INFER, body: { inputs, outputs: [{ name: "Y", parameters }] }, status, says, type };
}

const INVALID_ARGS = "failed to register shared memory region 'big': invalid args";
const OK = /^\{"model_name":"floats","model_version":"1","outputs":\[\{"name":"Y","datatype":"FP32","shape":\[4\]/;

export const SHM_ROWS: readonly HttpRow[] = [
  {
    rule: "a region without a name",
    to: `POST ${SYSTEM}/register`,
    body: { key: KEY, byte_size: 8 },
    status: 400,
    says: "'region name' is necessary to register system shared memory region",
  },
  {
    rule: "a CUDA region without a name",
    to: "POST /v2/cudasharedmemory/register",
    body: {},
    status: 400,
    says: "'region name' is necessary to register cuda shared memory region",
  },
  {
    rule: "a CUDA region without a GPU",
    to: "POST /v2/cudasharedmemory/region/c/register",
    body: "not even JSON",
    status: 400,
    says: "failed to register CUDA shared memory region: 'c', GPUs not supported",
  },
  { rule: "no regions", to: `${SYSTEM}/status`, status: 200, says: "[]" },
  { rule: "no CUDA regions", to: "/v2/cudasharedmemory/status", status: 200, says: "[]" },
  register("big", {}, 400, "Shared memory register request has no 'key' field", "nothing is said"),
  register("big", { key: KEY }, 400, "Shared memory register request has no 'byte_size' field", "no size"),
  register("big", { key: 5, byte_size: 8 }, 500, "attempt to access JSON non-string as string", "the key is a number"),
  register(
    "big",
    { key: KEY, byte_size: -8 },
    500,
    "attempt to access JSON non-unsigned-integer as unsigned-integer",
    "a size below 0",
  ),
  register(
    "big",
    { key: KEY, byte_size: 8, offset: "4" },
    500,
    "attempt to access JSON non-unsigned-integer as unsigned-integer",
    "the offset is a text",
  ),
  register("big", { key: KEY, byte_size: SHM_BYTES + 1 }, 400, INVALID_ARGS, "more than there is"),
  register("big", { key: KEY, byte_size: 40, offset: 8160 }, 400, INVALID_ARGS, "an offset that leaves too little"),
  register(
    "big",
    { key: "/nereid-rules-nothing", byte_size: 8 },
    500,
    "Unable to open shared memory region: '/nereid-rules-nothing'",
    "an object that is not there",
  ),
  register(
    "big",
    { key: "/triton_python_backend_shm_region_x", byte_size: 8 },
    400,
    /^cannot register shared memory region 'big' with key '\/triton_python_backend_shm_region_x' as the key contains the reserved prefix 'triton_python_backend_shm_region_'/,
    "a key of the Python backend",
  ),
  register("whole", { key: KEY, byte_size: SHM_BYTES }, 200, "", "a region"),
  register(
    "whole",
    { key: KEY, byte_size: 8 },
    400,
    "shared memory region 'whole' already in manager",
    "a name that is taken",
  ),
  register("tail", { key: KEY, byte_size: 16, offset: 4096 }, 200, "", "a region behind an offset"),
  {
    rule: "one region",
    to: `${SYSTEM}/region/tail/status`,
    status: 200,
    says: `[{"name":"tail","key":"${KEY}","offset":4096,"byte_size":16}]`,
  },
  {
    rule: "all regions, in the order of names",
    to: `${SYSTEM}/status`,
    status: 200,
    says: `[{"name":"tail","key":"${KEY}","offset":4096,"byte_size":16},{"name":"whole","key":"${KEY}","offset":0,"byte_size":8192}]`,
  },
  {
    rule: "a region of the other kind",
    to: "/v2/cudasharedmemory/region/tail/status",
    status: 404,
    says: "The region named 'tail' is registered as system shared memory, not CUDA shared memory",
  },
  {
    rule: "an unknown region",
    to: `${SYSTEM}/region/none/status`,
    status: 404,
    says: "Unable to find system shared memory region: 'none'",
  },
  infer(
    "an unknown region",
    { shared_memory_region: "none", shared_memory_byte_size: 16 },
    404,
    "Unable to find shared memory region: 'none'",
  ),
  infer(
    "an offset behind the end",
    { shared_memory_region: "tail", shared_memory_byte_size: 16, shared_memory_offset: 17 },
    400,
    "Invalid offset for shared memory region: 'tail'",
  ),
  infer(
    "a size behind the end",
    { shared_memory_region: "tail", shared_memory_byte_size: 16, shared_memory_offset: 4 },
    400,
    "Invalid offset + byte size for shared memory region: 'tail'",
  ),
  infer(
    "fewer bytes than the shape",
    { shared_memory_region: "tail", shared_memory_byte_size: 12 },
    400,
    "[request id: <id_unknown>] input byte size mismatch for input 'X' for model 'floats'. Expected 16, got 12",
  ),
  infer("the whole region", { shared_memory_region: "tail", shared_memory_byte_size: 16 }, 200, OK),
  infer(
    "bytes from an offset on",
    { shared_memory_region: "whole", shared_memory_byte_size: 16, shared_memory_offset: 32 },
    200,
    OK,
  ),
  answer(
    "into an unknown region",
    { shared_memory_region: "none", shared_memory_byte_size: 16 },
    404,
    "Unable to find shared memory region: 'none'",
  ),
  answer(
    "into too few bytes",
    { shared_memory_region: "whole", shared_memory_byte_size: 12 },
    500,
    "shared memory size specified with the request for output 'Y' (12 bytes) should be at least 16 bytes to hold the results",
    TEXT,
  ),
  answer(
    "beyond the end",
    { shared_memory_region: "whole", shared_memory_byte_size: 32, shared_memory_offset: 8176 },
    400,
    "Invalid offset + byte size for shared memory region: 'whole'",
  ),
  answer(
    "into a region",
    { shared_memory_region: "whole", shared_memory_byte_size: 16, shared_memory_offset: 8 },
    200,
    '{"model_name":"floats","model_version":"1","outputs":[{"name":"Y","datatype":"FP32","shape":[4]}]}',
  ),
  infer(
    "what another request left there",
    { shared_memory_region: "whole", shared_memory_byte_size: 8, shared_memory_offset: 16 },
    200,
    '{"model_name":"floats","model_version":"1","outputs":[{"name":"Y","datatype":"FP32","shape":[2],"data":[3.0,4.0]}]}',
    [2],
  ),
  { rule: "an unknown region", to: `POST ${SYSTEM}/region/none/unregister`, status: 200, says: "" },
  { rule: "one region", to: `POST ${SYSTEM}/region/tail/unregister`, status: 200, says: "" },
  {
    rule: "it is gone",
    to: `${SYSTEM}/region/tail/status`,
    status: 404,
    says: "Unable to find system shared memory region: 'tail'",
  },
  { rule: "every CUDA region", to: "POST /v2/cudasharedmemory/unregister", status: 200, says: "" },
  { rule: "every region", to: `POST ${SYSTEM}/unregister`, status: 200, says: "" },
  { rule: "none is left", to: `${SYSTEM}/status`, status: 200, says: "[]" },
];
