#include "tessera/train/checkpoint/detail/staging.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/streaming_copy.h"
#include "tessera/device/device.h"
#include "tessera/ops/pointwise/convert.h"
#include "tessera/tensor/call.h"
#include "tessera/tensor/device_context.h"

namespace tessera::train::detail {
namespace {

// One copy of host memory.
struct HostCopy {
  std::byte* to;
  const std::byte* from;
  std::size_t nbytes;
};

}  // namespace

void Staging::copy(const CheckpointState& state, const std::vector<FileShard>& pieces) {
  const tensor::GradModeScope no_grad(false);
  std::vector<Tensor> parts;
  device::Device device = tensor::host_device();
  for (const FileShard& piece : pieces) {
    const Tensor part = state.tensors[piece.tensor].second.local();
    TESSERA_CHECK(part && part.nbytes() == piece.nbytes, "checkpoint: tensor '", state.tensors[piece.tensor].first,
                  "' must have the local shard of its layout on this rank");
    TESSERA_CHECK(!tensor::current_stream(part.device()).is_capturing(),
                  "checkpoint: cannot save during a capture; save between replays");
    parts.push_back(part.is_contiguous() ? part : ops::contiguous(part));
    if (part.device_kind() != tensor::kHostKind) device = part.device();
  }
  nbytes_ = pieces.empty() ? 0 : pieces.back().offset + pieces.back().nbytes;
  copied_.clear();
  if (nbytes_ == 0) return;
  if (!memory_ || memory_.nbytes() < nbytes_) {
    memory_ = {};  // first, so that there are not two
    memory_ = device.allocate_pinned(nbytes_);
  }
  std::vector<HostCopy> copies;
  std::vector<device::Access> accesses;
  std::vector<device::Stream> streams;
  device::Stream host_stream;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const device::Stream& stream = tensor::current_stream(parts[i].device());
    parts[i].storage().use_on(stream);
    if (std::ranges::find(streams, stream.state(), &device::Stream::state) == streams.end()) streams.push_back(stream);
    std::byte* to = memory_.data() + pieces[i].offset;
    if (parts[i].device_kind() != tensor::kHostKind) {
      stream.copy(to, parts[i].data(), pieces[i].nbytes, "checkpoint");
      continue;
    }
    host_stream = stream;
    copies.push_back({to, parts[i].data(), pieces[i].nbytes});
    accesses.push_back(device::reads(parts[i].data(), pieces[i].nbytes));
  }
  if (!copies.empty()) {
    const auto run = [copies] {
      for (const HostCopy& each : copies) tessera::detail::streaming_copy(each.to, each.from, each.nbytes);
    };
    host_stream.run(run, {.label = "checkpoint", .accesses = accesses});
  }
  for (const device::Stream& stream : streams) {
    copied_.push_back(stream.device().create_event());
    stream.record(copied_.back());
  }
}

void Staging::wait() const {
  for (const device::Event& event : copied_) event.synchronize();
}

}  // namespace tessera::train::detail
