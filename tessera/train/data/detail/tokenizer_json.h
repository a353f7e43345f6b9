// Reads and writes tokenizer.json, the format of Hugging Face's library "tokenizers".
#pragma once

#include <string>
#include <string_view>

#include "tessera/train/data/detail/text_model.h"

namespace tessera::train::detail {

/// Parses a file; `path` is for errors. Throws IoError if the file is invalid or inconsistent, and NotSupported if it
/// requests an unsupported feature.
TextModel read_tokenizer(std::string_view json, const std::string& path);
/// Returns the text of a file that read_tokenizer() reads back to the same vocabulary. The model must be byte-level,
/// with words as GPT-2 has them.
std::string write_gpt2_tokenizer(const Bpe& bpe);

}  // namespace tessera::train::detail
