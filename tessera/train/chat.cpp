#include "tessera/train/chat.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"

namespace tessera::train {
namespace {

// Returns the texts and numbers of the special tokens of a tokenizer.json.
std::map<std::string, std::uint32_t, std::less<>> special_tokens(const std::string& path, std::int64_t vocabulary) {
  std::map<std::string, std::uint32_t, std::less<>> all;
  try {
    std::ifstream stream(path);
    TESSERA_CHECK_AS(IoError, stream.good(), "'", path, "': cannot be read");
    const nlohmann::json json = nlohmann::json::parse(stream);
    for (const nlohmann::json& each : json.value("added_tokens", nlohmann::json::array())) {
      if (!each.value("special", false) || each.at("content").get<std::string>().empty()) continue;
      const auto number = each.at("id").get<std::int64_t>();
      TESSERA_CHECK_AS(IoError, number >= 0 && number < vocabulary, "'", path, "': added tokens must be in [0, ",
                       vocabulary, "), got ", number);
      all[each.at("content").get<std::string>()] = static_cast<std::uint32_t>(number);
    }
  } catch (const nlohmann::json::exception& error) {
    TESSERA_THROW(IoError, "'", path, "': cannot be read (", error.what(), ")");
  }
  return all;
}

}  // namespace

Chat Chat::open(const std::string& tokenizer_path, const Tokenizer& tokenizer) {
  TESSERA_CHECK_AS(NotSupported, tokenizer_path != "bytes",
                   "chat: requires a tokenizer.json with a tokenizer_config.json beside it, got bytes");
  std::filesystem::path config = tokenizer_path;
  config.replace_filename("tokenizer_config.json");
  Chat chat(ChatTemplate::read(config), tokenizer);
  chat.special_ = special_tokens(tokenizer_path, tokenizer.vocabulary());
  chat.find_end_tokens();
  return chat;
}

// The text that the template puts after an answer begins with the token that ends the answer.
void Chat::find_end_tokens() {
  const auto eos = template_.tokens().find("eos_token");
  if (eos != template_.tokens().end()) {
    const auto found = special_.find(eos->second);
    if (found != special_.end()) end_tokens_.push_back(found->second);
  }
  constexpr std::string_view kAnswer = "an answer";
  const ChatMessage messages[] = {{"user", "a question"}, {"assistant", std::string(kAnswer)}};
  const std::string text = template_.render(messages, false);
  const std::size_t at = text.rfind(kAnswer);
  if (at == std::string::npos) return;
  std::string_view rest = std::string_view(text).substr(at + kAnswer.size());
  while (rest.starts_with(' ') || rest.starts_with('\n')) rest.remove_prefix(1);
  for (const auto& [content, token] : special_) {
    if (rest.starts_with(content) && std::ranges::find(end_tokens_, token) == end_tokens_.end())
      end_tokens_.push_back(token);
  }
}

std::vector<std::uint32_t> Chat::encode(std::span<const ChatMessage> messages) const {
  for (const ChatMessage& message : messages) {
    for (const auto& [content, token] : special_) {
      TESSERA_CHECK(message.content.find(content) == std::string::npos,
                    "chat: messages must not contain the special token '", content, "'");
    }
  }
  return tokens_of(template_.render(messages, true));
}

std::vector<std::uint32_t> Chat::tokens_of(const std::string& text) const {
  std::vector<std::uint32_t> tokens;
  const auto add = [&](std::string_view part) {
    if (part.empty()) return;
    const std::vector<std::uint32_t> more = tokenizer_.encode(part);
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    // The longest special token that begins here.
    const std::pair<const std::string, std::uint32_t>* best = nullptr;
    for (const auto& each : special_) {
      if (std::string_view(text).substr(at).starts_with(each.first) &&
          (best == nullptr || each.first.size() > best->first.size()))
        best = &each;
    }
    if (best == nullptr) {
      ++at;
      continue;
    }
    add(std::string_view(text).substr(begin, at - begin));
    tokens.push_back(best->second);
    at += best->first.size();
    begin = at;
  }
  add(std::string_view(text).substr(begin));
  return tokens;
}

}  // namespace tessera::train
