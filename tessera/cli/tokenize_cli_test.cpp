// Tests `tessera tokenize` from the command line.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "tessera/cli/testing/run_program.h"
#include "tessera/train/data/testing/small_tokenizer.h"
#include "tessera/train/data/token_file.h"

namespace tessera {
namespace {

using cli::testing::contains;
using cli::testing::content;
using cli::testing::Outcome;
using train::TokenFile;
using train::Tokenizer;

class Tokenize : public ::testing::Test {
 protected:
  void SetUp() override {
    char directory[] = "/tmp/tessera_tokenize_XXXXXX";
    ASSERT_NE(::mkdtemp(directory), nullptr);
    base_ = directory;
    std::filesystem::create_directory(base_ + "/text");
    write("text/b.txt", "two words");
    write("text/a.txt", "the theme of the theatre is the thesis");
  }
  void TearDown() override { std::filesystem::remove_all(base_); }
  [[nodiscard]] std::string path(const std::string& name) const { return base_ + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  [[nodiscard]] Outcome run(const std::string& arguments) const {
    return cli::testing::tessera("tokenize " + arguments, "cd " + base_ + " &&");
  }
  [[nodiscard]] std::string decoded(const std::string& name, const Tokenizer& tokenizer) const {
    const TokenFile file = TokenFile::open(path(name));
    std::vector<std::int32_t> tokens(file.tokens());
    file.read(0, tokens);
    return tokenizer.decode(std::vector<std::uint32_t>(tokens.begin(), tokens.end()));
  }

 private:
  std::string base_;
};

TEST_F(Tokenize, WritesBytesAndASummary) {
  const Outcome outcome = run("text -o x.tokens");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "") << "progress is for terminals";
  EXPECT_EQ(outcome.out,
            "tokens.file\tx.tokens\ntokens.documents\t2\ntokens.tokens\t49\ntokens.text_bytes\t47\n"
            "tokens.bytes_per_token\t1.000\ntokens.vocabulary\t256\ntokens.dtype\tu16\ntokens.tokenizer\t" +
                Tokenizer::bytes().digest() + "\n");
  EXPECT_EQ(decoded("x.tokens", Tokenizer::bytes()),
            std::string("the theme of the theatre is the thesis\0two words\0", 49));
}

TEST_F(Tokenize, LearnsATokenizerAndReadsItAgain) {
  const Outcome learned = run("text -o x.tokens --learn 276 --save-tokenizer t.json");
  EXPECT_EQ(learned.code, 0) << learned.err;
  EXPECT_TRUE(contains(learned.out, "tokens.vocabulary\t276\n")) << learned.out;
  const Tokenizer tokenizer = Tokenizer::read(path("t.json"));
  const std::string_view texts[] = {"the theme of the theatre is the thesis", "two words"};
  EXPECT_EQ(tokenizer.digest(), Tokenizer::learn(texts, 276).digest()) << "learned from all files";
  EXPECT_EQ(decoded("x.tokens", tokenizer),
            "the theme of the theatre is the thesis<|endoftext|>two words<|endoftext|>");
  const Outcome again = run("text -o y.tokens --tokenizer t.json");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(content(path("x.tokens")), content(path("y.tokens")));
  const Outcome wide = run("text/b.txt text/a.txt -o z.tokens --tokenizer t.json --dtype u32");
  EXPECT_EQ(wide.code, 0) << wide.err;
  EXPECT_TRUE(contains(wide.out, "tokens.dtype\tu32\n")) << wide.out;
  EXPECT_EQ(decoded("z.tokens", tokenizer), "two words<|endoftext|>the theme of the theatre is the thesis<|endoftext|>")
      << "files stay in the order they were named in";
}

TEST_F(Tokenize, ReadsTheDirectoryOfAModelAndTellsItsTokensApart) {
  std::filesystem::create_directory(path("model"));
  write("model/tokenizer.json", train::testing::small_sentencepiece().dump());
  const Outcome outcome = run("text/a.txt -o x.tokens --tokenizer model --dtype u32");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "tokens.vocabulary\t268\n")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "tokens.dtype\tu32\n")) << outcome.out;
  const Tokenizer tokenizer = Tokenizer::read(path("model"));
  EXPECT_EQ(decoded("x.tokens", tokenizer), "the theme of the theatre is the thesis</s>");
  EXPECT_EQ(TokenFile::open(path("x.tokens")).header()->digest, tokenizer.digest());
  const Outcome over = run("text -o model/tokenizer.json --tokenizer model");
  EXPECT_EQ(over.code, 2);
  EXPECT_TRUE(contains(over.err, "must not be an input")) << over.err;
}

TEST_F(Tokenize, RefusesAWidthTooSmall) {
  std::string text;
  for (int i = 0; i < 70000; ++i) text += " " + std::to_string(i * 7919 % 100003);
  write("many.txt", text);
  const Outcome outcome = run("many.txt -o x.tokens --learn 66000 --save-tokenizer t.json --dtype u16");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(contains(outcome.err, "u16 requires a vocabulary of at most 65536 tokens, got 66000; use u32"))
      << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(path("x.tokens")));
  EXPECT_FALSE(std::filesystem::exists(path("t.json"))) << "nothing is written by halves";
}

TEST_F(Tokenize, LeavesOutWhatIsNoText) {
  write("text/c.bin", std::string("x\0y", 3));
  const Outcome outcome = run("text -o x.tokens");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(contains(outcome.err, "text/c.bin' contains NUL bytes; skipped")) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "tokens.documents\t2\n")) << outcome.out;
  EXPECT_EQ(run("text/c.bin -o x.tokens").code, 1) << "one that was named must be text";
}

TEST_F(Tokenize, SaysInOneLineWhatIsWrong) {
  write("empty", "");
  struct Wrong {
    std::string arguments;
    int code;
    std::string said;
  };
  for (const auto& [arguments, code, said] : {
           Wrong{"missing.txt -o x", 1, "'missing.txt': No such file"},
           Wrong{"empty -o x", 1, "'empty' is empty"},
           Wrong{"text -o no/x", 1, "No such file"},
           Wrong{"text -o text", 1, "must be a file, got a directory"},
           Wrong{"text -o x --tokenizer no.json", 1, "'no.json': No such file"},
           Wrong{"text -o x --tokenizer text/a.txt", 1, "is not a tokenizer.json"},
           Wrong{"text -o x --learn 300", 2, "--save-tokenizer"},
           Wrong{"text -o x --save-tokenizer t", 2, "--learn"},
           Wrong{"text -o x --learn 300 --save-tokenizer t --tokenizer t", 2, "--tokenizer"},
           Wrong{"text -o x --learn 5000 --save-tokenizer t", 2, "the texts give only"},
           Wrong{"text -o x --learn 10 --save-tokenizer t", 2, "--learn"},
           Wrong{"text -o x --dtype u8", 2, "--dtype"},
           Wrong{"-o x", 2, "FILE"},
           Wrong{"text", 2, "--output"},
       }) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_TRUE(outcome.err.starts_with("tessera: ") && contains(outcome.err, said)) << arguments << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(path("x"))) << arguments;
  }
}

TEST_F(Tokenize, HelpGivesExamples) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_TRUE(contains(help.out, "  tessera tokenize corpus -o corpus.tokens --learn 8192")) << help.out;
}

}  // namespace
}  // namespace tessera
