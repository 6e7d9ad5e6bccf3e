/**
 * Stores large constants as FP16, cast to FP32 where they are used: half the file size, unchanged computation (ONNX
 * operator Cast).
 */
import { numberToFp16 } from "@nereid/server/core/fp16";
import { type DocumentTensor, newNode, newTensor, type OnnxDocument } from "@nereid/server/formats/onnx/document";
import { ONNX_TYPES } from "@nereid/server/formats/onnx/writer";

/** Below this size a Cast node costs more than it saves. */
const MIN_ELEMENTS = 256;
const LARGEST_HALF = 65_504;

export function convertToFp16(document: OnnxDocument): { document: OnnxDocument; numHalved: number } {
  const tensors = new Map<string, DocumentTensor>();
  const casts = [];
  for (const [name, tensor] of document.tensors) {
    if (document.inputs.has(name) || halved(tensor) === undefined) {
      tensors.set(name, tensor);
      continue;
    }
    // Recomputed when written: a model may be larger than memory.
    const byteLength = 2 * tensor.dims.reduce((product, size) => product * size, 1);
    const data = { byteLength, load: () => Promise.resolve(halved(tensor) ?? new Uint8Array(0)) };
    const half = `${name}_half`;
    tensors.set(half, newTensor({ name: half, type: ONNX_TYPES.FLOAT16, dims: tensor.dims, data }));
    casts.push(
      newNode({
        operator: "Cast",
        name: `${name}_widened`,
        inputs: [half],
        outputs: [name],
        attributes: { to: { int: ONNX_TYPES.FLOAT } },
      }),
    );
  }
  return { document: { ...document, nodes: [...casts, ...document.nodes], tensors }, numHalved: casts.length };
}

/** Undefined for small tensors, types other than FP32, and values that FP16 cannot approximate. */
function halved(tensor: DocumentTensor): Uint8Array | undefined {
  const { type, dims } = tensor;
  if (type !== ONNX_TYPES.FLOAT || dims.reduce((product, size) => product * size, 1) < MIN_ELEMENTS) return undefined;
  const { data } = tensor;
  if (data === undefined) return undefined;
  const floats = new Float32Array(Uint8Array.from(data).buffer);
  const halves = new Uint16Array(floats.length);
  for (let index = 0; index < floats.length; index++) {
    const value = floats[index] ?? 0;
    if (!(Math.abs(value) <= LARGEST_HALF)) return undefined;
    halves[index] = numberToFp16(value);
  }
  return new Uint8Array(halves.buffer);
}
