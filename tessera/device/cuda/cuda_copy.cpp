// Copies and fills. The driver copies between device and pinned memory asynchronously, but blocks the caller if
// pageable memory takes part, and a caller that is blocked on a held stream never releases it. So pageable memory goes
// through a pinned buffer of the stream, and the host copy is a host function in the stream:
//
//   pageable -> device   [host function: memcpy to buffer] [copy buffer -> device]   per 4 MiB
//   device -> pageable   [copy device -> buffer] [host function: memcpy from buffer]
//
// Work on a stream is ordered, so one buffer is enough. Pinned memory is faster.
#include <algorithm>
#include <cstring>

#include "tessera/device/cuda/cuda_stream.h"
#include "tessera/device/cuda/host_call.h"

namespace tessera::device::cuda {
namespace {

constexpr std::size_t kStaging = std::size_t{4} << 20;

CUdeviceptr unified(const void* address) { return reinterpret_cast<CUdeviceptr>(address); }

std::byte* at(void* base, std::size_t offset) { return static_cast<std::byte*>(base) + offset; }
const std::byte* at(const void* base, std::size_t offset) { return static_cast<const std::byte*>(base) + offset; }

void copy_rows(const Copy2d& rows) {
  for (std::size_t row = 0; row < rows.height; ++row) {
    std::memmove(at(rows.to, row * rows.to_pitch), at(rows.from, row * rows.from_pitch), rows.width);
  }
}

void fill_items(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(at(to, i * item_nbytes), &pattern, item_nbytes);
}

CUDA_MEMCPY2D unified_2d(const Copy2d& rows) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = unified(rows.from);
  copy.srcPitch = rows.from_pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = unified(rows.to);
  copy.dstPitch = rows.to_pitch;
  copy.WidthInBytes = rows.width;
  copy.Height = rows.height;
  return copy;
}

}  // namespace

bool CudaStream::is_pageable(const void* address, const char* what) {
  if (context_.is_known(address)) return false;
  TESSERA_CHECK(!context_.is_reserved(address), what, ": nothing is mapped at ", address,
                ", which is in a reserved range; map memory there first");
  if (context_.captures().any()) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    TESSERA_CUDA(context_, cuStreamIsCapturing, stream_, &status);
    TESSERA_CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE, what, ": the memory at ", address,
                  " is pageable and cannot be used in a capture; use Device::allocate_pinned");
  }
  return true;
}

std::byte* CudaStream::staging() {
  if (staging_ == nullptr) {
    void* buffer = nullptr;
    TESSERA_CUDA(context_, cuMemHostAlloc, &buffer, kStaging, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    staging_ = static_cast<std::byte*>(buffer);
  }
  return staging_;
}

void CudaStream::run_unfailing(HostFunction body) { EagerCall::launch(context_, stream_, std::move(body), nullptr); }

void CudaStream::copy(void* to, const void* from, std::size_t nbytes, const LaunchInfo& info) {
  if (nbytes == 0) return;
  context_.make_current();
  const bool to_pageable = is_pageable(to, "copy");
  const bool from_pageable = is_pageable(from, "copy");
  if (to_pageable && from_pageable) {
    run_unfailing([=] { std::memmove(to, from, nbytes); });
  } else if (to_pageable || from_pageable) {
    copy_through_staging(to, from, nbytes, from_pageable);
  } else {
    TESSERA_CUDA(context_, cuMemcpyAsync, unified(to), unified(from), nbytes, stream_);
    note_captured(info);
  }
}

void CudaStream::copy_through_staging(void* to, const void* from, std::size_t nbytes, bool from_pageable) {
  std::byte* buffer = staging();
  for (std::size_t done = 0; done < nbytes; done += kStaging) {
    const std::size_t part = std::min(kStaging, nbytes - done);
    if (from_pageable) {
      run_unfailing([=, source = at(from, done)] { std::memcpy(buffer, source, part); });
      TESSERA_CUDA(context_, cuMemcpyAsync, unified(at(to, done)), unified(buffer), part, stream_);
    } else {
      TESSERA_CUDA(context_, cuMemcpyAsync, unified(buffer), unified(at(from, done)), part, stream_);
      run_unfailing([=, target = at(to, done)] { std::memcpy(target, buffer, part); });
    }
  }
}

void CudaStream::copy_2d(const Copy2d& rows, const LaunchInfo& info) {
  if (rows.width == 0 || rows.height == 0) return;
  context_.make_current();
  const bool to_pageable = is_pageable(rows.to, "copy_2d");
  const bool from_pageable = is_pageable(rows.from, "copy_2d");
  if (to_pageable && from_pageable) {
    run_unfailing([=] { copy_rows(rows); });
  } else if (to_pageable || from_pageable) {
    copy_rows_through_staging(rows, from_pageable);
  } else {
    const CUDA_MEMCPY2D copy = unified_2d(rows);
    TESSERA_CUDA(context_, cuMemcpy2DAsync, &copy, stream_);
    note_captured(info);
  }
}

void CudaStream::copy_rows_through_staging(const Copy2d& rows, bool from_pageable) {
  if (rows.width > kStaging) {
    for (std::size_t row = 0; row < rows.height; ++row) {
      copy_through_staging(at(rows.to, row * rows.to_pitch), at(rows.from, row * rows.from_pitch), rows.width,
                           from_pageable);
    }
    return;
  }
  std::byte* buffer = staging();
  const std::size_t most = kStaging / rows.width;
  for (std::size_t done = 0; done < rows.height; done += most) {
    Copy2d part = rows;
    part.to = at(rows.to, done * rows.to_pitch);
    part.from = at(rows.from, done * rows.from_pitch);
    part.height = std::min(most, rows.height - done);
    Copy2d into = part;
    into.to = buffer;
    into.to_pitch = rows.width;
    Copy2d out_of = part;
    out_of.from = buffer;
    out_of.from_pitch = rows.width;
    const CUDA_MEMCPY2D copy = unified_2d(from_pageable ? out_of : into);
    if (from_pageable) run_unfailing([into] { copy_rows(into); });
    TESSERA_CUDA(context_, cuMemcpy2DAsync, &copy, stream_);
    if (!from_pageable) run_unfailing([out_of] { copy_rows(out_of); });
  }
}

void CudaStream::fill(void* to, std::uint32_t pattern, std::size_t item_nbytes, std::size_t count,
                      const LaunchInfo& info) {
  if (count == 0) return;
  context_.make_current();
  if (is_pageable(to, "fill")) {
    run_unfailing([=] { fill_items(to, pattern, item_nbytes, count); });
    return;
  }
  if (item_nbytes == 1) {
    TESSERA_CUDA(context_, cuMemsetD8Async, unified(to), static_cast<unsigned char>(pattern), count, stream_);
  } else if (item_nbytes == 2) {
    TESSERA_CUDA(context_, cuMemsetD16Async, unified(to), static_cast<unsigned short>(pattern), count, stream_);
  } else {
    TESSERA_CUDA(context_, cuMemsetD32Async, unified(to), pattern, count, stream_);
  }
  note_captured(info);
}

}  // namespace tessera::device::cuda
