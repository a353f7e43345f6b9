// What the calls of a stream check before they change anything.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "tessera/device/detail/state.h"
#include "tessera/device/stream.h"

namespace tessera::device::detail {

/// The state behind a handle; an error when the handle is empty.
StreamState& stream_state(const Stream& stream);
/// Name of the device a kernel belongs to.
std::string device_name(const Kernel& kernel);
/// `call` cannot be made while the stream captures; `instead` says what to do. The stream's lock is held.
void check_not_capturing(StreamState& stream, std::string_view call, std::string_view instead);
/// In capture, these addresses must not be pageable memory, which is not there any more when the graph is replayed.
void check_capturable(StreamState& stream, std::initializer_list<const void*> addresses);

}  // namespace tessera::device::detail
