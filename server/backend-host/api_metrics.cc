/* Custom metrics: each call is a question or a statement to the server, which keeps the values. */
#include <atomic>

#include "host.h"

using host::ASK;
using host::ErrorOf;
using host::TheHost;
using host::Writer;

namespace {

/* As in server/src/backend/python/questions.ts. */
enum Question : uint8_t { NEW_FAMILY = 4, NEW_METRIC = 5, METRIC_VALUE = 6 };
enum Statement : uint8_t { DROP_FAMILY = 65, DROP_METRIC = 66, INCREMENT_METRIC = 67, SET_METRIC = 68 };
/* The number of a message that gets no answer. */
constexpr uint32_t NO_ANSWER = 0;

std::atomic<uint32_t> next_number{1};

Writer StatementOf(Statement what, uint32_t number) {
  Writer message(ASK);
  message.U32(NO_ANSWER);
  message.U8(what);
  message.U32(number);
  return message;
}

TRITONSERVER_Error* Change(Statement what, TRITONSERVER_Metric* metric, double amount) {
  if (metric->kind == TRITONSERVER_METRIC_KIND_HISTOGRAM) {
    return ErrorOf(TRITONSERVER_ERROR_UNSUPPORTED, "TRITONSERVER_METRIC_KIND_HISTOGRAM does not support this call");
  }
  Writer message = StatementOf(what, metric->number);
  message.F64(amount);
  TheHost().connection.Send(message);
  return nullptr;
}

}  // namespace

TRITONSERVER_Error* TRITONSERVER_MetricFamilyNew(
    TRITONSERVER_MetricFamily** family, TRITONSERVER_MetricKind kind, const char* name, const char* description) {
  *family = nullptr;
  const uint32_t number = next_number++;
  const uint32_t question = TheHost().NextQuestion();
  Writer message(ASK);
  message.U32(question);
  message.U8(NEW_FAMILY);
  message.U32(number);
  message.String(name);
  message.String(description);
  message.U8(static_cast<uint8_t>(kind));
  TRITONSERVER_Error* error = TheHost().Ask(question, message, nullptr);
  if (error == nullptr) *family = new TRITONSERVER_MetricFamily{number, kind};
  return error;
}

TRITONSERVER_Error* TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily* family) {
  Writer message = StatementOf(DROP_FAMILY, family->number);
  TheHost().connection.Send(message);
  delete family;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MetricNew(
    TRITONSERVER_Metric** metric, TRITONSERVER_MetricFamily* family, const TRITONSERVER_Parameter** labels,
    uint64_t num_labels) {
  *metric = nullptr;
  const uint32_t number = next_number++;
  const uint32_t question = TheHost().NextQuestion();
  Writer message(ASK);
  message.U32(question);
  message.U8(NEW_METRIC);
  message.U32(number);
  message.U32(family->number);
  message.U32(static_cast<uint32_t>(num_labels));
  for (uint64_t i = 0; i < num_labels; i++) {
    message.String(labels[i]->name);
    message.String(labels[i]->text);
  }
  message.U32(0);  // bounds of a histogram
  TRITONSERVER_Error* error = TheHost().Ask(question, message, nullptr);
  if (error == nullptr) *metric = new TRITONSERVER_Metric{number, family->kind};
  return error;
}

TRITONSERVER_Error* TRITONSERVER_MetricDelete(TRITONSERVER_Metric* metric) {
  Writer message = StatementOf(DROP_METRIC, metric->number);
  TheHost().connection.Send(message);
  delete metric;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MetricValue(TRITONSERVER_Metric* metric, double* value) {
  const uint32_t question = TheHost().NextQuestion();
  Writer message(ASK);
  message.U32(question);
  message.U8(METRIC_VALUE);
  message.U32(metric->number);
  return TheHost().Ask(question, message, value);
}

TRITONSERVER_Error* TRITONSERVER_MetricIncrement(TRITONSERVER_Metric* metric, double value) {
  if (metric->kind == TRITONSERVER_METRIC_KIND_COUNTER && value < 0) {
    const std::string text = "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values";
    return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, text);
  }
  return Change(INCREMENT_METRIC, metric, value);
}

TRITONSERVER_Error* TRITONSERVER_MetricSet(TRITONSERVER_Metric* metric, double value) {
  if (metric->kind == TRITONSERVER_METRIC_KIND_COUNTER) {
    return ErrorOf(TRITONSERVER_ERROR_UNSUPPORTED, "TRITONSERVER_METRIC_KIND_COUNTER does not support Set");
  }
  return Change(SET_METRIC, metric, value);
}

TRITONSERVER_Error* TRITONSERVER_GetMetricKind(TRITONSERVER_Metric* metric, TRITONSERVER_MetricKind* kind) {
  *kind = metric->kind;
  return nullptr;
}
