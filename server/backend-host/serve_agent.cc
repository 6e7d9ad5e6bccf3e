/*
 * The entry of a process that hosts a repository agent: opens its library, then calls it for each event of each model, in
 * order. The counterpart is server/src/backend/native-host/native-agent.ts.
 */
#include <csignal>
#include <cstdio>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <unistd.h>

#include "agent_abi.h"
#include "host.h"

namespace host {

namespace {

constexpr int AGENT_SOCKET = 3;
/* The kind of an answer: u32 number, u8 error (its code + 1; 0: none), string text, string folder. */
constexpr uint8_t AGENT_ANSWER = 90;

/* Kinds of messages from the server. */
enum AgentKind : uint8_t { OPEN_AGENT = 20, AGENT_LOAD = 21, AGENT_EVENT = 22 };

class AgentLibrary {
 public:
  TRITONSERVER_Error* Open(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return ErrorOf(TRITONSERVER_ERROR_NOT_FOUND, std::string("unable to load shared library: ") + dlerror());
    }
    Find(library, &initialize_, "TRITONREPOAGENT_Initialize");
    Find(library, &finalize_, "TRITONREPOAGENT_Finalize");
    Find(library, &model_initialize_, "TRITONREPOAGENT_ModelInitialize");
    Find(library, &model_finalize_, "TRITONREPOAGENT_ModelFinalize");
    Find(library, &action_, "TRITONREPOAGENT_ModelAction");
    if (action_ != nullptr) return initialize_ == nullptr ? nullptr : initialize_(&agent_);
    return ErrorOf(
        TRITONSERVER_ERROR_NOT_FOUND,
        "unable to find required entrypoint 'TRITONREPOAGENT_ModelAction' in shared library: " + path);
  }

  void Close() {
    if (finalize_ != nullptr) delete finalize_(&agent_);
  }

  TRITONSERVER_Error* Load(TRITONREPOAGENT_AgentModel* model) {
    TRITONSERVER_Error* error = model_initialize_ == nullptr ? nullptr : model_initialize_(&agent_, model);
    if (error != nullptr) return error;
    model->is_loading = true;
    error = action_(&agent_, model, TRITONREPOAGENT_ACTION_LOAD);
    model->is_loading = false;
    return error;
  }

  TRITONSERVER_Error* Tell(TRITONREPOAGENT_AgentModel* model, TRITONREPOAGENT_ActionType action) {
    return action_(&agent_, model, action);
  }

  TRITONSERVER_Error* Finalize(TRITONREPOAGENT_AgentModel* model) {
    return model_finalize_ == nullptr ? nullptr : model_finalize_(&agent_, model);
  }

 private:
  using OfAgent = TRITONSERVER_Error* (*)(TRITONREPOAGENT_Agent*);
  using OfModel = TRITONSERVER_Error* (*)(TRITONREPOAGENT_Agent*, TRITONREPOAGENT_AgentModel*);
  using OfAction =
      TRITONSERVER_Error* (*)(TRITONREPOAGENT_Agent*, TRITONREPOAGENT_AgentModel*, const TRITONREPOAGENT_ActionType);

  template <typename Function>
  static void Find(void* library, Function* function, const char* name) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
  }

  TRITONREPOAGENT_Agent agent_;
  OfAgent initialize_ = nullptr;
  OfAgent finalize_ = nullptr;
  OfModel model_initialize_ = nullptr;
  OfModel model_finalize_ = nullptr;
  OfAction action_ = nullptr;
};

void Answer(uint32_t number, TRITONSERVER_Error* error, const std::string& folder) {
  Writer message(AGENT_ANSWER);
  message.U32(number);
  message.U8(error == nullptr ? 0 : static_cast<uint8_t>(error->code + 1));
  message.String(error == nullptr ? "" : error->message);
  message.String(folder);
  delete error;
  TheHost().connection.Send(message);
}

class AgentServer {
 public:
  void Take(Reader& message) {
    const uint8_t kind = message.U8();
    const uint32_t number = message.U32();
    if (kind == OPEN_AGENT) Answer(number, library_.Open(message.String()), "");
    else if (kind == AGENT_LOAD) Load(number, message);
    else if (kind == AGENT_EVENT) Tell(number, message);
    else throw ProtocolError("unknown kind of message");
  }

  void Close() { library_.Close(); }

 private:
  void Load(uint32_t number, Reader& message) {
    auto model = std::make_unique<TRITONREPOAGENT_AgentModel>();
    const uint32_t key = message.U32();
    model->location = message.String();
    model->config = message.String();
    const std::vector<std::string> names = message.Strings();
    const std::vector<std::string> values = message.Strings();
    for (size_t i = 0; i < names.size() && i < values.size(); i++) model->parameters.emplace_back(names[i], values[i]);
    TRITONSERVER_Error* error = library_.Load(model.get());
    const std::string moved = model->moved;
    models_[key] = std::move(model);
    Answer(number, error, moved);
  }

  void Tell(uint32_t number, Reader& message) {
    const uint32_t key = message.U32();
    const auto action = static_cast<TRITONREPOAGENT_ActionType>(message.U8());
    const auto found = models_.find(key);
    if (found == models_.end()) {
      Answer(number, ErrorOf(TRITONSERVER_ERROR_NOT_FOUND, "the agent knows nothing of this model"), "");
      return;
    }
    TRITONSERVER_Error* error = library_.Tell(found->second.get(), action);
    if (action == TRITONREPOAGENT_ACTION_LOAD_FAIL || action == TRITONREPOAGENT_ACTION_UNLOAD_COMPLETE) {
      TRITONSERVER_Error* last = library_.Finalize(found->second.get());
      if (error == nullptr) error = last;
      else delete last;
      models_.erase(found);
    }
    Answer(number, error, "");
  }

  AgentLibrary library_;
  std::map<uint32_t, std::unique_ptr<TRITONREPOAGENT_AgentModel>> models_;
};

}  // namespace

void ServeAgent() {
  std::signal(SIGPIPE, SIG_IGN);
  auto* host = new Host(AGENT_SOCKET, -1, -1);
  Start(host);
  auto* server = new AgentServer();
  for (;;) {
    std::vector<uint8_t> body;
    if (!host->connection.Receive(&body)) {
      server->Close();
      _exit(0);
    }
    Reader message(body.data(), body.size());
    server->Take(message);
  }
}

}  // namespace host

extern "C" TRITON_EXPORT int nereid_serve_agent() {
  try {
    host::ServeAgent();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "agent host: %s\n", error.what());
    std::fflush(stderr);
  }
  _exit(1);
}
