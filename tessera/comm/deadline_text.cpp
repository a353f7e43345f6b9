#include "tessera/comm/deadline_text.h"

#include "tessera/base/error.h"

namespace tessera::comm::detail {

std::string text_of_deadline(std::chrono::nanoseconds deadline, std::chrono::nanoseconds extra) {
  const auto seconds = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  if (extra.count() == 0) return tessera::detail::concat(seconds(deadline), " s");
  return tessera::detail::concat(seconds(deadline + extra), " s (a deadline of ", seconds(deadline), " s, extended by ",
                                 seconds(extra), " s)");
}

}  // namespace tessera::comm::detail
