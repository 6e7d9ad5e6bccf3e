/** Log messages for accepted flags without effect. Remove a flag's line when its feature is implemented. */
import type { ServerOptions } from "./server-options.ts";

type Options = Omit<ServerOptions, "notYet">;

const FEATURES: readonly (readonly [isAsked: (options: Options) => boolean, message: string])[] = [
  [({ memory }) => memory.hostPolicies.size > 0, "--host-policy: instances are not bound to processors"],
  [({ memory }) => memory.cudaPoolBytes.size > 0, "--cuda-memory-pool-byte-size: there is no such pool"],
  [({ memory }) => memory.cudaVirtualAddressBytes.size > 0, "--cuda-virtual-address-size: states do not grow on a GPU"],
];

export function unsupportedFlagMessages(options: Options): string[] {
  return FEATURES.filter(([isAsked]) => isAsked(options)).map(
    ([, message]) => `not supported yet, ignored: ${message}`,
  );
}
