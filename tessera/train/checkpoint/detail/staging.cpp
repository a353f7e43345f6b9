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
    if (part.device_kind() == tensor::kHostKind) continue;
    TESSERA_CHECK(device == tensor::host_device() || device == part.device(),
                  "checkpoint: tensors must be on the host or on one other device, got ", device.name(), " and ",
                  part.device().name());
    device = part.device();
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
  device::Stream host_stream;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (parts[i].device_kind() != tensor::kHostKind) continue;
    host_stream = tensor::current_stream(parts[i].device());
    parts[i].storage().use_on(host_stream);
    copies.push_back({memory_.data() + pieces[i].offset, parts[i].data(), pieces[i].nbytes});
    accesses.push_back(device::reads(parts[i].data(), pieces[i].nbytes));
  }
  if (!copies.empty()) {
    const auto run = [copies] {
      for (const HostCopy& each : copies) tessera::detail::streaming_copy(each.to, each.from, each.nbytes);
    };
    host_stream.run(run, {.label = "checkpoint", .accesses = accesses});
    copied_.push_back(host_stream.device().create_event());
    host_stream.record(copied_.back());
  }
  if (device != tensor::host_device()) copy_from(tensor::current_stream(device), state, pieces, parts);
}

// Copies the tensors of another device than the host, beside the work that `current` still gets.
void Staging::copy_from(const device::Stream& current, const CheckpointState& state,
                        const std::vector<FileShard>& pieces, const std::vector<Tensor>& parts) {
  const device::Device device = current.device();
  if (!side_ || side_.device() != device) side_ = device.create_stream({.name = "checkpoint"});
  const device::Event produced = device.create_event();
  current.record(produced);
  side_.wait(produced);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (parts[i].device_kind() == tensor::kHostKind) continue;
    parts[i].storage().use_on(side_);
    side_.copy(memory_.data() + pieces[i].offset, parts[i].data(), pieces[i].nbytes, "checkpoint");
  }
  copied_.push_back(device.create_event());
  side_.record(copied_.back());
  if (state.on_copied) {
    state.on_copied(copied_.back());
  } else {
    current.wait(copied_.back());
  }
}

void Staging::wait() const {
  for (const device::Event& event : copied_) event.synchronize();
}

}  // namespace tessera::train::detail
