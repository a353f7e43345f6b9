// `tessera tokenize`: converts text files to one file of tokens, with a given tokenizer, a new one, or bytes.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/cli/outputs.h"
#include "tessera/cli/table.h"
#include "tessera/cli/verb.h"
#include "tessera/train/data/text_files.h"
#include "tessera/train/data/token_file.h"
#include "tessera/train/data/tokenizer.h"
#include "tessera/train/progress.h"

namespace tessera::cli {
namespace {

using train::TokenFileHeader;
using train::TokenFileWriter;
using train::Tokenizer;
using train::TokenWidth;

struct Options {
  std::vector<std::string> files;
  std::string out;
  std::string tokenizer = "bytes";
  std::int64_t learn = 0;
  std::string save_tokenizer;
  std::string dtype;
};

// Returns the files that contain text. Throws for a file named directly that does not; in directories, others are
// skipped with a warning.
std::vector<std::string> text_files(const Options& options) {
  std::vector<std::string> texts;
  for (const std::string& named : options.files) {
    for (const std::filesystem::path& file : train::files_under(named)) {
      const std::optional<std::string> text = train::read_text(file);
      const bool is_named = file.string() == named;
      TESSERA_CHECK_AS(IoError, text || !is_named, "'", named, "' must be text, but contains NUL bytes");
      TESSERA_CHECK_AS(IoError, !text || !text->empty() || !is_named, "'", named, "' is empty");
      if (!text) {
        std::fprintf(stderr, "tessera: '%s' contains NUL bytes; skipped\n", file.c_str());
      } else if (!text->empty()) {
        texts.push_back(file.string());
      }
    }
  }
  TESSERA_CHECK_AS(IoError, !texts.empty(), "FILE: no text found");
  return texts;
}

Tokenizer make_tokenizer(const Options& options, const std::vector<std::string>& files, train::Progress& progress) {
  if (options.learn == 0) return options.tokenizer == "bytes" ? Tokenizer::bytes() : Tokenizer::read(options.tokenizer);
  std::vector<std::string> texts;
  for (const std::string& file : files) texts.push_back(train::read_text(file).value());
  train::PhaseProgress shown(progress, "learning", "tokens");
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return Tokenizer::learn(views, options.learn, [&](std::uint64_t done, std::uint64_t all) { shown.at(done, all); });
}

void print_summary(const Options& options, const TokenFileHeader& header, std::uint64_t text_nbytes) {
  const double per_token = static_cast<double>(text_nbytes) /
                           static_cast<double>(std::max<std::uint64_t>(1, header.tokens - header.documents));
  std::vector<std::pair<std::string, std::string>> entries = {{"file", options.out},
                                                              {"documents", std::to_string(header.documents)},
                                                              {"tokens", std::to_string(header.tokens)},
                                                              {"text_bytes", std::to_string(text_nbytes)},
                                                              {"bytes_per_token", fmt::format("{:.3f}", per_token)},
                                                              {"vocabulary", std::to_string(header.vocabulary)},
                                                              {"dtype", std::string(to_string(header.width))},
                                                              {"tokenizer", header.digest}};
  std::fputs(to_text(std::vector<PrintedSection>{{"tokens", std::move(entries)}}, stdout_style()).c_str(), stdout);
}

void check_outputs(const Options& options, std::vector<std::string> inputs) {
  if (options.learn == 0 && options.tokenizer != "bytes") inputs.push_back(Tokenizer::file_of(options.tokenizer));
  check_output("tokenize: --output", options.out, inputs);
  if (options.save_tokenizer.empty()) return;
  inputs.push_back(options.out);
  check_output("tokenize: --save-tokenizer", options.save_tokenizer, inputs);
}

int tokenize(const Options& options) {
  train::Progress progress({}, 0, stderr);
  const std::vector<std::string> files = text_files(options);
  check_outputs(options, files);
  const Tokenizer tokenizer = make_tokenizer(options, files, progress);
  const TokenWidth width = options.dtype.empty()    ? train::width_for(tokenizer.vocabulary())
                           : options.dtype == "u16" ? TokenWidth::kU16
                                                    : TokenWidth::kU32;
  TokenFileWriter writer(options.out, tokenizer, width);
  if (!options.save_tokenizer.empty()) tokenizer.write(options.save_tokenizer);
  std::uint64_t all_nbytes = 0;
  for (const std::string& file : files) all_nbytes += std::filesystem::file_size(file);
  train::PhaseProgress shown(progress, "tokenizing", "bytes");
  std::uint64_t text_nbytes = 0;
  for (const std::string& file : files) {
    const std::string text = train::read_text(file).value();
    writer.add_document(
        tokenizer.encode(text, [&](std::uint64_t done, std::uint64_t) { shown.at(text_nbytes + done, all_nbytes); }));
    text_nbytes += text.size();
    shown.at(text_nbytes, all_nbytes);
  }
  const TokenFileHeader header = writer.commit();
  progress.say("");  // the summary starts on a new line
  print_summary(options, header, text_nbytes);
  return kDone;
}

Body declare(Command& command) {
  const auto options = std::make_shared<Options>();
  command.add("FILE", &options->files, "Text files, or directories of text files; each file is one document",
              {.is_required = true, .paths = Paths::kFiles});
  command.add("-o,--output", &options->out, "Token file to write", {.is_required = true, .paths = Paths::kFiles});
  command.add("--tokenizer", &options->tokenizer, "bytes, or a tokenizer.json (BPE), or its directory",
              {.shows_default = true, .paths = Paths::kFiles});
  command.add("--learn", &options->learn, "Learn a tokenizer with this number of tokens from the files",
              {.range = Range{257, 1 << 24}, .needs = "--save-tokenizer", .excludes = "--tokenizer"});
  command.add("--save-tokenizer", &options->save_tokenizer, "File for the learned tokenizer.json",
              {.needs = "--learn", .paths = Paths::kFiles});
  command.add("--dtype", &options->dtype, "Width of a token (default: the narrower one that fits)",
              {.choices = {"u16", "u32"}});
  command.footer =
      "Each document ends with the end-of-text token of the tokenizer (bytes: 0). Special tokens in the text stay "
      "text.\n"
      "Learning holds all files in memory. Without a terminal: lines of key and value.\n"
      "  tessera tokenize docs README.md -o docs.tokens\n"
      "  tessera tokenize corpus -o corpus.tokens --learn 8192 --save-tokenizer tokenizer.json\n"
      "  tessera tokenize more -o more.tokens --tokenizer path/of/a/hugging-face-model --dtype u32";
  return [options]() -> int {
    try {
      return tokenize(*options);
    } catch (const Error& error) {  // concerns files or options: the source location does not matter
      std::fprintf(stderr, "tessera: %s\n", error.message().c_str());
      return error.kind() == ErrorKind::kInvalidArgument ? kUsage : kFailed;
    }
  };
}

const VerbRegistration kTokenize({"tokenize", "Convert text files to a token file", declare});

}  // namespace
}  // namespace tessera::cli
