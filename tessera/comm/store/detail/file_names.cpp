#include "tessera/comm/store/detail/file_names.h"

#include <cstdint>

#include "tessera/base/fnv1a.h"

namespace tessera::comm::detail {
namespace {

constexpr std::size_t kMaxNameBytes = 240;
constexpr char kHex[] = "0123456789abcdef";

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

std::string escaped(std::string_view key) {
  std::string name;
  for (const char c : key) {
    if (is_plain(c)) {
      name += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      name += {'%', kHex[byte >> 4U], kHex[byte & 15U]};
    }
  }
  return name;
}

// Two FNV-1a hashes with different starts: 128 bits. Readers of the file check the key anyway.
std::string hash_text(std::string_view key) {
  std::string text;
  for (const std::uint64_t start : {tessera::detail::kFnv1aStart, std::uint64_t{0x9ae16a3b2f90404f}}) {
    const std::uint64_t hash = tessera::detail::fnv1a(key, start);
    for (int shift = 60; shift >= 0; shift -= 4) text += kHex[(hash >> static_cast<unsigned>(shift)) & 15U];
  }
  return text;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string file_name_of(std::string_view key) {
  const std::string name = escaped(key);
  if (name.size() < kMaxNameBytes) return "k" + name;
  const std::string hash = hash_text(key);
  return "h" + name.substr(0, kMaxNameBytes - 2 - hash.size()) + "-" + hash;
}

std::optional<std::string> key_of(std::string_view name) {
  if (!name.starts_with('k')) return std::nullopt;
  std::string key;
  for (std::size_t i = 1; i < name.size(); ++i) {
    if (name[i] != '%') {
      key += name[i];
      continue;
    }
    if (i + 2 >= name.size()) return std::nullopt;
    const int high = digit(name[i + 1]);
    const int low = digit(name[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    key += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return key;
}

}  // namespace tessera::comm::detail
