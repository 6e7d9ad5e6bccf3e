/* A repository agent for tests. The parameter `notes` names a file that gets a line for each call; `mode` says what LOAD does. */
#include <cstdlib>
#include <fstream>
#include <string>

#include "agent_abi.h"

namespace {

std::string Parameter(TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model, const std::string& wanted) {
  uint32_t count = 0;
  TRITONREPOAGENT_ModelParameterCount(agent, model, &count);
  for (uint32_t i = 0; i < count; i++) {
    const char* name = nullptr;
    const char* value = nullptr;
    TRITONREPOAGENT_ModelParameter(agent, model, i, &name, &value);
    if (wanted == name) return value;
  }
  return "";
}

void Note(TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model, const std::string& text) {
  std::ofstream(Parameter(agent, model, "notes"), std::ios::app) << text << "\n";
}

TRITONSERVER_Error* Move(TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model) {
  const char* folder = nullptr;
  TRITONSERVER_Error* error =
      TRITONREPOAGENT_ModelRepositoryLocationAcquire(agent, model, TRITONREPOAGENT_ARTIFACT_FILESYSTEM, &folder);
  if (error != nullptr) return error;
  TRITONREPOAGENT_ModelSetState(model, const_cast<char*>(folder));
  TRITONREPOAGENT_ArtifactType type;
  const char* from = nullptr;
  TRITONREPOAGENT_ModelRepositoryLocation(agent, model, &type, &from);
  const std::string copy = std::string("cp -r '") + from + "/.' '" + folder + "' && mv '" + folder + "/1' '" + folder + "/5'";
  if (std::system(copy.c_str()) != 0) return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "cannot copy");
  Note(agent, model, folder);
  return TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, TRITONREPOAGENT_ARTIFACT_FILESYSTEM, folder);
}

bool HasAgents(TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model) {
  TRITONSERVER_Message* config = nullptr;
  TRITONREPOAGENT_ModelConfig(agent, model, 1, &config);
  const char* json = nullptr;
  size_t size = 0;
  TRITONSERVER_MessageSerializeToJson(config, &json, &size);
  const bool found = std::string(json, size).find("model_repository_agents") != std::string::npos;
  TRITONSERVER_MessageDelete(config);
  return found;
}

}  // namespace

extern "C" {

TRITON_EXPORT TRITONSERVER_Error* TRITONREPOAGENT_ModelInitialize(
    TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model) {
  Note(agent, model, "initialize");
  return nullptr;
}

TRITON_EXPORT TRITONSERVER_Error* TRITONREPOAGENT_ModelFinalize(
    TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model) {
  Note(agent, model, "finalize");
  void* folder = nullptr;
  TRITONREPOAGENT_ModelState(model, &folder);
  if (folder == nullptr) return nullptr;
  return TRITONREPOAGENT_ModelRepositoryLocationRelease(agent, model, static_cast<const char*>(folder));
}

TRITON_EXPORT TRITONSERVER_Error* TRITONREPOAGENT_ModelAction(
    TRITONREPOAGENT_Agent* agent, TRITONREPOAGENT_AgentModel* model, const TRITONREPOAGENT_ActionType action) {
  const char* names[] = {"load", "loadComplete", "loadFail", "unload", "unloadComplete"};
  Note(agent, model, names[action]);
  if (action != TRITONREPOAGENT_ACTION_LOAD) return nullptr;
  TRITONSERVER_LogMessage(TRITONSERVER_LOG_INFO, __FILE__, __LINE__, HasAgents(agent, model) ? "configured" : "bare");
  const std::string mode = Parameter(agent, model, "mode");
  if (mode == "refuse") return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "no licence for this model");
  if (mode == "crash") std::abort();
  return mode == "move" ? Move(agent, model) : nullptr;
}

}  // extern "C"
