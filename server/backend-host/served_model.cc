/* The life of a model and its instances: load, initialize, execute, finalize. Source: tritonbackend.h, "Backend Interface". */
#include "served_model.h"

#include "statistics.h"

namespace host {

namespace {

/* Kinds of instances, by the server's number. */
constexpr TRITONSERVER_InstanceGroupKind KINDS[] = {
    TRITONSERVER_INSTANCEGROUPKIND_CPU, TRITONSERVER_INSTANCEGROUPKIND_GPU, TRITONSERVER_INSTANCEGROUPKIND_MODEL};

/* Says how something started; deletes the error. Returns whether it did. */
bool Tell(Writer& message, TRITONSERVER_Error* error) {
  message.U8(error == nullptr ? 0 : 1);
  message.U8(error == nullptr ? 0 : static_cast<uint8_t>(error->code));
  message.String(error == nullptr ? "" : error->message);
  const bool is_fine = error == nullptr;
  delete error;
  return is_fine;
}

void LogFailure(const std::string& what, TRITONSERVER_Error* error) {
  if (error == nullptr) return;
  LogLine(TRITONSERVER_LOG_ERROR, __FILE__, __LINE__, what + " failed: " + error->message);
  delete error;
}

}  // namespace

TRITONSERVER_Error* ServedModel::Start(const std::string& path) {
  TRITONSERVER_Error* error = library.Open(path);
  if (error == nullptr && library.initialize != nullptr) error = library.initialize(&backend);
  if (error == nullptr && library.attributes != nullptr) error = library.attributes(&backend, &backend.attributes);
  if (error == nullptr && library.has_batcher) {
    const std::string text = "the library's custom batching functions (TRITONBACKEND_ModelBatch*) are not called";
    LogLine(TRITONSERVER_LOG_WARN, __FILE__, __LINE__, text);
  }
  if (error == nullptr && library.model_initialize != nullptr) error = library.model_initialize(&model);
  return error;
}

void ServedModel::Load(Reader& message) {
  const std::string path = message.String();
  backend.name = message.String();
  backend.config.json = message.String();
  backend.folder = path.substr(0, path.find_last_of('/'));
  model.backend = &backend;
  model.name = message.String();
  model.version = message.U64();
  model.folder = message.String();
  model.config = message.String();
  model.wants_auto_complete = message.Bool();
  model.is_decoupled = message.Bool();
  for (const std::string& state : message.Strings()) model.states.insert(state);
  TheHost().output_memory.Open(TheHost().output_descriptor, message.U64());
  Writer answer(LOADED);
  Tell(answer, Start(path));
  answer.String(model.config);
  TheHost().connection.Send(answer);
}

void ServedModel::AddInstance(Reader& message) {
  auto instance = std::make_unique<ServedInstance>(this, message);
  instances_[instance->Number()] = std::move(instance);
}

void ServedModel::CloseInstance(uint32_t number) {
  const auto found = instances_.find(number);
  if (found == instances_.end()) return;
  found->second->Close();
  instances_.erase(found);
  Writer answer(INSTANCE_CLOSED);
  answer.U32(number);
  TheHost().connection.Send(answer);
}

void ServedModel::Execute(std::unique_ptr<Batch> batch) {
  const auto found = instances_.find(batch->instance);
  if (found == instances_.end()) throw ProtocolError("a batch for an instance that does not exist");
  found->second->Execute(std::move(batch));
}

void ServedModel::Finalize() {
  for (auto& [number, instance] : instances_) instance->Close();
  instances_.clear();
  if (library.model_finalize != nullptr) LogFailure("TRITONBACKEND_ModelFinalize", library.model_finalize(&model));
  if (library.finalize != nullptr) LogFailure("TRITONBACKEND_Finalize", library.finalize(&backend));
  library.Close();
}

ServedInstance::ServedInstance(ServedModel* owner, Reader& message) : owner_(owner) {
  instance_.model = &owner->model;
  instance_.number = message.U32();
  instance_.name = message.String();
  instance_.kind = KINDS[message.U8() % 3];
  instance_.device_id = static_cast<int32_t>(message.I64());
  instance_.host_policy.json = message.String();
  instance_.profiles = message.Strings();
  thread_ = std::thread([this] { Run(); });
}

void ServedInstance::Execute(std::unique_ptr<Batch> batch) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(std::move(batch));
  }
  changed_.notify_one();
}

void ServedInstance::Close() {
  Execute(nullptr);
  thread_.join();
}

void ServedInstance::Run() {
  const bool is_usable = Initialize();
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_.empty(); });
    const std::unique_ptr<Batch> batch = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    if (batch == nullptr) break;
    RunBatch(*batch);
  }
  const Library& library = owner_->library;
  if (is_usable && library.instance_finalize != nullptr) {
    LogFailure("TRITONBACKEND_ModelInstanceFinalize", library.instance_finalize(&instance_));
  }
}

bool ServedInstance::Initialize() {
  TRITONSERVER_Error* error = nullptr;
  if (owner_->library.instance_initialize != nullptr) {
    std::unique_lock<std::mutex> alone(owner_->initializing, std::defer_lock);
    if (!owner_->backend.attributes.loads_in_parallel) alone.lock();
    error = owner_->library.instance_initialize(&instance_);
  }
  Writer answer(INSTANCE_READY);
  answer.U32(instance_.number);
  const bool is_usable = Tell(answer, error);
  TheHost().connection.Send(answer);
  return is_usable;
}

/* An error means that the backend took none of the requests: each is answered with it. */
void ServedInstance::RunBatch(Batch& batch) {
  std::vector<TRITONBACKEND_Request*>& requests = batch.requests;
  const auto count = static_cast<uint32_t>(requests.size());
  TRITONSERVER_Error* error = owner_->library.execute(&instance_, requests.data(), count);
  if (error != nullptr) {
    TRITONBACKEND_Response empty;
    for (TRITONBACKEND_Request* request : requests) {
      SendResponse(*request->channel, &empty, true, error);
      TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL);
    }
    delete error;
  }
  const BatchTimes times = TakeBatchTimes();
  Writer answer(EXECUTED);
  answer.U32(instance_.number);
  answer.U32(batch.number);
  answer.U8(times.is_reported ? 1 : 0);
  answer.U64(times.exec_start_ns);
  answer.U64(times.compute_start_ns);
  answer.U64(times.compute_end_ns);
  answer.U64(times.exec_end_ns);
  TheHost().connection.Send(answer);
}

}  // namespace host
