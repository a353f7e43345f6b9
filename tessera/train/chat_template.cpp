#include "tessera/train/chat_template.h"

#include <algorithm>
#include <optional>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/regular_file.h"
#include "tessera/train/detail/template_expression.h"

namespace tessera::train {
namespace {

using detail::TemplateValue;

constexpr std::size_t kMaxOutput = std::size_t{64} << 20;
constexpr std::uint64_t kMaxFileNbytes = std::uint64_t{64} << 20;
// Templates of models run about ten statements per message. A bound ends nested loops that would run for years.
constexpr int kMaxStatements = 100'000;

std::string_view trimmed(std::string_view text) {
  const char* const blank = " \t\n\r";
  const std::size_t begin = text.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

// A text, {{ expression }} or {% statement %} of a template.
struct Piece {
  enum class Kind : std::uint8_t { kText, kExpression, kStatement };
  Kind kind;
  std::string text;
};

// Returns the position of the end mark of a tag. Marks in quotes do not count.
std::size_t end_of_tag(std::string_view text, std::size_t at, std::string_view mark) {
  char quote = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      if (c == '\\') {
        ++at;
      } else if (c == quote) {
        quote = 0;
      }
    } else if (mark != "#}" && (c == '\'' || c == '"')) {
      quote = c;
    } else if (text.substr(at).starts_with(mark)) {
      return at;
    }
  }
  TESSERA_THROW(InvalidArgument, "chat template: '", mark, "' is missing");
}

// Splits a template as Hugging Face renders it: a statement removes the line end after it, and the blanks before it if
// it is the first of its line. A minus sign inside of a tag removes all blanks beside it.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::vector<Piece> split() {
    std::size_t at = 0;
    while (at < text_.size()) {
      std::size_t tag = text_.find('{', at);
      while (tag != std::string_view::npos &&
             (tag + 1 == text_.size() || std::string_view("{%#").find(text_[tag + 1]) == std::string_view::npos))
        tag = text_.find('{', tag + 1);
      add_text(text_.substr(at, tag == std::string_view::npos ? tag : tag - at), tag);
      if (tag == std::string_view::npos) break;
      at = add_tag(tag);
    }
    return std::move(pieces_);
  }

 private:
  void add_text(std::string_view text, std::size_t tag) {
    if (removes_all_) {
      const std::size_t first = text.find_first_not_of(" \t\n\r");
      text = first == std::string_view::npos ? std::string_view() : text.substr(first);
    } else if (removes_line_end_ && text.starts_with('\n')) {
      text.remove_prefix(1);
    }
    if (tag != std::string_view::npos) {
      const bool has_minus = tag + 2 < text_.size() && text_[tag + 2] == '-';
      const std::size_t last = text.find_last_not_of(has_minus ? " \t\n\r" : " \t");
      const std::size_t end = last == std::string_view::npos ? 0 : last + 1;
      const bool is_line_start = end > 0 ? text[end - 1] == '\n' : starts_line(tag - text.size());
      if (has_minus || (text_[tag + 1] != '{' && is_line_start)) text = text.substr(0, end);
    }
    if (!text.empty()) pieces_.push_back({Piece::Kind::kText, std::string(text)});
  }
  // Returns true if no text or tag is on the line before this position.
  [[nodiscard]] bool starts_line(std::size_t at) const { return at == 0 || text_[at - 1] == '\n'; }

  std::size_t add_tag(std::size_t tag) {
    const char kind = text_[tag + 1];
    const std::string_view mark = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    const std::size_t end = end_of_tag(text_, tag + 2, mark);
    std::string_view inner = text_.substr(tag + 2, end - tag - 2);
    if (inner.starts_with('-') || inner.starts_with('+')) inner.remove_prefix(1);
    removes_all_ = inner.ends_with('-');
    removes_line_end_ = kind != '{';
    if (removes_all_) inner.remove_suffix(1);
    if (kind != '#')
      pieces_.push_back(
          {kind == '{' ? Piece::Kind::kExpression : Piece::Kind::kStatement, std::string(trimmed(inner))});
    return end + 2;
  }

  std::string_view text_;
  std::vector<Piece> pieces_;
  bool removes_all_ = false;
  bool removes_line_end_ = false;
};

std::string first_word(const std::string& text) { return text.substr(0, text.find_first_of(" \t\n(")); }

}  // namespace

