/* A backend's shared library and the functions that it may export. Source: tritonbackend.h, "TRITONBACKEND_ISPEC". */
#pragma once

#include <string>

#include "triton_abi.h"

namespace host {

class Library {
 public:
  using OfBackend = TRITONSERVER_Error* (*)(TRITONBACKEND_Backend*);
  using OfModel = TRITONSERVER_Error* (*)(TRITONBACKEND_Model*);
  using OfInstance = TRITONSERVER_Error* (*)(TRITONBACKEND_ModelInstance*);
  using Execute = TRITONSERVER_Error* (*)(TRITONBACKEND_ModelInstance*, TRITONBACKEND_Request**, uint32_t);
  using Attributes = TRITONSERVER_Error* (*)(TRITONBACKEND_Backend*, TRITONBACKEND_BackendAttribute*);

  /* Null: success. */
  TRITONSERVER_Error* Open(const std::string& path);
  void Close();

  /* All but `execute` are optional. */
  OfBackend initialize = nullptr;
  OfBackend finalize = nullptr;
  Attributes attributes = nullptr;
  OfModel model_initialize = nullptr;
  OfModel model_finalize = nullptr;
  OfInstance instance_initialize = nullptr;
  OfInstance instance_finalize = nullptr;
  Execute execute = nullptr;
  bool has_batcher = false;

 private:
  template <typename Function>
  void Find(Function* function, const char* name);

  void* handle_ = nullptr;
};

}  // namespace host
