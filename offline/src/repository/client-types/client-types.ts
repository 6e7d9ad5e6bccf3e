/** TypeScript types of models for their clients: names, datatypes and shapes of tensors. Touches no file and no server. */
import type { Datatype } from "@nereid/wire";

export interface DescribedTensor {
  readonly name: string;
  readonly datatype: Datatype;
  /** With the batch dimension; -1 stands for any size. */
  readonly shape: readonly number[];
  readonly isOptional: boolean;
}

export interface DescribedModel {
  readonly name: string;
  readonly inputs: readonly DescribedTensor[];
  readonly outputs: readonly DescribedTensor[];
}

/** The same text for the same models, in whatever order they come. */
export function clientTypes(models: readonly DescribedModel[]): string {
  const sorted = [...models].sort((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)));
  return [
    `// Written by "nereid types": run it again when the models change.`,
    "",
    "/**",
    " * Models by name, for `new NereidClient<Models>(...)`. Shapes have the batch dimension; `number` stands for any size.",
    " */",
    `export type Models = ${blockOf(sorted.map(modelMember), "")};`,
    "",
  ].join("\n");
}

function modelMember({ name, inputs, outputs }: DescribedModel): string {
  const groups = {
    inputs: inputs.filter(({ isOptional }) => !isOptional),
    optionalInputs: inputs.filter(({ isOptional }) => isOptional),
    outputs,
  };
  const members = Object.entries(groups).map(
    ([group, tensors]) => `${group}: ${blockOf(tensors.map(tensorMember), "    ")}`,
  );
  return `${keyOf(name)}: ${blockOf(members, "  ")}`;
}

function tensorMember({ name, datatype, shape }: DescribedTensor): string {
  const dims = shape.map((dim) => (dim < 0 ? "number" : String(dim)));
  return `${keyOf(name)}: { readonly datatype: "${datatype}"; readonly shape: readonly [${dims.join(", ")}] }`;
}

function blockOf(members: readonly string[], indent: string): string {
  if (members.length === 0) return "Record<never, never>";
  return `{\n${members.map((member) => `${indent}  readonly ${member};\n`).join("")}${indent}}`;
}

function keyOf(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
}
