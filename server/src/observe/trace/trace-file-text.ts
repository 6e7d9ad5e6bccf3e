/**
 * Formats a trace tree in Triton's file format: small JSON objects joined by `id`, without the brackets of the array
 * ("Trace" page of its documentation).
 */
import type { TraceClock } from "./trace-clock.ts";
import type { TraceNode } from "./trace-record.ts";

export function traceFileText(nodes: readonly TraceNode[], clock: TraceClock): string {
  return nodes.flatMap((node) => nodeTexts(node, clock)).join(",");
}

function nodeTexts(node: TraceNode, clock: TraceClock): string[] {
  const { id, moments, tensors } = node;
  return [
    ...(node.modelVersion === "" ? [] : [JSON.stringify(headOf(node))]),
    // The time is formatted by hand: it may exceed the safe integers.
    ...moments.map(({ name, atMs }) => `{"id":${id},"timestamps":[{"name":"${name}","ns":${clock.steadyNs(atMs)}}]}`),
    ...tensors.map(({ moment, tensor }) => JSON.stringify({ id, activity: moment, tensor })),
  ];
}

function headOf({ id, parentId, modelName, modelVersion, requestId }: TraceNode): object {
  return {
    id,
    model_name: modelName,
    model_version: Number(modelVersion),
    ...(requestId === "" ? {} : { request_id: requestId }),
    ...(parentId === 0 ? {} : { parent_id: parentId }),
  };
}
