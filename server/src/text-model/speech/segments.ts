/**
 * The output of one window of sound as segments with times, and where the next window begins. Pure. Source: Radford et al. 2022
 * (Whisper), section 4.5; openai/whisper, transcribe.py.
 */

export interface TokenSegment {
  /** Steps of a timestamp from the start of the window. */
  readonly start: number;
  readonly end: number;
  /** Without timestamps. */
  readonly tokens: Int32Array;
}

export interface WindowSegments {
  readonly segments: readonly TokenSegment[];
  /** Steps to the next window. */
  readonly advance: number;
}

/** `first` is the id of the timestamp 0; `length` the steps of the window that hold sound. */
export function splitSegments(output: Int32Array, first: number, length: number): WindowSegments {
  const isTime = (at: number): boolean => (output[at] ?? -1) >= first;
  const cuts = Array.from(output.keys()).filter((at) => at > 0 && isTime(at) && isTime(at - 1));
  const last = output.length - 1;
  const endsWithOne = output.length >= 2 && isTime(last) && !isTime(last - 1);
  if (cuts.length === 0) {
    const times = output.filter((id) => id >= first);
    const end = times.length > 0 && times.at(-1) !== first ? (times.at(-1) ?? first) - first : length;
    return { segments: segmentOf(output, first, { start: 0, end }), advance: length };
  }
  const ends = endsWithOne ? [...cuts, output.length] : cuts;
  const segments = ends.flatMap((end, i) => {
    const part = output.subarray(ends[i - 1] ?? 0, end);
    const [start = first] = part;
    return segmentOf(part, first, { start: start - first, end: (part.at(-1) ?? first) - first });
  });
  // A lone timestamp at the end says that no speech follows; of a pair, the second begins what is cut off.
  return { segments, advance: endsWithOne ? length : (output[(cuts.at(-1) ?? 1) - 1] ?? first) - first };
}

function segmentOf(
  part: Int32Array,
  first: number,
  { start, end }: { readonly start: number; readonly end: number },
): readonly TokenSegment[] {
  const tokens = part.filter((id) => id < first);
  return tokens.length === 0 ? [] : [{ start: Math.max(0, start), end: Math.max(start, end), tokens }];
}
