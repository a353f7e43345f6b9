// Reads and writes tokenizer.json. Such a file writes tokens with one printable character per byte (the table of GPT-2:
// printable bytes of Latin-1 are themselves, the others follow from U+0100 on; a space is U+0120).
#pragma once

#include <string>
#include <string_view>

#include "tessera/train/data/detail/bpe.h"

namespace tessera::train::detail {

/// Parses a file; `path` is for errors. Throws IoError if the file is invalid or inconsistent, and NotSupported if it
/// requests an unsupported feature.
Bpe read_bpe(std::string_view json, const std::string& path);
/// Returns the text of a file that read_bpe() reads back to the same vocabulary.
std::string write_bpe(const Bpe& bpe);

}  // namespace tessera::train::detail
