#include "tessera/ops/index/cuda/rejecting_op.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <mutex>
#include <vector>

namespace tessera::ops::cuda {
namespace {

// Words of a record. Streams whose slots differ by a multiple of kRecords share one.
constexpr std::size_t kWords = 4;
constexpr std::size_t kRecords = 512;

// The records of one device and its report word. They exist until the process ends, because graphs may write them.
struct DeviceReports {
  device::PinnedMemory memory;

  [[nodiscard]] std::int64_t* word(std::size_t at) const { return reinterpret_cast<std::int64_t*>(memory.data()) + at; }
  [[nodiscard]] std::int64_t* record(std::size_t at) const { return word(kWords * (1 + at)); }
};

std::mutex& mutex() {
  static auto& one = *new std::mutex;
  return one;
}
// Both are protected by the mutex.
std::vector<const char*>& op_names() {
  static auto& names = *new std::vector<const char*>;
  return names;
}
std::map<const device::DeviceState*, DeviceReports>& reports() {
  static auto& all = *new std::map<const device::DeviceState*, DeviceReports>;
  return all;
}

[[noreturn]] void fail(const char* op, Rejected why, std::int64_t value, std::int64_t bound, std::int64_t detail) {
  switch (why) {
    case Rejected::kIndex:
      TESSERA_THROW(InvalidArgument, op, ": index must be in [0, ", bound, ") along dimension ", detail, ", got ",
                    value);
    case Rejected::kProbability:
      TESSERA_THROW(InvalidArgument, op, ": a probability must be finite and at least 0, got ",
                    std::bit_cast<double>(value));
    case Rejected::kNoProbability:
      TESSERA_THROW(InvalidArgument, op, ": at least one of the ", bound, " probabilities must be positive");
    case Rejected::kStart:
      TESSERA_THROW(InvalidArgument, op, ": starts must be at least 0, got ", value, " of sequence ", detail);
    case Rejected::kColumns:
      TESSERA_THROW(InvalidArgument, op, ": tables must have ", value, " columns for sequence ", detail, ", got ",
                    bound);
    case Rejected::kPage: break;
  }
  TESSERA_THROW(InvalidArgument, op, ": pages must be in [0, ", bound, "), got ", value, " in sequence ", detail);
}

// Called after every wait: reads one word if nothing was rejected.
void look(const device::DeviceState& device, bool is_reset) {
  const DeviceReports* of = nullptr;
  const char* op = nullptr;
  std::int64_t words[kWords] = {};
  {
    const std::lock_guard lock(mutex());
    const auto at = reports().find(&device);
    if (at == reports().end()) return;
    of = &at->second;
    if (std::atomic_ref<std::int64_t>(*of->word(0)).load(std::memory_order_acquire) == 0) return;
    for (std::size_t r = 0; r < kRecords; ++r) {
      std::int64_t* record = of->record(r);
      const std::int64_t code = std::atomic_ref<std::int64_t>(record[3]).load(std::memory_order_acquire);
      if (code == 0) continue;
      if (is_reset) {
        std::atomic_ref<std::int64_t>(record[3]).store(0, std::memory_order_relaxed);
      } else if (op == nullptr) {
        for (std::size_t w = 0; w < kWords; ++w) words[w] = record[w];
        op = op_names()[static_cast<std::size_t>(code >> 8)];
      }
    }
    if (is_reset) std::atomic_ref<std::int64_t>(*of->word(0)).store(0, std::memory_order_release);
  }
  if (op != nullptr) fail(op, static_cast<Rejected>((words[3] & 0xff) - 1), words[0], words[1], words[2]);
}

}  // namespace

RejectingOp::RejectingOp(const char* name) {
  const std::lock_guard lock(mutex());
  id_ = static_cast<std::int64_t>(op_names().size());
  op_names().push_back(name);
}

Rejection RejectingOp::of(const tensor::KernelCall& call) const {
  const device::Device& device = call.where.context->device;
  const std::lock_guard lock(mutex());
  DeviceReports& of = reports()[device.state().get()];
  if (!of.memory) {
    of.memory = device.allocate_pinned((1 + kRecords) * kWords * sizeof(std::int64_t));
    std::fill_n(of.word(0), (1 + kRecords) * kWords, 0);
    device.set_wait_check(look);
  }
  return {of.record(call.stream().id().value() % kRecords), of.word(0), id_};
}

}  // namespace tessera::ops::cuda
