#include "tessera/base/error.h"

#include <fmt/format.h>

#include "tessera/base/rank.h"

namespace tessera {
namespace {

// Paths are shown from the source root, for any build directory.
std::string_view shown_path(std::string_view file) {
  const auto at = file.rfind("/tessera/");
  return at == std::string_view::npos ? file : file.substr(at + 1);
}

std::string full_text(ErrorKind kind, SourcePlace place, const std::string& message, const std::string& operands) {
  const RankPlace& here = current_place();
  std::string text = fmt::format("{}: {} [", to_string(kind), message);
  if (!operands.empty()) text += operands + "; ";
  if (here.world_size > 1) text += fmt::format("rank {}; ", here.rank.value());
  return text + fmt::format("{}:{}]", shown_path(place.file), place.line);
}

}  // namespace

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument: return "invalid argument";
    case ErrorKind::kOutOfMemory: return "out of memory";
    case ErrorKind::kDevice: return "device error";
    case ErrorKind::kTimeout: return "timeout";
    case ErrorKind::kAborted: return "aborted";
    case ErrorKind::kMismatch: return "mismatch";
    case ErrorKind::kNotSupported: return "not supported";
    case ErrorKind::kIo: return "i/o error";
  }
  return "error";
}

Error::Error(ErrorKind kind, SourcePlace place, std::string message, std::string operands)
    : std::runtime_error(full_text(kind, place, message, operands)),
      kind_(kind),
      place_(place),
      rank_(current_place().rank.value()),
      message_(std::move(message)),
      operands_(std::move(operands)) {}

namespace detail {
void append(std::string& out, const void* part) { out += fmt::format("{}", part); }
void append(std::string& out, double part) { out += fmt::format("{:g}", part); }
}  // namespace detail
}  // namespace tessera
