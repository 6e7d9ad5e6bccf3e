/**
 * The forward pass of a decoder, for every device: the order of its operations and what passes between them. The device
 * computes them (decoder-ops.ts), the config says which there are, and the engine knows the meaning of the batch.
 */
import type { DecoderConfig } from "../config/decoder-config.ts";
import type { LayerWeights, ModelWeights } from "../weights/weight-plan.ts";
import type { DecoderOps, LinearReader, NormedRows, NormStep } from "./decoder-ops.ts";

export interface WalkedModel<Tensor> {
  readonly config: Pick<DecoderConfig, "residual" | "mlp">;
  readonly weights: Pick<ModelWeights<Tensor>, "layers" | "norm" | "output">;
}

/** From tokens to the normalized rows that logits are made of; undefined when none are wanted. */
export function walkDecoder<Tensor, Rows>(
  ops: DecoderOps<Tensor, Rows>,
  { config, weights }: WalkedModel<Tensor>,
): Rows | undefined {
  const { layers } = weights;
  const first = layers[0];
  if (first === undefined) throw new Error("a decoder without layers");
  let x = ops.addNorm(ops.embed(), { norm: first.attentionNorm, reader: first.qkv });
  if (ops.fusedLayer !== undefined) return walkFused(ops, ops.fusedLayer, weights, x);
  for (const [i, layer] of layers.entries()) {
    ops.observe?.(i, x.residual);
    const qkv = ops.linear(i, "qkv", layer.qkv, x.normed, "rotateAndStore");
    const isEnd = i === layers.length - 1 && ops.handOn === undefined;
    if (isEnd && ops.logitRows === "none") {
      ops.fillCache(i, qkv);
      return undefined;
    }
    let attended = ops.attend(i, ops.rotateAndStore(i, qkv));
    const isKept = isEnd && ops.logitRows === "some";
    if (layer.cross !== undefined) {
      x = walkCross(ops, config, i, layer, { ...x, attended, isKept, after: stepAfter(weights, i) });
      continue;
    }
    if (isKept) {
      const kept = ops.keepRows(x.residual, attended);
      ({ attended } = kept);
      x = { residual: kept.residual, normed: readAgain(ops, config, layer, kept.residual, x.normed) };
    }
    x = walkLayerRest(ops, config, i, layer, x, attended, stepAfter(weights, i));
  }
  if (ops.handOn === undefined) return x.normed;
  ops.handOn(x.residual);
  return ops.logitRows === "none" ? undefined : x.normed;
}

interface CrossStep<Tensor, Rows> {
  readonly residual: Rows;
  /** Output of the attention to tokens. */
  readonly attended: Rows;
  /** Only the rows whose logits are wanted pass on. */
  readonly isKept: boolean;
  readonly after: NormStep<Tensor, Rows>;
}

/** From the attention output to the end of a layer that attends to an encoder too. */
function walkCross<Tensor, Rows>(
  ops: DecoderOps<Tensor, Rows>,
  config: WalkedModel<Tensor>["config"],
  index: number,
  { oProj, cross, mlpNorm, mlp, mlpPostNorm }: LayerWeights<Tensor>,
  { residual, attended, isKept, after }: CrossStep<Tensor, Rows>,
): NormedRows<Rows> {
  const { attendCross, projectCross } = ops;
  if (cross === undefined || attendCross === undefined || projectCross === undefined)
    throw new Error(`layer ${index}: this device computes no attention to an encoder`);
  const branch = ops.linear(index, "oProj", oProj, attended, "addNorm");
  const before = ops.addNorm(residual, { norm: cross.norm, reader: cross.query, branch });
  const whole = { residual: before.residual, attended: attendCross.call(ops, index, cross, before.normed) };
  const kept = isKept ? ops.keepRows(whole.residual, whole.attended) : whole;
  const crossBranch = projectCross.call(ops, cross, kept.attended);
  const reader = "router" in mlp ? undefined : mlp.in;
  const between = ops.addNorm(kept.residual, { norm: mlpNorm, reader, branch: crossBranch });
  const mlpBranch = walkMlp(ops, config, index, mlp, between.normed, "addNorm");
  return ops.addNorm(between.residual, { ...after, branch: mlpBranch, postNorm: mlpPostNorm });
}

