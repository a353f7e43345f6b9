// The header of a safetensors file: read with every check there is, and made.
//
// Trusted is only that the bytes are there. The JSON is read by events, so that nothing is built that the checks have
// not seen: nesting is at most three deep, names and fields are unique, numbers are whole and fit. The tensors must
// then tile the bytes behind the header exactly, in some order: nothing overlaps, nothing is left over.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tensor/safetensors.h"

namespace tessera::tensor::detail {

/// What a header says.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        ///< in the order of their elements
  std::map<std::string, std::string> metadata;  ///< texts
  std::size_t data_offset = 0;                  ///< where the elements begin in the file
};

/// Bytes of the length at the start of a file.
inline constexpr std::size_t kLengthNbytes = 8;
/// The longest header that is read.
inline constexpr std::uint64_t kMostHeaderNbytes = 100'000'000;
/// The key that is no tensor.
inline constexpr std::string_view kMetadataName = "__metadata__";

/// The header of a file of these bytes. IoError or NotSupported say what is wrong with `path`.
SafetensorsHeader read_safetensors_header(std::string_view file, const std::string& path);
/// Length, JSON and spaces for these tensors, so that the elements begin at a multiple of 64 bytes. InvalidArgument
/// when a name is not UTF-8 or the header gets too long.
std::string make_safetensors_header(std::span<const SafetensorsEntry> entries,
                                    const std::map<std::string, std::string>& metadata, const std::string& path);
/// A name for errors: in quotes, cut when long.
std::string quoted_name(std::string_view name);

}  // namespace tessera::tensor::detail
