/** Launchers of the elementwise kernels. In place where `out` is the input. Source: elementwise.cu. */
import type { DevicePointer, KernelArg, KernelStream } from "../../src/device/cuda/kernel-stream.ts";
import {
  ceilDiv,
  ELEM_VEC,
  type ElemType,
  elemDefines,
  expectCount,
  expectWidth,
  f32,
  i32,
  ptr,
} from "../cuda/launch-args.ts";
import { ACTIVATION_NUMBERS, type CudaActivation } from "../gated-mul/gated-mul.cuda.ts";

interface FlatArgs {
  readonly type: ElemType;
  /** Elements in all; a multiple of a 16-byte access. */
  readonly count: number;
}

const THREADS = 256;

/** out = a + b */
export function launchAdd(
  stream: KernelStream,
  args: FlatArgs & { readonly a: DevicePointer; readonly b: DevicePointer; readonly out: DevicePointer },
): void {
  launchFlat(stream, "add", args, [ptr(args.a), ptr(args.b), ptr(args.out), i64(args.count)]);
}

/** out = factor * x */
export function launchScale(
  stream: KernelStream,
  args: FlatArgs & { readonly x: DevicePointer; readonly out: DevicePointer; readonly factor: number },
): void {
  launchFlat(stream, "scale", args, [ptr(args.x), ptr(args.out), i64(args.count), f32(args.factor)]);
}

/** out = cap * tanh(x / cap), for any number of elements: a vocabulary has any size. */
export function launchSoftCap(
  stream: KernelStream,
  args: FlatArgs & { readonly x: DevicePointer; readonly out: DevicePointer; readonly cap: number },
): void {
  expectCount("soft_cap", "element", args.count);
  enqueueFlat(stream, "soft_cap", args, [ptr(args.x), ptr(args.out), i64(args.count), f32(args.cap)], 0);
}

/** out = activation(x) */
export function launchActivation(
  stream: KernelStream,
  args: FlatArgs & { readonly x: DevicePointer; readonly out: DevicePointer; readonly activation: CudaActivation },
): void {
  const sizes = [ptr(args.x), ptr(args.out), i64(args.count)];
  launchFlat(stream, "activation", args, sizes, ACTIVATION_NUMBERS[args.activation]);
}

/** x += bias, for each row of `width` */
export function launchAddBias(
  stream: KernelStream,
  args: FlatArgs & { readonly x: DevicePointer; readonly bias: DevicePointer; readonly width: number },
): void {
  expectWidth("addBias", args.width, args.type);
  launchFlat(stream, "add_bias", args, [ptr(args.x), ptr(args.bias), i64(args.count), i32(args.width)]);
}

/** Each element times the factor of its column. */
export function launchScaleColumns(
  stream: KernelStream,
  args: FlatArgs & {
    readonly x: DevicePointer;
    readonly factors: DevicePointer; // f32 [width]
    readonly out: DevicePointer;
    readonly width: number;
  },
): void {
  expectWidth("scaleColumns", args.width, args.type);
  const pointers = [ptr(args.x), ptr(args.factors), ptr(args.out)];
  launchFlat(stream, "scale_columns", args, [...pointers, i64(args.count), i32(args.width)]);
}

/** Each row of `width` times the sigmoid of its own number. */
export function launchGateRows(
  stream: KernelStream,
  args: FlatArgs & {
    readonly x: DevicePointer;
    readonly gate: DevicePointer; // [count / width]
    readonly out: DevicePointer;
    readonly width: number;
  },
): void {
  expectWidth("gateRows", args.width, args.type);
  launchFlat(stream, "gate_rows", args, [ptr(args.x), ptr(args.gate), ptr(args.out), i64(args.count), i32(args.width)]);
}

function launchFlat(
  stream: KernelStream,
  name: string,
  { type, count }: FlatArgs,
  args: readonly KernelArg[],
  activation = 0,
): void {
  expectWidth(name, count, type);
  enqueueFlat(stream, name, { type, count }, args, activation);
}

function enqueueFlat(
  stream: KernelStream,
  name: string,
  { type, count }: FlatArgs,
  args: readonly KernelArg[],
  activation: number,
): void {
  const kernel = stream.kernel({
    source: "elementwise/elementwise.cu",
    name,
    defines: { ...elemDefines(type), ACTIVATION: activation },
    usesProgrammaticLaunch: true,
  });
  stream.launch(kernel, [ceilDiv(count / ELEM_VEC[type], THREADS), 1, 1], [THREADS, 1, 1], 0, args);
}

function i64(value: number): KernelArg {
  return { i64: BigInt(value) };
}
