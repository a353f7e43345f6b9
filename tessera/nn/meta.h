// Models without storage: in the scope, tensors of this thread have shapes, dtypes and layouts, and no values.
//
//   nn::Meta guard;
//   models::Llama model(config);                     // any size; memory::Allocator::of(tensor::meta_device()) counts
//
// A forward and a backward pass run on such a model too: they infer, allocate and free what the real ones do. Reading a
// value throws NotSupported.
#pragma once

#include "tessera/tensor/device_context.h"

namespace tessera::nn {

/// Creates tensors of this thread on the device "meta", for the lifetime of the scope. Scopes must nest.
class Meta {
 public:
  /// Begins the scope.
  Meta() : scope_(tensor::meta_device()) {}

 private:
  tensor::DeviceScope scope_;
};

}  // namespace tessera::nn
