#include "tessera/device/detail/stream_checks.h"

#include "tessera/base/error.h"

namespace tessera::device::detail {

StreamState& stream_state(const Stream& stream) {
  TESSERA_CHECK(stream.state() != nullptr, "Stream must not be empty; create one with Device::create_stream");
  stream.state()->owner.check("stream");
  return *stream.state();
}

std::string device_name(const Kernel& kernel) { return kernel.device() == nullptr ? "(none)" : kernel.device()->name; }

void check_not_capturing(StreamState& stream, std::string_view call, std::string_view instead) {
  TESSERA_CHECK(!stream.is_capturing(), call, " on ", stream.name, ", which is capturing: nothing runs in a capture; ",
                instead);
}

void check_capturable(StreamState& stream, std::initializer_list<const void*> addresses) {
  if (!stream.is_capturing()) return;
  for (const void* address : addresses) {
    TESSERA_CHECK_AS(
        NotSupported, stream.device->backend->is_capturable(address), "copy on ", stream.name, " in capture: ", address,
        " is pageable host memory, which a replay cannot rely on; copy from Device::allocate_pinned memory");
  }
}

}  // namespace tessera::device::detail
