#include "tessera/device/host/detail/op_queue.h"

namespace tessera::device::host::detail {

OpQueue::~OpQueue() {
  for (QueueSegment* list : {head_, tail_spare_, returned_.load()}) {
    while (list != nullptr) delete std::exchange(list, list->next);
  }
}

void OpQueue::grow() {
  if (tail_spare_ == nullptr) tail_spare_ = returned_.exchange(nullptr);
  QueueSegment* fresh = tail_spare_;
  if (fresh != nullptr) {
    tail_spare_ = std::exchange(fresh->next, nullptr);
    spare_count_.fetch_sub(1);
  } else {
    fresh = new QueueSegment;
  }
  tail_->next = fresh;
  tail_ = fresh;
  tail_at_ = 0;
}

// The number of pushed operations was read before, so the link to the next segment is visible.
void OpQueue::leave_segment() {
  QueueSegment* left = std::exchange(head_, head_->next);
  head_at_ = 0;
  if (spare_count_.load() >= kMaxSpare) {
    delete left;
    return;
  }
  spare_count_.fetch_add(1);
  left->next = returned_.load();
  while (!returned_.compare_exchange_weak(left->next, left)) {
  }
}

}  // namespace tessera::device::host::detail
