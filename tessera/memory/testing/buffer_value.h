// A value written at three positions of a buffer, so that large buffers are cheap to check.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera::memory::testing {

inline constexpr std::uint32_t kTorn = 0xBAD0BAD0;  // the positions have different values

// Returns the positions of a value: untouched pages cost nothing.
inline std::array<std::byte*, 3> places(std::byte* data, std::size_t nbytes) {
  return {data, data + (nbytes - 4) / 2, data + nbytes - 4};
}

inline void write_value(std::byte* data, std::size_t nbytes, std::uint32_t value) {
  for (std::byte* place : places(data, nbytes)) std::memcpy(place, &value, sizeof value);
  // The positions may overlap in a small buffer: the value repeats, so that all read the same.
  if (nbytes < 12) {
    for (std::size_t i = 0; i < nbytes; ++i) std::memcpy(data + i, reinterpret_cast<std::byte*>(&value) + i % 4, 1);
  }
}

inline std::uint32_t read_value(std::byte* data, std::size_t nbytes) {
  std::uint32_t first = 0;
  std::memcpy(&first, data, sizeof first);
  if (nbytes < 12) {
    for (std::size_t i = 0; i < nbytes; ++i) {
      if (std::memcmp(data + i, reinterpret_cast<std::byte*>(&first) + i % 4, 1) != 0) return kTorn;
    }
    return first;
  }
  for (std::byte* place : places(data, nbytes)) {
    if (std::memcmp(place, &first, sizeof first) != 0) return kTorn;
  }
  return first;
}

}  // namespace tessera::memory::testing
