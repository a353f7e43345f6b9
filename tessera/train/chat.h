// Conversations as tokens: a chat template, and the special tokens of the tokenizer in its text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/train/chat_template.h"
#include "tessera/train/data/tokenizer.h"

namespace tessera::train {

/// Encodes conversations for one tokenizer. Immutable.
class TESSERA_API Chat {
 public:
  /// Reads the tokenizer_config.json beside a tokenizer.json. Throws NotSupported for "bytes", and what
  /// ChatTemplate::read() throws.
  static Chat open(const std::string& tokenizer_path, const Tokenizer& tokenizer);

  /// Returns the tokens of a conversation, up to where the answer begins. Throws InvalidArgument if a message contains
  /// the text of a special token.
  [[nodiscard]] std::vector<std::uint32_t> encode(std::span<const ChatMessage> messages) const;
  /// Returns the tokens that end an answer: eos_token, and the special token after an answer in the template.
  [[nodiscard]] const std::vector<std::uint32_t>& end_tokens() const { return end_tokens_; }

 private:
  Chat(ChatTemplate chat, Tokenizer tokenizer) : template_(std::move(chat)), tokenizer_(std::move(tokenizer)) {}
  void find_end_tokens();

  ChatTemplate template_;
  Tokenizer tokenizer_;
  std::vector<std::uint32_t> end_tokens_;
};

}  // namespace tessera::train
