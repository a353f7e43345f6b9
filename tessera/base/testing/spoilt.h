// Corrupt texts and files for fuzzers of readers: truncated, repeated, with other bytes or values of other types.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tessera::fuzz {

/// Puts another value of any type after one of the colons or equals signs of a text (JSON, TOML).
inline std::string with_other_value(std::string text, std::mt19937_64& random) {
  static const char* const kValues[] = {"null", "\"x\"", "-1",   "1e999", "[]",  "{}",
                                        "true", "0",     "\"\"", "[[[[",  "1.5", "18446744073709551615"};
  std::vector<std::size_t> signs;
  for (std::size_t at = text.find_first_of(":="); at != std::string::npos; at = text.find_first_of(":=", at + 1))
    signs.push_back(at);
  if (signs.empty()) return text;
  const std::size_t begin = signs[random() % signs.size()] + 1;
  const std::size_t end = std::min(text.find_first_of(",}\n", begin), text.size());
  return text.replace(begin, end - begin, kValues[random() % std::size(kValues)]);
}

/// Returns up to 3000 random bytes.
inline std::string random_bytes(std::mt19937_64& random) {
  std::string bytes(random() % 3000, '\0');
  for (char& each : bytes) each = static_cast<char>(random());
  return bytes;
}

/// Returns the bytes with one to four faults.
inline std::string spoilt(std::string bytes, std::mt19937_64& random) {
  for (std::size_t times = 1 + random() % 4; times > 0; --times) {
    const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
    switch (random() % 10) {
      case 0: bytes.resize(at); break;
      case 1: bytes.insert(at, random() % 40, static_cast<char>(random())); break;
      case 2: bytes.erase(at, random() % 40); break;
      case 3: bytes.insert(at, "\n"); break;
      case 4: bytes.append(bytes.substr(at, 5000)); break;
      case 5:
        if (!bytes.empty()) bytes[at] = static_cast<char>(random());
        break;
      case 6:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
        break;
      default: bytes = with_other_value(std::move(bytes), random);
    }
  }
  return bytes;
}

}  // namespace tessera::fuzz
