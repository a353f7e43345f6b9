// `tessera generate`: continues prompts with a trained model.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/rank.h"
#include "tessera/base/regular_file.h"
#include "tessera/cli/checkpoint_verbs.h"
#include "tessera/cli/saved_model_options.h"
#include "tessera/cli/table.h"
#include "tessera/cli/verb.h"
#include "tessera/comm/launch_environment.h"
#include "tessera/comm/world.h"
#include "tessera/nn/generation.h"
#include "tessera/tensor/device_context.h"
#include "tessera/train/chat.h"
#include "tessera/train/generated_text.h"
#include "tessera/train/run.h"
#include "tessera/train/saved_model.h"

namespace tessera::cli {
namespace {

constexpr std::uint64_t kMaxPromptNbytes = std::uint64_t{64} << 20;

struct Options {
  SavedModelWords model;
  std::vector<std::string> prompts;
  std::string file;
  bool is_by_lines = false;
  bool is_interactive = false;
  bool is_chat = false;
  std::string system;
  std::int64_t max_tokens = 128;
  std::int64_t batch = 8;
  bool has_no_cache = false;
  std::vector<std::string> stops;
  nn::SamplingOptions sampling{.temperature = 0.8};
  bool shows_rate = false;
  bool json = false;
};

// Prints text as the terminal or the pipe should receive it.
void put(std::string_view text) {
  static const bool kIsTerminal = ::isatty(STDOUT_FILENO) == 1;
  const std::string shown = kIsTerminal ? train::printable(text) : std::string(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  std::fflush(stdout);
}

std::string read_stdin() {
  std::string text;
  std::vector<char> chunk(std::size_t{1} << 16);
  while (std::cin.read(chunk.data(), std::ssize(chunk)), std::cin.gcount() > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(std::cin.gcount()));
    TESSERA_CHECK_AS(IoError, text.size() <= kMaxPromptNbytes, "PROMPT: stdin must have at most ", kMaxPromptNbytes,
                     " bytes");
  }
  return text;
}

// Returns the prompts of the command line, the file or stdin.
std::vector<std::string> read_prompts(const Options& options) {
  TESSERA_CHECK(options.prompts.empty() || options.file.empty(), "PROMPT: excludes --file");
  if (!options.prompts.empty()) return options.prompts;
  std::string text;
  if (!options.file.empty()) {
    text = read_regular_file(options.file, kMaxPromptNbytes);
  } else {
    TESSERA_CHECK(comm::read_launch_environment().place.world_size == 1,
                  "PROMPT: required on the command line or by --file if a launcher starts several ranks");
    TESSERA_CHECK(::isatty(STDIN_FILENO) == 0, "PROMPT: required, also by --file or stdin; see --interactive");
    text = read_stdin();
  }
  std::vector<std::string> prompts;
  if (!options.is_by_lines) {
    if (text.ends_with('\n')) text.pop_back();
    return {text};
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) prompts.push_back(line);
  }
  TESSERA_CHECK(!prompts.empty(), "--lines: requires at least one line");
  return prompts;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A model, its tokenizer and, if requested, its chat template.
class Writer {
 public:
  explicit Writer(const Options& options)
      : options_(options),
        from_(saved_model_at(options.model.checkpoint)),
        on_device_(train::saved_model_device(from_, model_options(options.model), train::ModelUse::kGeneration)),
        saved_(train::open_saved_model(from_, model_options(options.model))),
        tokenizer_path_(train::saved_tokenizer(from_, saved_.config, options.model.tokenizer)),
        tokenizer_(train::open_tokenizer(tokenizer_path_)) {
    TESSERA_CHECK(options.is_chat || options.system.empty(), "--system: requires --chat");
    if (options.is_chat) chat_.emplace(train::Chat::open(tokenizer_path_, tokenizer_));
  }

  // Returns the tokens of a prompt. Throws InvalidArgument if they exceed the context.
  [[nodiscard]] std::vector<std::uint32_t> tokens_of(const std::string& prompt) const {
    if (chat_) {
      std::vector<train::ChatMessage> messages;
      if (!options_.system.empty()) messages.push_back({"system", options_.system});
      messages.push_back({"user", prompt});
      return checked(chat_->encode(messages));
    }
    std::vector<std::uint32_t> tokens = tokenizer_.encode(prompt);
    if (tokens.empty()) tokens.push_back(tokenizer_.end_of_text());
    return checked(std::move(tokens));
  }

