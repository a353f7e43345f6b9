#include "tessera/nn/parameter.h"

#include "tessera/base/error.h"
#include "tessera/nn/detail/parameter_units.h"

namespace tessera::nn {

Tensor Parameter::tensor() const {
  if (slot_ == nullptr) return {};
  return slot_->units == nullptr ? slot_->leaf : slot_->units->read(*slot_);
}

const Tensor& Parameter::leaf() const {
  TESSERA_CHECK(slot_ != nullptr, "Parameter: must refer to a parameter, got an empty handle");
  return slot_->leaf;
}

}  // namespace tessera::nn
