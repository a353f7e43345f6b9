// Renders a conversation to the text that a model was trained on, by the chat template of its tokenizer_config.json.
//
//   const ChatTemplate chat = ChatTemplate::read("model/tokenizer_config.json");
//   const std::string prompt = chat.render({{"user", "Hello"}}, true);       //
//   "<|im_start|>user\nHello<|im_end|>\n..."
//
// A subset of Jinja is interpreted: docs/generation.md lists it. Everything else is rejected, when the template is read
// as far as its statements are concerned, and when it is rendered for expressions.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera::train {

/// A message of a conversation.
struct ChatMessage {
  std::string role;     ///< "system", "user" or "assistant".
  std::string content;  ///< Text of the message.
};

/// A chat template. Immutable.
class TESSERA_API ChatTemplate {
 public:
  /// Creates a template from its text. `tokens`: values of variables such as bos_token. Throws NotSupported for a
  /// statement outside of the subset, and InvalidArgument if the text is malformed.
  explicit ChatTemplate(std::string_view text, std::map<std::string, std::string> tokens = {});
  /// Reads chat_template, or chat_template.jinja beside the file, and the special tokens of a tokenizer_config.json.
  /// Throws NotSupported if there is no template, or several.
  static ChatTemplate read(const std::filesystem::path& path);

  /// Returns the text of a conversation. With `begins_answer`, it ends where the answer of the assistant begins. Throws
  /// NotSupported for an expression outside of the subset, and InvalidArgument if the template rejects the messages.
  [[nodiscard]] std::string render(std::span<const ChatMessage> messages, bool begins_answer) const;
  /// Returns the values of the variables for special tokens, such as eos_token.
  [[nodiscard]] const std::map<std::string, std::string>& tokens() const { return tokens_; }

 private:
  struct Node;
  std::map<std::string, std::string> tokens_;
  std::shared_ptr<const std::vector<Node>> nodes_;
};

}  // namespace tessera::train