  struct Result {
    std::string text;
    std::vector<std::uint32_t> tokens;
    nn::GenerationEnd end;
  };
  // Generates after each prompt. `on_text` receives text as it grows, by prompt. A single prompt may continue
  // `conversation`.
  std::vector<Result> write(const std::vector<std::vector<std::uint32_t>>& prompts,
                            const std::function<void(std::int64_t prompt, std::string_view more)>& on_text,
                            nn::Conversation* conversation = nullptr) {
    std::vector<train::GeneratedText> texts;
    for (std::int64_t i = 0; i < std::ssize(prompts); ++i) {
      texts.emplace_back(tokenizer_, options_.stops, [&on_text, i](std::string_view more) { on_text(i, more); });
    }
    const auto start = std::chrono::steady_clock::now();
    std::int64_t count = 0;
    const auto on_token = [&](std::int64_t prompt, std::uint32_t token) {
      if (count++ == 0) first_seconds_ = seconds_since(start);
      return texts[static_cast<std::size_t>(prompt)].add(token);
    };
    const std::vector<nn::Generated> all =
        conversation == nullptr ? nn::generate(*saved_.model, prompts, generation_options(), on_token)
                                : std::vector{conversation->generate(prompts[0], generation_options(), on_token)};
    seconds_ = seconds_since(start);
    count_ = count;
    std::vector<Result> results;
    for (std::size_t i = 0; i < all.size(); ++i) {
      texts[i].finish();
      results.push_back({texts[i].text(), all[i].tokens, all[i].end});
    }
    return results;
  }

  // Prints the time to the first token and the rate of all tokens to stderr.
  void print_rate() const {
    std::fprintf(stderr, "%lld tokens in %.2f s, %.1f tokens/s; first token after %.2f s\n",
                 static_cast<long long>(count_), seconds_, static_cast<double>(count_) / std::max(seconds_, 1e-9),
                 first_seconds_);
  }

  // Reads prompts from stdin until it ends, and answers each. With a chat template, the conversation continues.
  void converse() {
    const bool is_terminal = ::isatty(STDIN_FILENO) == 1;
    std::vector<train::ChatMessage> messages;
    if (!options_.system.empty()) messages.push_back({"system", options_.system});
    nn::Conversation conversation(*saved_.model);  // computes the tokens of earlier turns once
    while (true) {
      if (is_terminal) put("> ");
      std::string line;
      if (!std::getline(std::cin, line)) break;
      if (line.empty()) continue;
      try {
        answer(line, messages, conversation);
      } catch (const InvalidArgument& error) {  // such as a prompt that is too long
        std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      }
    }
    if (is_terminal) put("\n");
  }

 private:
  void answer(const std::string& line, std::vector<train::ChatMessage>& messages, nn::Conversation& conversation) {
    std::vector<train::ChatMessage> asked = messages;
    asked.push_back({"user", line});
    const std::vector<std::uint32_t> tokens = chat_ ? checked(chat_->encode(asked)) : tokens_of(line);
    const std::vector<Result> results = write(
        {tokens}, [](std::int64_t, std::string_view more) { put(more); }, &conversation);
    put("\n");
    if (options_.shows_rate) print_rate();
    asked.push_back({"assistant", results[0].text});
    messages = std::move(asked);
  }

  [[nodiscard]] std::vector<std::uint32_t> checked(std::vector<std::uint32_t> tokens) const {
    const std::int64_t context = saved_.config.model.sequence;
    TESSERA_CHECK(std::ssize(tokens) <= context, "PROMPT: must have at most ", context,
                  " tokens, the context of the model, got ", tokens.size());
    for (const std::uint32_t token : tokens) {
      TESSERA_CHECK(token < saved_.config.model.vocabulary, "PROMPT: tokens must be below model.vocabulary, ",
                    saved_.config.model.vocabulary, ", got ", token, "; use the tokenizer of the run");
    }
    return tokens;
  }

  [[nodiscard]] nn::GenerationOptions generation_options() const {
    nn::GenerationOptions out{.max_tokens = options_.max_tokens,
                              .context = saved_.config.model.sequence,
                              .vocabulary = tokenizer_.vocabulary(),
                              .batch = options_.batch,
                              .has_cache = !options_.has_no_cache,
                              .sampling = options_.sampling};
    out.end_tokens = {tokenizer_.end_of_text()};
    if (chat_) out.end_tokens.insert(out.end_tokens.end(), chat_->end_tokens().begin(), chat_->end_tokens().end());
    return out;
  }