/** Each layer from one attention output to the next is a single kernel. */
function walkFused<Tensor, Rows>(
  ops: DecoderOps<Tensor, Rows>,
  fusedLayer: (layer: number, attended: Rows) => Rows,
  { layers, norm, output }: WalkedModel<Tensor>["weights"],
  { residual, normed }: NormedRows<Rows>,
): Rows {
  let qkv: Rows | undefined;
  for (const [i, layer] of layers.entries()) {
    qkv ??= ops.linear(i, "qkv", layer.qkv, normed, "rotateAndStore");
    qkv = fusedLayer(i, ops.attend(i, ops.rotateAndStore(i, qkv)));
  }
  return ops.addNorm(residual, { norm, reader: output }).normed;
}

/** The MLP of some models reads what attention has read: for the kept rows, that is computed once more. */
function readAgain<Tensor, Rows>(
  ops: DecoderOps<Tensor, Rows>,
  { residual }: WalkedModel<Tensor>["config"],
  { attentionNorm, qkv }: LayerWeights<Tensor>,
  kept: Rows,
  normed: Rows,
): Rows {
  const isRead = residual === "parallel" || ops.joinAttention !== undefined;
  return isRead ? ops.addNorm(kept, { norm: attentionNorm, reader: qkv }).normed : normed;
}

/** The norm after a layer: that of the next layer's attention, or of the model. */
function stepAfter<Tensor, Rows>(
  { layers, norm, output }: WalkedModel<Tensor>["weights"],
  index: number,
): NormStep<Tensor, Rows> {
  const next = layers[index + 1];
  return next === undefined ? { norm, reader: output } : { norm: next.attentionNorm, reader: next.qkv };
}

/** From the attention output to the end of the layer and the norm after it. */
function walkLayerRest<Tensor, Rows>(
  ops: DecoderOps<Tensor, Rows>,
  config: WalkedModel<Tensor>["config"],
  index: number,
  layer: LayerWeights<Tensor>,
  { residual, normed }: NormedRows<Rows>,
  attended: Rows,
  after: NormStep<Tensor, Rows>,
): NormedRows<Rows> {
  const { oProj, mlpNorm, mlp, mlpPostNorm } = layer;
  // Experts read rows as they are.
  const reader = "router" in mlp ? undefined : mlp.in;
  if (config.residual === "parallel") {
    const attention = ops.linear(index, "oProj", oProj, attended, "other");
    const read = mlpNorm === undefined ? normed : ops.addNorm(residual, { norm: mlpNorm, reader }).normed;
    return ops.joinBranches(residual, attention, walkMlp(ops, config, index, mlp, read, "other"), after);
  }
  const branch = ops.linear(index, "oProj", oProj, attended, "addNorm");
  const between = walkBetween(ops, index, layer, { residual, normed }, branch);
  const dense = walkMlp(ops, config, index, mlp, between.normed, "addNorm");
  const mlpBranch = ops.besideMlp?.(index, between.residual, dense) ?? dense;
  const { norm, reader: next } = after;
  if (ops.endLayer === undefined)
    return ops.addNorm(between.residual, { norm, reader: next, branch: mlpBranch, postNorm: mlpPostNorm });
  const end = ops.addNorm(between.residual, { norm: undefined, branch: mlpBranch, postNorm: mlpPostNorm });
  return ops.addNorm(ops.endLayer(index, end.residual), { norm, reader: next });
}

/** The residual stream with attention, and the rows that the MLP reads. */
function walkBetween<Tensor, Rows>(
  ops: DecoderOps<Tensor, Rows>,
  index: number,
  { attentionPostNorm: postNorm, mlpNorm: norm, mlp }: LayerWeights<Tensor>,
  { residual, normed }: NormedRows<Rows>,
  branch: Rows,
): NormedRows<Rows> {
  const reader = "router" in mlp ? undefined : mlp.in;
  if (ops.joinAttention === undefined) return ops.addNorm(residual, { norm, reader, branch, postNorm });
  const sum = ops.addNorm(residual, { norm: undefined, branch, postNorm }).residual;
  return ops.addNorm(ops.joinAttention(index, normed, sum), { norm, reader });
}

function walkMlp<Tensor, Rows>(
  ops: DecoderOps<Tensor, Rows>,
  { mlp: { isGated } }: WalkedModel<Tensor>["config"],
  index: number,
  weights: LayerWeights<Tensor>["mlp"],
  x: Rows,
  reader: LinearReader,
): Rows {
  if ("router" in weights) return ops.experts(weights, x);
  const active = isGated
    ? ops.gatedLinear(index, weights.in, x, weights.out)
    : ops.activate(ops.linear(index, "mlpIn", weights.in, x, "other"), weights.out, weights.xielu);
  return ops.linear(index, "mlpOut", weights.out, active, reader);
}
