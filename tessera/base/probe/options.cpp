#include "tessera/base/probe/options.h"

#include <charconv>
#include <cstdlib>

#include "tessera/base/error.h"

namespace tessera::probe {
namespace {

constexpr std::string_view kForm = "on|off, size=32MiB, no_space=smaller|off|fail, dir=/dev/shm";

std::uint64_t parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  TESSERA_CHECK(static_cast<int>(error) == 0, "TESSERA_RECORD: size=", text, " is not a number of bytes; write 8MiB or 256KiB");
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  int shift = 0;
  if (unit == "KiB" || unit == "K") {
    shift = 10;
  } else if (unit == "MiB" || unit == "M") {
    shift = 20;
  } else if (unit == "GiB" || unit == "G") {
    shift = 30;
  } else {
    TESSERA_CHECK(unit.empty(), "TESSERA_RECORD: size=", text, " has unknown unit ", unit, "; use KiB, MiB or GiB");
  }
  TESSERA_CHECK(number <= (RecordOptions::kMaxBytes >> shift), "TESSERA_RECORD: size=", text, " is over 64 GiB");
  number <<= shift;
  TESSERA_CHECK(number >= RecordOptions::kMinBytes, "TESSERA_RECORD: size=", text,
                " is under the least, 256KiB; to record nothing say off");
  return number;
}

void parse_part(std::string_view part, RecordOptions& options) {
  const auto equals = part.find('=');
  const std::string_view key = part.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : part.substr(equals + 1);
  if (part == "on" || part == "off") {
    options.is_on = part == "on";
  } else if (key == "size") {
    options.nbytes = parse_size(value);
  } else if (key == "dir" && !value.empty()) {
    options.directory = value;
  } else if (part == "no_space=smaller") {
    options.on_no_space = NoSpace::kSmaller;
  } else if (part == "no_space=off") {
    options.on_no_space = NoSpace::kOff;
  } else if (part == "no_space=fail") {
    options.on_no_space = NoSpace::kFail;
  } else {
    TESSERA_THROW(InvalidArgument, "TESSERA_RECORD: unknown part \"", part, "\"; the form is ", kForm);
  }
}

}  // namespace

RecordOptions RecordOptions::parse(std::string_view text) {
  RecordOptions options;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    if (!part.empty()) parse_part(part, options);
  }
  return options;
}

RecordOptions RecordOptions::from_environment() {
  const char* text = std::getenv("TESSERA_RECORD");
  return text != nullptr ? parse(text) : RecordOptions{};
}

}  // namespace tessera::probe
