// tokenizer.json and back. In such a file tokens are written by one printable character for each byte (GPT-2's table:
// printable bytes of Latin-1 are themselves, the others follow from U+0100 on; a space is U+0120).
#pragma once

#include <string>
#include <string_view>

#include "tessera/train/data/detail/bpe.h"

namespace tessera::train::detail {

/// Reads the text of a file; `path` is for errors. IoError: it is no such file, or it contradicts itself. NotSupported:
/// it asks for something that encoding would not do.
Bpe read_bpe(std::string_view json, const std::string& path);
/// The text of a file that read_bpe() reads back to the same.
std::string write_bpe(const Bpe& bpe);

}  // namespace tessera::train::detail
