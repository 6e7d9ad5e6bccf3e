/* Loading of a backend's shared library. */
#include "library.h"

#include <dlfcn.h>

#include "host.h"

namespace host {

template <typename Function>
void Library::Find(Function* function, const char* name) {
  *function = reinterpret_cast<Function>(dlsym(handle_, name));
}

/* All symbols at once: a function that this host lacks is an error of the load, which names it. */
TRITONSERVER_Error* Library::Open(const std::string& path) {
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    return ErrorOf(TRITONSERVER_ERROR_NOT_FOUND, std::string("unable to load shared library: ") + dlerror());
  }
  Find(&initialize, "TRITONBACKEND_Initialize");
  Find(&finalize, "TRITONBACKEND_Finalize");
  Find(&attributes, "TRITONBACKEND_GetBackendAttribute");
  Find(&model_initialize, "TRITONBACKEND_ModelInitialize");
  Find(&model_finalize, "TRITONBACKEND_ModelFinalize");
  Find(&instance_initialize, "TRITONBACKEND_ModelInstanceInitialize");
  Find(&instance_finalize, "TRITONBACKEND_ModelInstanceFinalize");
  Find(&execute, "TRITONBACKEND_ModelInstanceExecute");
  has_batcher = dlsym(handle_, "TRITONBACKEND_ModelBatchIncludeRequest") != nullptr;
  if (execute != nullptr) return nullptr;
  const std::string text =
      "unable to find required entrypoint 'TRITONBACKEND_ModelInstanceExecute' in shared library: " + path;
  return ErrorOf(TRITONSERVER_ERROR_NOT_FOUND, text);
}

void Library::Close() {
  if (handle_ != nullptr) dlclose(handle_);
  handle_ = nullptr;
}

}  // namespace host
