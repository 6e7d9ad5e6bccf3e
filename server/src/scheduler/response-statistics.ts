/**
 * Durations of the responses of a stream, by their place in it. Source: Triton's statistics extension, `response_stats`;
 * the rules are those of `InferenceStatsAggregator::UpdateResponse*` of its core. Backends report them; few do.
 */
import type { ResponseReport } from "../backend/backend.ts";
import type { InferResponseStatistics } from "../core/model-server.ts";
import { Duration } from "./duration.ts";

type Durations = { readonly [Name in keyof InferResponseStatistics]: Duration };

export class ResponseStatistics {
  readonly #byPlace = new Map<number, Durations>();

  /** `place`: 0 for the first response of a request. */
  add(place: number, { startMs, outputStartMs, endMs, outcome }: ResponseReport): void {
    let durations = this.#byPlace.get(place);
    if (durations === undefined) {
      durations = {
        compute_infer: new Duration(),
        compute_output: new Duration(),
        success: new Duration(),
        fail: new Duration(),
        empty_response: new Duration(),
        cancel: new Duration(),
      };
      this.#byPlace.set(place, durations);
    }
    durations[outcome].add(endMs - startMs);
    if (outcome === "cancel") return;
    durations.compute_infer.add((outputStartMs ?? endMs) - startMs);
    if (outcome === "empty_response") return;
    durations.compute_output.add(endMs - (outputStartMs ?? endMs));
  }

  snapshot(): Readonly<Record<string, InferResponseStatistics>> {
    const places = [...this.#byPlace].sort(([a], [b]) => a - b);
    return Object.fromEntries(
      places.map(([place, { compute_infer, compute_output, success, fail, empty_response, cancel }]) => [
        String(place),
        {
          compute_infer: compute_infer.snapshot(),
          compute_output: compute_output.snapshot(),
          success: success.snapshot(),
          fail: fail.snapshot(),
          empty_response: empty_response.snapshot(),
          cancel: cancel.snapshot(),
        },
      ]),
    );
  }
}