  const Options& options_;
  train::CheckpointInfo from_;
  tensor::DeviceScope on_device_;
  train::SavedModel saved_;
  std::string tokenizer_path_;
  train::Tokenizer tokenizer_;
  std::optional<train::Chat> chat_;
  double first_seconds_ = 0;
  double seconds_ = 0;
  std::int64_t count_ = 0;
};

// Prints results of several prompts under headings.
void print_result(std::size_t number, const std::string& prompt, const std::string& text) {
  put((number == 0 ? "" : "\n") + fmt::format("== {}: {} ==\n{}\n", number + 1, shown(prompt), text));
}

void write_all(const Options& options, const std::vector<std::string>& prompts, bool is_first_rank) {
  Writer writer(options);
  std::vector<std::vector<std::uint32_t>> tokens;
  for (const std::string& prompt : prompts) tokens.push_back(writer.tokens_of(prompt));
  const bool is_streamed = is_first_rank && !options.json && prompts.size() == 1;
  const auto results = writer.write(tokens, [&](std::int64_t /*prompt*/, std::string_view more) {
    if (is_streamed) put(more);
  });
  if (!is_first_rank) return;
  if (is_streamed) put("\n");
  for (std::size_t i = 0; i < results.size() && !is_streamed; ++i) {
    if (!options.json) {
      print_result(i, prompts[i], results[i].text);
      continue;
    }
    const nlohmann::ordered_json json = {{"prompt", prompts[i]},
                                         {"prompt_tokens", tokens[i].size()},
                                         {"text", results[i].text},
                                         {"tokens", results[i].tokens},
                                         {"end", std::string(to_string(results[i].end))}};
    std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }
  if (options.shows_rate) writer.print_rate();
}

int generate(const Options& options) {
  const train::MeshConfig mesh = mesh_of(options.model.mesh);
  if (options.is_interactive) {
    TESSERA_CHECK(mesh.dp * mesh.fsdp * mesh.tp == 1, "--interactive: requires one rank, got --mesh ",
                  options.model.mesh);
    TESSERA_CHECK(options.prompts.empty() && options.file.empty() && !options.json,
                  "--interactive: excludes PROMPT, --file and --json");
    tessera::init();
    Writer(options).converse();
    return kDone;
  }
  const std::vector<std::string> prompts = read_prompts(options);
  on_ranks(mesh, [&] { write_all(options, prompts, current_place().rank == Rank(0)); });
  return kDone;
}

void add_sampling(Command& command, nn::SamplingOptions& sampling) {
  const auto add = [&](const char* name, Target target, const char* help, Range range) {
    command.add(name, target, help, {.group = "Sampling", .shows_default = true, .range = range});
  };
  add("--temperature", &sampling.temperature, "Divisor of the scores; 0: always the most likely token", {0, 1e6});
  add("--top-k", &sampling.top_k, "Draw from this many most likely tokens; 0: all", {0, 1e9});
  add("--top-p", &sampling.top_p, "Draw from the fewest tokens whose probabilities reach this sum; 1: all", {1e-9, 1});
  add("--min-p", &sampling.min_p, "Draw from tokens with at least this fraction of the highest probability", {0, 1});
  add("--repetition-penalty", &sampling.repetition_penalty,
      "Divisor of positive scores, and factor of others, of tokens that occur already", {1e-6, 1e6});
  command.add("--seed", &sampling.seed, "Seed of the random numbers", {.group = "Sampling", .shows_default = true});
}

Body declare(Command& command) {
  const auto options = std::make_shared<Options>();
  add_saved_model_options(command, options->model);
  command.add("PROMPT", &options->prompts, "Texts to continue, as one batch (default: stdin)");
  command.add("--file", &options->file, "File with the prompt", {.paths = Paths::kFiles});
  command.add("--lines", &options->is_by_lines, "Each line of the file or stdin is a prompt");
  command.add("--interactive", &options->is_interactive, "Read prompts line by line, and answer each");
  command.add("--chat", &options->is_chat, "Apply the chat template of tokenizer_config.json to the prompts");
  command.add("--system", &options->system, "With --chat: system message", {.type = "TEXT"});
  command.add("--max-tokens", &options->max_tokens, "Most tokens per prompt",
              {.type = "N", .shows_default = true, .range = Range{0, 1e9}});
  command.add("--stop", &options->stops, "End before this text; may be repeated", {.repeat = Repeat::kEach});
  command.add("--batch", &options->batch, "Most prompts that are computed together",
              {.type = "N", .shows_default = true, .range = Range{1, 65536}});
  command.add("--no-cache", &options->has_no_cache, "Compute all tokens again for each new one");
  command.add("--rate", &options->shows_rate, "Print tokens/s to stderr");
  command.add("--json", &options->json, "Print a line of JSON per prompt: prompt, prompt_tokens, text, tokens, end");
  add_sampling(command, options->sampling);
  command.footer =
      "One prompt is continued as it is written; several are printed when all have ended. A text ends at the "
      "end-of-text "
      "token,\na stop string, --max-tokens or a full context. A prompt longer than the context is an error.\n"
      "Equal options and seeds give equal text. The seed of prompt i does not depend on other prompts.\n"
      "Exit codes: 0 done; 1 a file cannot be read; 2 invalid options or prompts.\n"
      "  tessera generate run \"Once upon a time\" --max-tokens 200 --top-p 0.9\n"
      "  tessera generate run/checkpoints/step-000000200 --file prompts.txt --lines --json\n"
      "  echo \"To be\" | tessera generate run --mesh tp=2 --temperature 0\n"
      "  tessera generate Llama-3.2-1B --interactive --chat --system \"Answer briefly.\"";
  return [options] { return reported([&] { return generate(*options); }); };
}

const VerbRegistration kGenerate({"generate", "Continue prompts with a trained model", declare});

}  // namespace
}  // namespace tessera::cli
