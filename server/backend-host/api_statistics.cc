/*
 * Statistics that backends report. Times are nanoseconds of CLOCK_MONOTONIC. Source: tritonbackend.h, the functions
 * `TRITONBACKEND_ModelInstanceReport*`.
 */
#include "host.h"
#include "statistics.h"

using host::ErrorOf;

namespace host {

namespace {
/* Times of the batch that this thread executes. Each instance has a thread of its own. */
thread_local BatchTimes batch_times;

/* A backend that was compiled without statistics reports zeros. */
bool IsMeasured(uint64_t time_ns) { return time_ns != 0; }
}  // namespace

BatchTimes TakeBatchTimes() {
  const BatchTimes taken = batch_times;
  batch_times = BatchTimes();
  return taken;
}

}  // namespace host

/* The server counts a request as a success or a failure by its response. */
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance*, TRITONBACKEND_Request*, bool, uint64_t exec_start_ns, uint64_t compute_start_ns,
    uint64_t compute_end_ns, uint64_t exec_end_ns) {
  if (host::batch_times.is_of_batch || !host::IsMeasured(compute_end_ns)) return nullptr;
  host::batch_times = {true, false, exec_start_ns, compute_start_ns, compute_end_ns, exec_end_ns};
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance*, uint64_t, uint64_t exec_start_ns, uint64_t compute_start_ns, uint64_t compute_end_ns,
    uint64_t exec_end_ns) {
  if (!host::IsMeasured(compute_end_ns)) return nullptr;
  host::batch_times = {true, true, exec_start_ns, compute_start_ns, compute_end_ns, exec_end_ns};
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsNew(
    TRITONBACKEND_ModelInstanceResponseStatistics** statistics) {
  *statistics = new TRITONBACKEND_ModelInstanceResponseStatistics();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsDelete(
    TRITONBACKEND_ModelInstanceResponseStatistics* statistics) {
  delete statistics;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(
    TRITONBACKEND_ModelInstanceResponseStatistics*, TRITONBACKEND_ModelInstance*) {
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(
    TRITONBACKEND_ModelInstanceResponseStatistics* statistics, TRITONBACKEND_ResponseFactory* factory) {
  statistics->channel = factory->channel;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(
    TRITONBACKEND_ModelInstanceResponseStatistics* statistics, uint64_t start_ns) {
  statistics->start_ns = start_ns;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(
    TRITONBACKEND_ModelInstanceResponseStatistics* statistics, uint64_t start_ns) {
  statistics->output_start_ns = start_ns;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(
    TRITONBACKEND_ModelInstanceResponseStatistics* statistics, uint64_t end_ns) {
  statistics->end_ns = end_ns;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsSetError(
    TRITONBACKEND_ModelInstanceResponseStatistics* statistics, TRITONSERVER_Error* error) {
  statistics->has_error = error != nullptr;
  if (error != nullptr) statistics->code = error->code;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportResponseStatistics(
    TRITONBACKEND_ModelInstanceResponseStatistics* statistics) {
  if (statistics->channel == nullptr) {
    return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, "response statistics need a response factory");
  }
  if (!host::IsMeasured(statistics->end_ns)) return nullptr;
  host::Writer message(host::RESPONSE_STATISTICS);
  message.U32(statistics->channel->key);
  message.U64(statistics->start_ns);
  message.U64(statistics->output_start_ns);
  message.U64(statistics->end_ns);
  const bool is_cancel = statistics->has_error && statistics->code == TRITONSERVER_ERROR_CANCELLED;
  message.U8(is_cancel ? 2 : statistics->has_error ? 1 : 0);
  host::TheHost().connection.Send(message);
  return nullptr;
}
