#include "tessera/train/chat.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "tessera/base/error.h"

namespace tessera::train {
Chat Chat::open(const std::string& tokenizer_path, const Tokenizer& tokenizer) {
  TESSERA_CHECK_AS(NotSupported, tokenizer_path != "bytes",
                   "chat: requires a tokenizer.json with a tokenizer_config.json beside it, got bytes");
  std::filesystem::path config = tokenizer_path;
  config.replace_filename("tokenizer_config.json");
  Chat chat(ChatTemplate::read(config), tokenizer);
  chat.find_end_tokens();
  return chat;
}

// The text that the template puts after an answer begins with the token that ends the answer.
void Chat::find_end_tokens() {
  const auto add = [&](std::uint32_t token) {
    if (std::ranges::find(end_tokens_, token) == end_tokens_.end()) end_tokens_.push_back(token);
  };
  const auto eos = template_.tokens().find("eos_token");
  if (eos != template_.tokens().end()) {
    if (const auto token = tokenizer_.added_token(eos->second)) add(*token);
  }
  constexpr std::string_view kAnswer = "an answer";
  const ChatMessage messages[] = {{"user", "a question"}, {"assistant", std::string(kAnswer)}};
  const std::string text = template_.render(messages, false);
  const std::size_t at = text.rfind(kAnswer);
  if (at == std::string::npos) return;
  std::string_view rest = std::string_view(text).substr(at + kAnswer.size());
  while (rest.starts_with(' ') || rest.starts_with('\n')) rest.remove_prefix(1);
  const std::vector<std::uint32_t> tokens = tokenizer_.encode(rest, {.finds_special = true});
  if (!tokens.empty() && tokenizer_.is_special(tokens[0])) add(tokens[0]);
}

std::vector<std::uint32_t> Chat::encode(std::span<const ChatMessage> messages) const {
  for (const ChatMessage& message : messages) {
    for (const std::uint32_t token : tokenizer_.encode(message.content, {.finds_special = true})) {
      TESSERA_CHECK(!tokenizer_.is_special(token), "chat: messages must not contain special tokens, got '",
                    tokenizer_.decode({&token, 1}), "'");
    }
  }
  return tokenizer_.encode(template_.render(messages, true), {.finds_special = true});
}

}  // namespace tessera::train
