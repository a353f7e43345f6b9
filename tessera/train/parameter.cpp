#include "tessera/train/parameter.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::train {

const Tensor& Weights::operator[](ParameterKind kind) const {
  const auto found = std::ranges::find(kinds_, kind);
  TESSERA_CHECK(found != kinds_.end(), "gather: the unit has no parameter '", row_of(kind).name, "'");
  return unit_[static_cast<std::size_t>(found - kinds_.begin())];
}

}  // namespace tessera::train
