/* Backend, model, instance, their statistics and memory. Source: tritonbackend.h, "Backend", "Model", "ModelInstance". */
#include <cstdlib>
#include <string>

#include "host.h"

using host::ErrorOf;

namespace {

constexpr uint32_t CONFIG_VERSION = 1;

TRITONSERVER_Error* ExpectConfigVersion(const TRITONBACKEND_Model* model, uint32_t version) {
  if (version == CONFIG_VERSION) return nullptr;
  const std::string text = "model '" + model->name + "' supports config version 1 only, got " + std::to_string(version);
  return ErrorOf(TRITONSERVER_ERROR_UNSUPPORTED, text);
}

/* The server counts the memory of processes itself. */
TRITONSERVER_Error* TakeUsage() { return nullptr; }

}  // namespace

TRITONSERVER_Error* TRITONBACKEND_ApiVersion(uint32_t* major, uint32_t* minor) {
  *major = TRITONBACKEND_API_VERSION_MAJOR;
  *minor = TRITONBACKEND_API_VERSION_MINOR;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_MemoryManagerAllocate(
    TRITONBACKEND_MemoryManager*, void** buffer, TRITONSERVER_MemoryType type, int64_t, uint64_t byte_size) {
  *buffer = nullptr;
  if (type != TRITONSERVER_MEMORY_CPU) {
    const std::string text = std::string(TRITONSERVER_MemoryTypeString(type)) + " memory is not available to backends";
    return ErrorOf(TRITONSERVER_ERROR_UNAVAILABLE, text);
  }
  *buffer = std::malloc(byte_size == 0 ? 1 : byte_size);
  if (*buffer != nullptr) return nullptr;
  return ErrorOf(TRITONSERVER_ERROR_UNAVAILABLE, "unable to allocate " + std::to_string(byte_size) + " bytes");
}

TRITONSERVER_Error* TRITONBACKEND_MemoryManagerFree(
    TRITONBACKEND_MemoryManager*, void* buffer, TRITONSERVER_MemoryType, int64_t) {
  std::free(buffer);
  return nullptr;
}

/* A field of an object, handed out. */
#define GETTER(FUNCTION, OBJECT, TYPE, EXPRESSION)                  \
  TRITONSERVER_Error* FUNCTION(OBJECT* object, TYPE* value) {       \
    *value = EXPRESSION;                                            \
    return nullptr;                                                 \
  }

GETTER(TRITONBACKEND_BackendName, TRITONBACKEND_Backend, const char*, object->name.c_str())
GETTER(TRITONBACKEND_BackendConfig, TRITONBACKEND_Backend, TRITONSERVER_Message*, &object->config)
GETTER(TRITONBACKEND_BackendExecutionPolicy, TRITONBACKEND_Backend, TRITONBACKEND_ExecutionPolicy, object->policy)
GETTER(TRITONBACKEND_BackendMemoryManager, TRITONBACKEND_Backend, TRITONBACKEND_MemoryManager*, &object->memory)
GETTER(TRITONBACKEND_BackendState, TRITONBACKEND_Backend, void*, object->state)
GETTER(TRITONBACKEND_ModelName, TRITONBACKEND_Model, const char*, object->name.c_str())
GETTER(TRITONBACKEND_ModelVersion, TRITONBACKEND_Model, uint64_t, object->version)
GETTER(TRITONBACKEND_ModelAutoCompleteConfig, TRITONBACKEND_Model, bool, object->wants_auto_complete)
GETTER(TRITONBACKEND_ModelServer, TRITONBACKEND_Model, TRITONSERVER_Server*, &object->server)
GETTER(TRITONBACKEND_ModelBackend, TRITONBACKEND_Model, TRITONBACKEND_Backend*, object->backend)
GETTER(TRITONBACKEND_ModelState, TRITONBACKEND_Model, void*, object->state)
GETTER(TRITONBACKEND_ModelInstanceName, TRITONBACKEND_ModelInstance, const char*, object->name.c_str())
GETTER(TRITONBACKEND_ModelInstanceKind, TRITONBACKEND_ModelInstance, TRITONSERVER_InstanceGroupKind, object->kind)
GETTER(TRITONBACKEND_ModelInstanceDeviceId, TRITONBACKEND_ModelInstance, int32_t, object->device_id)
GETTER(TRITONBACKEND_ModelInstanceHostPolicy, TRITONBACKEND_ModelInstance, TRITONSERVER_Message*, &object->host_policy)
/* Passive instances are not started at all. */
GETTER(TRITONBACKEND_ModelInstanceIsPassive, TRITONBACKEND_ModelInstance, bool, object == nullptr)
GETTER(
    TRITONBACKEND_ModelInstanceProfileCount, TRITONBACKEND_ModelInstance, uint32_t,
    static_cast<uint32_t>(object->profiles.size()))
/* The server refuses secondary devices before it asks a backend. */
GETTER(TRITONBACKEND_ModelInstanceSecondaryDeviceCount, TRITONBACKEND_ModelInstance, uint32_t, object == nullptr ? 1 : 0)
GETTER(TRITONBACKEND_ModelInstanceModel, TRITONBACKEND_ModelInstance, TRITONBACKEND_Model*, object->model)
GETTER(TRITONBACKEND_ModelInstanceState, TRITONBACKEND_ModelInstance, void*, object->state)
#undef GETTER

/* A field of an object that the backend sets. */
#define SETTER(FUNCTION, OBJECT, TYPE, FIELD)                 \
  TRITONSERVER_Error* FUNCTION(OBJECT* object, TYPE value) {  \
    object->FIELD = value;                                    \
    return nullptr;                                           \
  }

SETTER(TRITONBACKEND_BackendSetExecutionPolicy, TRITONBACKEND_Backend, TRITONBACKEND_ExecutionPolicy, policy)
SETTER(TRITONBACKEND_BackendSetState, TRITONBACKEND_Backend, void*, state)
SETTER(TRITONBACKEND_ModelSetState, TRITONBACKEND_Model, void*, state)
SETTER(TRITONBACKEND_ModelInstanceSetState, TRITONBACKEND_ModelInstance, void*, state)
SETTER(
    TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading, TRITONBACKEND_BackendAttribute, bool,
    loads_in_parallel)
#undef SETTER

TRITONSERVER_Error* TRITONBACKEND_BackendArtifacts(
    TRITONBACKEND_Backend* backend, TRITONBACKEND_ArtifactType* type, const char** location) {
  *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = backend->folder.c_str();
  return nullptr;
}

/* Instance groups are decided by the configuration: a preference would come too late. */
TRITONSERVER_Error* TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
    TRITONBACKEND_BackendAttribute*, TRITONSERVER_InstanceGroupKind kind, uint64_t, const uint64_t*, uint64_t) {
  const std::string text =
      std::string("the preferred instance group KIND_") + TRITONSERVER_InstanceGroupKindString(kind) + " is ignored";
  host::LogLine(TRITONSERVER_LOG_WARN, __FILE__, __LINE__, text);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelRepository(
    TRITONBACKEND_Model* model, TRITONBACKEND_ArtifactType* type, const char** location) {
  *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = model->folder.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelConfig(
    TRITONBACKEND_Model* model, uint32_t version, TRITONSERVER_Message** config) {
  *config = nullptr;
  TRITONSERVER_Error* error = ExpectConfigVersion(model, version);
  if (error == nullptr) *config = new TRITONSERVER_Message{model->config};
  return error;
}

TRITONSERVER_Error* TRITONBACKEND_ModelSetConfig(
    TRITONBACKEND_Model* model, uint32_t version, TRITONSERVER_Message* config) {
  TRITONSERVER_Error* error = ExpectConfigVersion(model, version);
  if (error == nullptr) model->config = config->json;
  return error;
}

TRITONSERVER_Error* TRITONBACKEND_ModelReportMemoryUsage(
    TRITONBACKEND_Model*, TRITONSERVER_BufferAttributes**, uint32_t) {
  return TakeUsage();
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportMemoryUsage(
    TRITONBACKEND_ModelInstance*, TRITONSERVER_BufferAttributes**, uint32_t) {
  return TakeUsage();
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceProfileName(
    TRITONBACKEND_ModelInstance* instance, uint32_t index, const char** name) {
  *name = nullptr;
  const auto& profiles = instance->profiles;
  if (index >= profiles.size()) return host::OutOfBounds("", index, "instance", profiles.size(), "profiles");
  *name = profiles[index].c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(
    TRITONBACKEND_ModelInstance*, uint32_t index, const char**, int64_t*) {
  return host::OutOfBounds("", index, "instance", 0, "secondary devices");
}
