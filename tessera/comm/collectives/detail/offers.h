// Offers: values of a transfer that only its source rank knows.
#pragma once

#include <string>

#include "tessera/comm/collectives/collective.h"

namespace tessera::comm::detail {

/// A transfer with the values that its source offered.
struct Accepted {
  Transfer transfer;
  std::string wrong;  ///< reason why it cannot be made; empty if it can
};
/// Applies an offer from `transfer.from` to a transfer of `rank`.
Accepted accept(const Operation& operation, const Transfer& transfer, const Offer& offer, int rank, int size);

}  // namespace tessera::comm::detail
