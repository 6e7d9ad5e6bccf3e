/*
 * The entry of the process: receives the server's messages and hands them on. Nothing here waits for the backend, so that
 * cancellations and credits reach it while it computes.
 */
#include <csignal>
#include <cstdio>
#include <thread>
#include <unistd.h>

#include "served_model.h"

namespace host {

namespace {

constexpr uint32_t PROTOCOL_VERSION = 1;
/* Descriptors that the server passes on. */
constexpr int SOCKET = 3;
constexpr int INPUTS = 4;
constexpr int OUTPUTS = 5;

/* Kinds of messages from the server. */
enum ServerKind : uint8_t {
  LOAD = 1,
  EXECUTE = 2,
  CANCEL = 3,
  CREDIT = 4,
  FINALIZE = 6,
  ANSWER = 7,
  RETURNED = 11,
  INSTANCE = 12,
  CLOSE_INSTANCE = 13,
};

using Body = std::shared_ptr<std::vector<uint8_t>>;

void Cancel(uint32_t key) {
  const auto channel = TheHost().Find(key);
  if (channel == nullptr) return;
  {
    std::lock_guard<std::mutex> lock(channel->mutex);
    channel->is_cancelled = true;
  }
  channel->credited.notify_all();
}

void Credit(uint32_t key, uint32_t count) {
  const auto channel = TheHost().Find(key);
  if (channel == nullptr) return;
  {
    std::lock_guard<std::mutex> lock(channel->mutex);
    channel->uncredited -= std::min(count, channel->uncredited);
  }
  channel->credited.notify_all();
}

/* Work that may take long is done in order, apart from the receiving thread. */
class Worker {
 public:
  Worker() : thread_([this] { Run(); }) {}

  void Do(Body message) { Add({std::move(message), nullptr}); }
  void Do(std::unique_ptr<Batch> batch) { Add({nullptr, std::move(batch)}); }

  TRITONBACKEND_Model* Model() { return &model_.model; }

 private:
  /* A message, or a batch that was read from one. */
  struct Task {
    Body body;
    std::unique_ptr<Batch> batch;
  };

  void Add(Task task) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

  void Run() {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      Task task = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      if (task.batch == nullptr) Take(task.body);
      else model_.Execute(std::move(task.batch));
    }
  }

  void Take(const Body& body) {
    Reader message(body->data(), body->size());
    const uint8_t kind = message.U8();
    if (kind == LOAD) model_.Load(message);
    else if (kind == INSTANCE) model_.AddInstance(message);
    else if (kind == CLOSE_INSTANCE) model_.CloseInstance(message.U32());
    else Finalize();
  }

  [[noreturn]] void Finalize() {
    model_.Finalize();
    Writer answer(FINALIZED);
    TheHost().connection.Send(answer);
    std::fflush(nullptr);
    _exit(0);
  }

  ServedModel model_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> waiting_;
  std::thread thread_;
};

void Take(const Body& body, Worker& worker) {
  Reader message(body->data(), body->size());
  switch (message.U8()) {
    case LOAD:
    case INSTANCE:
    case CLOSE_INSTANCE:
    case FINALIZE:
      worker.Do(body);
      break;
    case EXECUTE:
      worker.Do(ReadBatch(body, message, worker.Model()));
      break;
    case CANCEL:
      Cancel(message.U32());
      break;
    case CREDIT: {
      const uint32_t key = message.U32();
      Credit(key, message.U32());
      break;
    }
    case ANSWER:
      TheHost().Answered(message);
      break;
    case RETURNED:
      for (uint32_t left = message.U32(); left > 0; left--) TheHost().output_memory.Return(message.U64());
      break;
    default:
      throw ProtocolError("unknown kind of message");
  }
}

}  // namespace

void Serve() {
  std::signal(SIGPIPE, SIG_IGN);
  auto* host = new Host(SOCKET, INPUTS, OUTPUTS);
  Start(host);
  Writer hello(HELLO);
  hello.U32(PROTOCOL_VERSION);
  host->connection.Send(hello);
  auto* worker = new Worker();
  for (;;) {
    auto body = std::make_shared<std::vector<uint8_t>>();
    if (!host->connection.Receive(body.get())) _exit(0);
    Take(body, *worker);
  }
}

}  // namespace host

extern "C" TRITON_EXPORT int nereid_serve_backend() {
  try {
    host::Serve();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "backend host: %s\n", error.what());
    std::fflush(stderr);
  }
  _exit(1);
}
