#include "tessera/watch/detail/progress.h"

#include "tessera/comm/operation.h"

namespace tessera::watch::detail {

GroupPhase standing_of(const comm::detail::GroupProgress& progress) {
  if (progress.running != progress.ended) return progress.has_met ? GroupPhase::kMoving : GroupPhase::kPeer;
  if (progress.asked > progress.begun) return GroupPhase::kOwnStream;
  return progress.last > progress.noticed ? GroupPhase::kUnnoticed : GroupPhase::kIdle;
}

std::string text_of(const comm::detail::GroupProgress& progress) {
  if (progress.last == 0) return "";
  comm::Operation operation;
  operation.kind = static_cast<comm::OpKind>(progress.what & 0xff);
  operation.dtype = static_cast<DType>(progress.what >> 8 & 0xff);
  operation.reduction.kind = static_cast<Reduction>(progress.what >> 16 & 0xff);
  operation.count = static_cast<std::int64_t>(progress.count);
  const auto whom = static_cast<int>(static_cast<std::int32_t>(progress.what >> 32));
  (comm::is_message(operation.kind) ? operation.peer : operation.root) = whom;
  return comm::text_of(operation);
}

}  // namespace tessera::watch::detail
