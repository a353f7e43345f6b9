// Reads the model of a tokenizer.json: its vocabulary and its merges.
#pragma once

#include "tessera/train/data/detail/json_fields.h"
#include "tessera/train/data/detail/text_model.h"

namespace tessera::train::detail {

/// Largest number of tokens.
inline constexpr std::size_t kMaxTokens = std::size_t{1} << 24;

/// Returns a value that must be the id of a token; `token` is for the error.
std::uint32_t read_token_id(const JsonFields& fields, const nlohmann::json& value, const std::string& token);
/// Reads "model" to the vocabulary of `made`, whose added tokens and is_byte_level must be set.
void read_model(const JsonFields& fields, const nlohmann::json& model, TextModel& made);

}  // namespace tessera::train::detail
