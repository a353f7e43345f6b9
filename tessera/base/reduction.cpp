#include "tessera/base/reduction.h"

namespace tessera {

std::string_view to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum: return "sum";
    case Reduction::kAvg: return "avg";
    case Reduction::kMin: return "min";
    case Reduction::kMax: return "max";
    case Reduction::kProd: return "prod";
    case Reduction::kBitAnd: return "band";
    case Reduction::kBitOr: return "bor";
    case Reduction::kBitXor: return "bxor";
    case Reduction::kPremultiply: return "premultiplied sum";
  }
  return "no reduction";
}

}  // namespace tessera
