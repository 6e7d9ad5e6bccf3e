/**
 * Control tensors of a sequence model: flags and correlation id in the configured types. Source: model_config.proto,
 * ModelSequenceBatching.Control. Pure.
 */
import type { Datatype } from "@nereid/wire";
import { packBytesElements } from "../../core/bytes-tensor.ts";
import type { ModelConfig, ModelSequenceBatchingControl, SequenceControlKind } from "../../core/model-config.ts";
import { datatypeOf } from "../../core/model-signature.ts";
import type { Tensor } from "../../core/tensor.ts";

/** Control values of one row. */
export interface ControlRow {
  readonly id: bigint | string;
  readonly start: boolean;
  readonly end: boolean;
  readonly ready: boolean;
}

type FlagKind = Exclude<SequenceControlKind, "CONTROL_SEQUENCE_CORRID">;

/** Both tensors of a flag, created once and shared by rows. */
interface Flag {
  readonly kind: FlagKind;
  readonly off: Tensor;
  readonly on: Tensor;
}

export interface CorrelationControl {
  readonly name: string;
  readonly datatype: Datatype;
}

export class SequenceControls {
  readonly correlation: CorrelationControl | undefined;
  readonly names: ReadonlySet<string>;
  readonly #flags: readonly Flag[];
  readonly #shape: readonly number[];

  constructor(config: ModelConfig) {
    const inputs = config.sequence_batching?.control_input ?? [];
    const shape = config.max_batch_size > 0 ? [1, 1] : [1];
    const flags: Flag[] = [];
    let correlation: CorrelationControl | undefined;
    for (const { name, control } of inputs) {
      for (const one of control) {
        if (one.kind === "CONTROL_SEQUENCE_CORRID") correlation = { name, datatype: datatypeOf(one.data_type) };
        else flags.push({ kind: one.kind, ...flagTensors(name, shape, one) });
      }
    }
    this.#flags = flags;
    this.#shape = shape;
    this.correlation = correlation;
    this.names = new Set(inputs.map(({ name }) => name));
  }

  tensors(row: ControlRow): Tensor[] {
    const tensors = this.#flags.map(({ kind, on, off }) => (isSet(kind, row) ? on : off));
    if (this.correlation === undefined) return tensors;
    const { name, datatype } = this.correlation;
    tensors.push({ name, datatype, shape: this.#shape, data: correlationData(row.id, datatype) });
    return tensors;
  }

  /** Control values of a padding row. */
  nullTensors(): Tensor[] {
    const id = this.correlation?.datatype === "BYTES" ? "" : 0n;
    return this.tensors({ id, start: false, end: false, ready: false });
  }
}

function isSet(kind: FlagKind, row: ControlRow): boolean {
  if (kind === "CONTROL_SEQUENCE_START") return row.start;
  return kind === "CONTROL_SEQUENCE_END" ? row.end : row.ready;
}

function flagTensors(
  name: string,
  shape: readonly number[],
  control: ModelSequenceBatchingControl,
): { off: Tensor; on: Tensor } {
  const { int32_false_true: ints, fp32_false_true: floats, bool_false_true: booleans } = control;
  const tensor = (index: 0 | 1): Tensor => {
    const data = new Uint8Array(booleans.length > 0 ? 1 : 4);
    const view = new DataView(data.buffer);
    if (booleans.length > 0) view.setUint8(0, booleans[index] === true ? 1 : 0);
    else if (floats.length > 0) view.setFloat32(0, floats[index] ?? 0, true);
    else view.setInt32(0, ints[index] ?? 0, true);
    const datatype = booleans.length > 0 ? "BOOL" : floats.length > 0 ? "FP32" : "INT32";
    return { name, datatype, shape, data };
  };
  return { off: tensor(0), on: tensor(1) };
}

/** A narrower type gets the low bits of a number. */
function correlationData(id: bigint | string, datatype: Datatype): Uint8Array {
  if (datatype === "BYTES") return packBytesElements([String(id)]);
  const bits = typeof id === "bigint" ? BigInt.asUintN(64, id) : 0n;
  const data = new Uint8Array(8);
  new DataView(data.buffer).setBigUint64(0, bits, true);
  return datatype.endsWith("64") ? data : data.subarray(0, 4);
}
