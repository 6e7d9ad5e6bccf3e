/* Functions of tritonrepoagent.h that agents call. */
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent_abi.h"
#include "host.h"

using host::ErrorOf;

struct TRITONREPOAGENT_Agent {
  void* state = nullptr;
};

struct TRITONREPOAGENT_AgentModel {
  std::string location;
  /* Where the agent has put the model; "": nowhere. */
  std::string moved;
  /* Empty: the folder has no configuration. */
  std::string config;
  std::vector<std::pair<std::string, std::string>> parameters;
  /* Temporary folders of this model: they go with it. */
  std::set<std::string> acquired;
  bool is_loading = false;
  void* state = nullptr;
};

namespace {

TRITONSERVER_Error* ExpectFiles(TRITONREPOAGENT_ArtifactType type) {
  if (type == TRITONREPOAGENT_ARTIFACT_FILESYSTEM) return nullptr;
  return ErrorOf(TRITONSERVER_ERROR_UNSUPPORTED, "models of agents are in the local file system");
}

}  // namespace

TRITONSERVER_Error* TRITONREPOAGENT_ApiVersion(uint32_t* major, uint32_t* minor) {
  *major = TRITONREPOAGENT_API_VERSION_MAJOR;
  *minor = TRITONREPOAGENT_API_VERSION_MINOR;
  return nullptr;
}

TRITONSERVER_Error* TRITONREPOAGENT_ModelRepositoryLocation(
    TRITONREPOAGENT_Agent*, TRITONREPOAGENT_AgentModel* model, TRITONREPOAGENT_ArtifactType* type,
    const char** location) {
  *type = TRITONREPOAGENT_ARTIFACT_FILESYSTEM;
  *location = model->location.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONREPOAGENT_ModelRepositoryLocationAcquire(
    TRITONREPOAGENT_Agent*, TRITONREPOAGENT_AgentModel* model, const TRITONREPOAGENT_ArtifactType type,
    const char** location) {
  if (TRITONSERVER_Error* error = ExpectFiles(type)) return error;
  std::error_code failure;
  std::string folder = (std::filesystem::temp_directory_path(failure) / "nereid-agent-XXXXXX").string();
  if (failure || mkdtemp(folder.data()) == nullptr) {
    return ErrorOf(TRITONSERVER_ERROR_INTERNAL, "cannot create the temporary folder " + folder);
  }
  *location = model->acquired.insert(folder).first->c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONREPOAGENT_ModelRepositoryLocationRelease(
    TRITONREPOAGENT_Agent*, TRITONREPOAGENT_AgentModel* model, const char* location) {
  const auto found = model->acquired.find(location == nullptr ? "" : location);
  if (found == model->acquired.end()) {
    return ErrorOf(TRITONSERVER_ERROR_UNAVAILABLE, "No mutable location to be deleted");
  }
  std::error_code failure;
  std::filesystem::remove_all(*found, failure);
  model->acquired.erase(found);
  return failure ? ErrorOf(TRITONSERVER_ERROR_INTERNAL, failure.message()) : nullptr;
}

TRITONSERVER_Error* TRITONREPOAGENT_ModelRepositoryUpdate(
    TRITONREPOAGENT_Agent*, TRITONREPOAGENT_AgentModel* model, const TRITONREPOAGENT_ArtifactType type,
    const char* location) {
  if (TRITONSERVER_Error* error = ExpectFiles(type)) return error;
  if (!model->is_loading) {
    return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, "location can only be updated during TRITONREPOAGENT_ACTION_LOAD");
  }
  model->moved = location;
  return nullptr;
}

TRITONSERVER_Error* TRITONREPOAGENT_ModelParameterCount(
    TRITONREPOAGENT_Agent*, TRITONREPOAGENT_AgentModel* model, uint32_t* count) {
  *count = static_cast<uint32_t>(model->parameters.size());
  return nullptr;
}

TRITONSERVER_Error* TRITONREPOAGENT_ModelParameter(
    TRITONREPOAGENT_Agent*, TRITONREPOAGENT_AgentModel* model, const uint32_t index, const char** name,
    const char** value) {
  if (index >= model->parameters.size()) {
    return ErrorOf(TRITONSERVER_ERROR_INVALID_ARG, "index out of range for model parameters");
  }
  *name = model->parameters[index].first.c_str();
  *value = model->parameters[index].second.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONREPOAGENT_ModelConfig(
    TRITONREPOAGENT_Agent*, TRITONREPOAGENT_AgentModel* model, const uint32_t config_version,
    TRITONSERVER_Message** config) {
  if (config_version != 1) {
    return ErrorOf(TRITONSERVER_ERROR_UNSUPPORTED, "model configuration version supported by this server is 1");
  }
  /* Agents read the message without a look at it, so one without content stands for no configuration. */
  *config = new TRITONSERVER_Message{model->config.empty() ? "{}" : model->config};
  return nullptr;
}

TRITONSERVER_Error* TRITONREPOAGENT_ModelState(TRITONREPOAGENT_AgentModel* model, void** state) {
  *state = model->state;
  return nullptr;
}

TRITONSERVER_Error* TRITONREPOAGENT_ModelSetState(TRITONREPOAGENT_AgentModel* model, void* state) {
  model->state = state;
  return nullptr;
}

TRITONSERVER_Error* TRITONREPOAGENT_State(TRITONREPOAGENT_Agent* agent, void** state) {
  *state = agent->state;
  return nullptr;
}

TRITONSERVER_Error* TRITONREPOAGENT_SetState(TRITONREPOAGENT_Agent* agent, void* state) {
  agent->state = state;
  return nullptr;
}
