#include "tessera/comm/detail/backend_hint.h"

#include <vector>

namespace tessera::comm::detail {

std::string backend_hint(const std::function<bool(const Capabilities&)>& has) {
  std::vector<std::string_view> names;
  for (const BackendInfo& backend : all_backends()) {
    if (backend.is_suggested && has(backend.capabilities)) names.push_back(backend.name);
  }
  if (names.empty()) return "no backend of this build supports it";
  std::string text = "use backend ";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace tessera::comm::detail
