// Reads and writes the header of a safetensors file. Internal to the library: safetensors.h and checkpoints write
// their files with it. Thread-safe.
//
// The reader trusts nothing but the presence of the bytes. It parses the JSON by events, so that nothing unchecked is
// built: nesting is at most three levels, names and fields are unique, numbers are integers that fit. The tensors must
// then tile the bytes after the header exactly, in some order: no overlaps and no gaps.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tensor/safetensors.h"

namespace tessera::tensor::detail {

/// Contents of a header.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< In the order of their elements.
  std::map<std::string, std::string> metadata;
  std::size_t data_offset = 0;  ///< Offset of the elements in the file.
};

/// Bytes of the length at the start of a file.
inline constexpr std::size_t kLengthNbytes = 8;
/// Maximum length of a header.
inline constexpr std::uint64_t kMaxHeaderNbytes = 100'000'000;
/// The key that is not a tensor.
inline constexpr std::string_view kMetadataName = "__metadata__";

/// Returns the header of a file with these bytes. Throws IoError or NotSupported, which names `path`, if it is invalid.
SafetensorsHeader read_safetensors_header(std::string_view file, const std::string& path);
/// Returns length, JSON and spaces for these tensors, padded so that the elements begin at a multiple of 64 bytes.
/// Throws InvalidArgument if a name is not UTF-8 or the header is too long.
std::string make_safetensors_header(std::span<const SafetensorsEntry> entries,
                                    const std::map<std::string, std::string>& metadata, const std::string& path);
/// Returns a name for errors: in quotes, truncated if long.
std::string quoted_name(std::string_view name);

}  // namespace tessera::tensor::detail
