/** The device of a tool, CPU or GPU, by its --device flag. */
import { type FoundGpus, findGpus } from "@nereid/server/device/cuda/find-gpus";
import { ToolError } from "@nereid/server/files/tool-error";

export type ToolDevice =
  | { readonly kind: "cpu" }
  | {
      readonly kind: "cuda";
      readonly ordinal: number;
      readonly name: string;
      /** Chosen automatically: the CPU may replace it. */
      readonly isOptional: boolean;
    };

const CPU: ToolDevice = { kind: "cpu" };
const GPU_WORD = /^(?:cuda|gpu)(?::(\d{1,3}))?$/;

/** "auto" is the first GPU, or the CPU. @throws ToolError when the requested device does not exist */
export function chooseDevice(word: string, find: () => FoundGpus = findGpus): ToolDevice {
  if (word === "cpu") return CPU;
  if (word === "auto") {
    const [first] = find().gpus;
    return first === undefined ? CPU : { kind: "cuda", ordinal: first.ordinal, name: first.name, isOptional: true };
  }
  const asked = GPU_WORD.exec(word);
  if (asked === null) {
    throw new ToolError(`--device is auto, cpu, cuda or cuda:<number>, got ${word}`, { fix: "Leave it out for auto" });
  }
  const { gpus, notes } = find();
  const found = asked[1] === undefined ? gpus[0] : gpus.find(({ ordinal }) => ordinal === Number(asked[1]));
  if (found !== undefined) return { kind: "cuda", ordinal: found.ordinal, name: found.name, isOptional: false };
  const known = gpus.map(({ ordinal, name }) => `${ordinal} (${name})`);
  const why = gpus.length > 0 ? `those here are ${known.join(", ")}` : notes.join("; ") || "there is none";
  throw new ToolError(`--device ${word}: no such GPU can be used: ${why}`, {
    fix: "Leave --device out, or give --device cpu",
  });
}

export function deviceName(device: ToolDevice): string {
  return device.kind === "cpu" ? "the CPU" : `GPU ${device.ordinal} (${device.name})`;
}
