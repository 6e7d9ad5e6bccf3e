/** The models of the second set: each gives X back as Y. */
import type { HttpRow } from "../http-row.ts";
import { DESCRIBE_ROWS } from "./describe-rows.ts";
import { GENERATE_ROWS } from "./generate-rows.ts";
import { DATATYPES, VALUE_ROWS } from "./value-rows.ts";

function echo(datatype: string, dims: string, maxBatchSize = 0, input = "X"): string {
  const type = datatype === "BYTES" ? "TYPE_STRING" : `TYPE_${datatype}`;
  return `backend: "identity" max_batch_size: ${maxBatchSize} input [ { name: "${input}" data_type: ${type} dims: [ ${dims} ] } ]
    output [ { name: "Y" data_type: ${type} dims: [ ${dims} ] } ] instance_group [ { kind: KIND_CPU } ]`;
}

export const SECOND_MODELS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(DATATYPES.map((datatype) => [`echo_${datatype}/config.pbtxt`, echo(datatype, "-1")])),
  "grid/config.pbtxt": echo("INT32", "2", 4),
  "clash/config.pbtxt": echo("INT32", "1", 0, "parameters"),
};

export const SECOND_ROWS: readonly HttpRow[] = [...VALUE_ROWS, ...GENERATE_ROWS, ...DESCRIBE_ROWS];
