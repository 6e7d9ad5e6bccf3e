/** Flags that scripts pass and that mean nothing here: accepted, hidden from the help. */

export const NO_EFFECT: {
  readonly value: { readonly type: "string"; readonly summary: string; readonly hidden: true };
  readonly toggle: { readonly type: "switch"; readonly summary: string; readonly hidden: true };
} = {
  value: { type: "string", summary: "has no effect", hidden: true },
  toggle: { type: "switch", summary: "has no effect", hidden: true },
};
