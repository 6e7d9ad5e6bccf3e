/** From a tensor to nested lists of JSON, one level a dimension. Source: KServe V2, "Tensor Data" and "Tensor Data Types". */
import { type Datatype, elementSize, splitBytesElements } from "@nereid/wire";
import { bf16ToNumber } from "../../core/bf16.ts";
import { fp16ToNumber } from "../../core/fp16.ts";
import { MAX_MCP_ELEMENTS, MAX_MCP_TEXT_BYTES } from "../../core/limits.ts";
import { invalidArgument } from "../../core/server-error.ts";
import { elementCount, type Tensor } from "../../core/tensor.ts";

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

type Read = (view: DataView, at: number) => unknown;

const READERS: Readonly<Record<Exclude<Datatype, "BYTES">, Read>> = {
  BOOL: (view, at) => view.getUint8(at) !== 0,
  UINT8: (view, at) => view.getUint8(at),
  UINT16: (view, at) => view.getUint16(at, true),
  UINT32: (view, at) => view.getUint32(at, true),
  UINT64: (view, at) => wide(view.getBigUint64(at, true)),
  INT8: (view, at) => view.getInt8(at),
  INT16: (view, at) => view.getInt16(at, true),
  INT32: (view, at) => view.getInt32(at, true),
  INT64: (view, at) => wide(view.getBigInt64(at, true)),
  FP16: (view, at) => float(fp16ToNumber(view.getUint16(at, true))),
  BF16: (view, at) => float(bf16ToNumber(view.getUint16(at, true))),
  FP32: (view, at) => float(view.getFloat32(at, true)),
  FP64: (view, at) => float(view.getFloat64(at, true)),
};

/** All outputs of one call share its room. */
export class TensorWriter {
  #elements = 0;
  #textBytes = 0;

  /** @throws ServerError when the outputs are too large for a tool, or hold bytes that are no text */
  write(tensor: Tensor): unknown {
    const count = elementCount(tensor.shape);
    // An empty tensor costs too: a stream may have any number.
    this.#elements += Math.max(count, 1);
    if (this.#elements > MAX_MCP_ELEMENTS) {
      throw invalidArgument(`the outputs have more than ${MAX_MCP_ELEMENTS} elements: call the model by /v2/models`);
    }
    const items = tensor.datatype === "BYTES" ? this.#texts(tensor) : numbers(tensor, tensor.datatype, count);
    return nested(items, tensor.shape);
  }

  #texts({ name, data }: Tensor): string[] {
    this.#textBytes += data.length;
    if (this.#textBytes > MAX_MCP_TEXT_BYTES) {
      throw invalidArgument(
        `the outputs have more than ${MAX_MCP_TEXT_BYTES} bytes of text: call the model by /v2/models`,
      );
    }
    return splitBytesElements(data).map((bytes, i) => {
      try {
        return UTF8.decode(bytes);
      } catch {
        throw invalidArgument(`${name}, element ${i}: its bytes are no UTF-8 text: call the model by /v2/models`);
      }
    });
  }
}

function numbers({ data }: Tensor, datatype: Exclude<Datatype, "BYTES">, count: number): unknown[] {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const size = elementSize(datatype);
  const read = READERS[datatype];
  return Array.from({ length: count }, (_, i) => read(view, i * size));
}

function nested(items: readonly unknown[], shape: readonly number[]): unknown {
  let level: readonly unknown[] = items;
  for (const dim of [...shape.slice(1)].reverse()) {
    const rows: unknown[] = [];
    for (let at = 0; at < level.length; at += dim) rows.push(level.slice(at, at + dim));
    level = rows;
  }
  return shape.length === 0 ? level[0] : level;
}

/** JSON has no form of NaN and the infinities. */
function float(value: number): number | string {
  return Number.isFinite(value) ? value : String(value);
}

/** Text, where a reader of JSON would round it. */
function wide(value: bigint): number | string {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}
