// Checks that the calls of a stream make before they change anything.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "tessera/device/detail/state.h"
#include "tessera/device/stream.h"

namespace tessera::device::detail {

/// Returns the state of a handle. Throws if the handle is empty.
StreamState& stream_state(const Stream& stream);
/// Returns the name of the device of a kernel.
std::string device_name(const Kernel& kernel);
/// Throws if the stream captures, since `call` is not allowed then; `instead` suggests an alternative. The stream's
/// lock is held.
void check_not_capturing(StreamState& stream, std::string_view call, std::string_view instead);
/// Throws in a capture if one of these addresses is pageable memory, which may be gone when the graph is replayed.
void check_capturable(StreamState& stream, std::initializer_list<const void*> addresses);

}  // namespace tessera::device::detail
