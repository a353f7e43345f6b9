// Reads the steps of a tokenizer.json around its model: normalizer, pre-tokenizer, decoder, post-processor.
#pragma once

#include "tessera/train/data/detail/json_fields.h"
#include "tessera/train/data/detail/text_model.h"

namespace tessera::train::detail {

/// Reads "normalizer".
Normalizer read_normalizer(const JsonFields& fields, const nlohmann::json& value);
/// Reads "pre_tokenizer". Sets `is_byte_level` if its last step is "ByteLevel".
PreTokenizer read_pre_tokenizer(const JsonFields& fields, const nlohmann::json& value, bool& is_byte_level);
/// Reads "decoder". Without one, byte-level tokens are bytes.
Decoder read_decoder(const JsonFields& fields, const nlohmann::json& value, bool is_byte_level);
/// Reads "post_processor": appends to the prefix and the suffix of the model.
void read_post_processor(const JsonFields& fields, const nlohmann::json& value, TextModel& model);

}  // namespace tessera::train::detail