struct ChatTemplate::Node {
  enum class Kind : std::uint8_t { kText, kPrint, kSet, kIf, kFor };
  Kind kind = Kind::kText;
  std::string text = {};    // kText: text; kPrint: expression; kSet: value; kIf: condition; kFor: list
  std::string target = {};  // kSet: "x" or "x.y"; kFor: the variable
  std::vector<Node> body = {};
  std::vector<Node> otherwise = {};  // kIf
};

namespace {

// Builds the tree of a template.
template <class Node>
class Builder {
 public:
  explicit Builder(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {}

  std::vector<Node> build() {
    std::vector<Node> nodes = block();
    TESSERA_CHECK(at_ == pieces_.size(), "chat template: '", pieces_[at_].text, "' has no beginning");
    return nodes;
  }

 private:
  // Reads up to a statement that ends or continues a block, which is left.
  std::vector<Node> block() {
    TESSERA_CHECK_AS(NotSupported, ++depth_ < 100, "chat template: more than 100 nested blocks are not supported");
    std::vector<Node> nodes;
    for (; at_ < pieces_.size(); ++at_) {
      const Piece& piece = pieces_[at_];
      if (piece.kind == Piece::Kind::kText) {
        nodes.push_back({.kind = Node::Kind::kText, .text = piece.text});
      } else if (piece.kind == Piece::Kind::kExpression) {
        nodes.push_back({.kind = Node::Kind::kPrint, .text = piece.text});
      } else if (!add_statement(piece.text, nodes)) {
        break;
      }
    }
    --depth_;
    return nodes;
  }

  bool add_statement(const std::string& text, std::vector<Node>& nodes) {
    const std::string word = first_word(text);
    if (word == "endif" || word == "endfor" || word == "else" || word == "elif") return false;
    const std::string rest(trimmed(std::string_view(text).substr(word.size())));
    if (word == "set") {
      const std::size_t equals = rest.find('=');
      TESSERA_CHECK_AS(NotSupported, equals != std::string::npos, "chat template: '", text, "' is not supported");
      nodes.push_back({.kind = Node::Kind::kSet,
                       .text = std::string(trimmed(std::string_view(rest).substr(equals + 1))),
                       .target = std::string(trimmed(std::string_view(rest).substr(0, equals)))});
    } else if (word == "if") {
      nodes.push_back(condition(rest));
    } else if (word == "for") {
      const std::size_t in = rest.find(" in ");
      const std::string variable(trimmed(std::string_view(rest).substr(0, in)));
      TESSERA_CHECK_AS(NotSupported,
                       in != std::string::npos && variable.find(',') == std::string::npos &&
                           rest.find(" if ", in) == std::string::npos,
                       "chat template: '", text, "' is not supported");
      ++at_;
      Node node{.kind = Node::Kind::kFor, .text = rest.substr(in + 4), .target = variable, .body = block()};
      expect("endfor");
      nodes.push_back(std::move(node));
    } else {
      TESSERA_THROW(NotSupported, "chat template: the statement '", text, "' is not supported");
    }
    return true;
  }
  Node condition(const std::string& text) {
    TESSERA_CHECK_AS(NotSupported, ++depth_ < 100, "chat template: more than 100 nested blocks are not supported");
    Node node = one_condition(text);
    --depth_;
    return node;
  }
  Node one_condition(const std::string& text) {
    ++at_;
    Node node{.kind = Node::Kind::kIf, .text = text, .body = block()};
    const std::string word = at_ < pieces_.size() ? first_word(pieces_[at_].text) : "";
    if (word == "elif") {
      node.otherwise.push_back(condition(std::string(trimmed(std::string_view(pieces_[at_].text).substr(4)))));
      return node;  // its end is the end of this one
    }
    if (word == "else") {
      ++at_;
      node.otherwise = block();
    }
    expect("endif");
    return node;
  }
  void expect(std::string_view word) {
    TESSERA_CHECK(at_ < pieces_.size() && first_word(pieces_[at_].text) == word, "chat template: '", word,
                  "' is missing");
  }

  std::vector<Piece> pieces_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

// Runs the tree.
template <class Node>
class Renderer {
 public:
  explicit Renderer(TemplateValue variables) : variables_(std::move(variables)) {}

  std::string render(const std::vector<Node>& nodes) {
    run(nodes);
    return std::move(out_);
  }

 private:
  void run(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      TESSERA_CHECK_AS(NotSupported, ++statements_ <= kMaxStatements, "chat template: more than ", kMaxStatements,
                       " statements for a conversation are not supported");
      switch (node.kind) {
        case Node::Kind::kText: out_ += node.text; break;
        case Node::Kind::kPrint: out_ += detail::text_of(value(node.text)); break;
        case Node::Kind::kSet: assign(node.target, value(node.text)); break;
        case Node::Kind::kIf: run(detail::is_true(value(node.text)) ? node.body : node.otherwise); break;
        case Node::Kind::kFor: loop(node); break;
      }
      TESSERA_CHECK_AS(NotSupported, out_.size() <= kMaxOutput, "chat template: a result above ", kMaxOutput,
                       " bytes is not supported");
    }
  }
  [[nodiscard]] TemplateValue value(const std::string& text) const {
    return detail::evaluate_expression(text, variables_);
  }
  void assign(const std::string& target, TemplateValue to) {
    const std::size_t dot = target.find('.');
    if (dot == std::string::npos) {
      variables_[target] = std::move(to);
      return;
    }
    const std::string name = target.substr(0, dot);
    TESSERA_CHECK_AS(NotSupported, variables_.contains(name) && variables_[name].is_object(), "chat template: set '",
                     target, "' is not supported: no namespace '", name, "'");
    variables_[name][target.substr(dot + 1)] = std::move(to);
  }
  // Variables that the body sets end with the loop, except members of a namespace.
  void loop(const Node& node) {
    const TemplateValue all = value(node.text);
    TESSERA_CHECK_AS(NotSupported, all.is_array() || all.is_discarded() || all.is_null(),
                     "chat template: a loop over '", node.text, "' is not supported");
    if (!all.is_array()) return;
    const TemplateValue before = variables_;
    for (std::size_t i = 0; i < all.size(); ++i) {
      variables_[node.target] = all[i];
      variables_["loop"] = {{"index", i + 1},
                            {"index0", i},
                            {"first", i == 0},
                            {"last", i + 1 == all.size()},
                            {"length", all.size()},
                            {"revindex", all.size() - i},
                            {"revindex0", all.size() - i - 1}};
      if (i > 0) variables_["loop"]["previtem"] = all[i - 1];
      if (i + 1 < all.size()) variables_["loop"]["nextitem"] = all[i + 1];
      run(node.body);
    }
    TemplateValue after = before;
    for (auto& [name, old] : after.items()) {
      if (old.is_object() && name != "loop" && variables_.contains(name)) old = variables_[name];
    }
    variables_ = std::move(after);
  }

  TemplateValue variables_;
  std::string out_;
  int statements_ = 0;
};

// Returns the text of a special token: a string, or an object with the text as content.
std::optional<std::string> token_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return std::nullopt;
}

std::string content_of(const std::filesystem::path& path) { return read_regular_file(path.string(), kMaxFileNbytes); }

}  // namespace

