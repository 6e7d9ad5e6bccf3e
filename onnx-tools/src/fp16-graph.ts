/** Keeps large constants as 16-bit floats, widened where they are used: half the file, and products as before. */
import { numberToFp16 } from "@nereid/server/core/fp16";
import { type DocumentTensor, newNode, newTensor, type OnnxDocument } from "@nereid/server/formats/onnx/document";
import { ONNX_TYPES } from "@nereid/server/formats/onnx/writer";

/** Below this a cast would take more room than it saves. */
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
    // Made again when it is written: a model may be larger than memory.
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

/** Undefined for what is small, no float32, or has a number that no half can be near to. */
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
