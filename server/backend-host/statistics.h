/* Times of an execution, as its backend reported them. */
#pragma once

#include <cstdint>

namespace host {

struct BatchTimes {
  bool is_reported = false;
  /* Times of the whole batch; else of its first request. */
  bool is_of_batch = false;
  uint64_t exec_start_ns = 0;
  uint64_t compute_start_ns = 0;
  uint64_t compute_end_ns = 0;
  uint64_t exec_end_ns = 0;
};

/* Those that this thread has reported since the last call. */
BatchTimes TakeBatchTimes();

}  // namespace host