ChatTemplate::ChatTemplate(std::string_view text, std::map<std::string, std::string> tokens)
    : tokens_(std::move(tokens)),
      nodes_(std::make_shared<const std::vector<Node>>(Builder<Node>(Splitter(text).split()).build())) {}

ChatTemplate ChatTemplate::read(const std::filesystem::path& path) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(content_of(path));
  } catch (const nlohmann::json::exception& error) {
    TESSERA_THROW(IoError, "'", path.string(), "': cannot be read (", error.what(), ")");
  }
  std::map<std::string, std::string> tokens;
  for (const auto& [name, value] : json.items()) {
    const std::optional<std::string> text = token_text(value);
    if (text && name.ends_with("_token")) tokens[name] = *text;
  }
  const std::filesystem::path beside = std::filesystem::path(path).replace_filename("chat_template.jinja");
  if (std::filesystem::exists(beside)) return ChatTemplate(content_of(beside), std::move(tokens));
  TESSERA_CHECK_AS(NotSupported, json.contains("chat_template"), "'", path.string(),
                   "': no chat_template; the model was not trained for conversations, generate without --chat");
  TESSERA_CHECK_AS(NotSupported, json["chat_template"].is_string(), "'", path.string(),
                   "': several chat templates are not supported; keep one text as chat_template");
  return ChatTemplate(json["chat_template"].get<std::string>(), std::move(tokens));
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, bool begins_answer) const {
  TemplateValue variables = TemplateValue::object();
  for (const auto& [name, text] : tokens_) variables[name] = text;
  variables["messages"] = TemplateValue::array();
  for (const ChatMessage& message : messages)
    variables["messages"].push_back({{"role", message.role}, {"content", message.content}});
  variables["add_generation_prompt"] = begins_answer;
  return Renderer<Node>(std::move(variables)).render(*nodes_);
}

}  // namespace tessera::train
