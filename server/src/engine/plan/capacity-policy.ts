/** How the planner admits sequences, by the names of TensorRT-LLM's scheduler policies. */

/** `guaranteed_no_evict` admits a sequence only if it can run to its end; `max_utilization` admits more and preempts. */
export type CapacityPolicy = "guaranteed_no_evict" | "max_utilization";
