#include "tessera/train/data/samples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/train/data/testing/data_directory.h"
#include "tessera/train/data/token_file.h"

namespace tessera::train {
namespace {

using testing::DataDirectory;

constexpr std::int64_t kSequence = 4;

std::string sample(const Samples& samples, std::uint64_t number, std::int64_t sequence = kSequence) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequence) + 1);
  samples.read(number, tokens);
  return {tokens.begin(), tokens.end()};
}

std::map<std::string, int> epoch_of(const Samples& samples, std::uint64_t epoch) {
  std::map<std::string, int> found;
  for (std::uint64_t i = 0; i < samples.per_epoch(); ++i) ++found[sample(samples, epoch * samples.per_epoch() + i)];
  return found;
}

// Text in which all samples differ: ...0001 0002 0003
std::string numbered(char letter, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::string digits = std::to_string(1000 + i);
    text += letter + digits.substr(1);
  }
  return text;
}

DataConfig config_of(std::vector<std::string> files) {
  DataConfig config;
  config.files = std::move(files);
  config.held_out_share = 0;
  return config;
}

Samples open(const DataConfig& config, DataSplit part = DataSplit::kTraining, std::uint64_t seed = 1) {
  return Samples::open(config, part, kSequence, seed);
}

TEST(Samples, AnEpochTakesEverySampleOnce) {
  const DataDirectory directory;
  const DataConfig config =
      config_of({directory.write("a", numbered('a', 100)), directory.write("b", numbered('b', 37))});
  const Samples samples = open(config);
  EXPECT_EQ(samples.per_epoch(), 137U);
  EXPECT_EQ(samples.tokens(), 137U * 4);
  for (const std::uint64_t epoch : {0, 1, 5}) {
    const auto found = epoch_of(samples, epoch);
    EXPECT_EQ(found.size(), 137U);
    for (const auto& [text, count] : found) EXPECT_EQ(count, 1) << text;
    EXPECT_TRUE(found.contains("a000a") && found.contains("b035b"));
    EXPECT_TRUE(found.contains(std::string("a099\0", 5)) && found.contains(std::string("b036\0", 5)))
        << "a document keeps its end";
  }
}

TEST(Samples, OrderDependsOnSeedAndEpochAlone) {
  const DataDirectory directory;
  const DataConfig config =
      config_of({directory.write("a", numbered('a', 200)) + "=2", directory.write("b", numbered('b', 50))});
  const auto order = [&](const Samples& samples, std::uint64_t first) {
    std::vector<std::string> texts;
    for (std::uint64_t i = 0; i < 40; ++i) texts.push_back(sample(samples, first + i));
    return texts;
  };
  const Samples samples = open(config);
  EXPECT_EQ(order(samples, 17), order(open(config), 17));
  EXPECT_NE(order(samples, 0), order(open(config, DataSplit::kTraining, 2), 0));
  EXPECT_NE(order(samples, 0), order(samples, samples.per_epoch())) << "each epoch has an order of its own";
  const auto files = [&](const Samples& from, std::uint64_t first) {
    std::string letters;
    for (const std::string& text : order(from, first)) letters += text[0];
    return letters;
  };
  EXPECT_NE(files(samples, 0), files(open(config, DataSplit::kTraining, 2), 0)) << "files take turns by the seed";
  EXPECT_NE(files(samples, 0), files(samples, samples.per_epoch())) << "and by the epoch";
  auto sorted = order(samples, 0);
  std::ranges::sort(sorted);
  EXPECT_NE(sorted, order(samples, 0)) << "samples are shuffled";
}

// The rows of a step are dealt to the data ranks: any number of ranks reads the same samples.
TEST(Samples, AnyNumberOfRanksReadsTheSame) {
  const DataDirectory directory;
  const DataConfig config = config_of({directory.write("a", numbered('a', 100))});
  constexpr std::uint64_t kBatch = 12;
  const auto step = [&](std::uint64_t ranks, std::uint64_t number) {
    std::vector<std::string> rows;
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      const Samples samples = open(config);
      for (std::uint64_t row = 0; row < kBatch / ranks; ++row) {
        rows.push_back(sample(samples, number * kBatch + rank * (kBatch / ranks) + row));
      }
    }
    return rows;
  };
  for (const std::uint64_t ranks : {2, 3, 4, 12}) {
    for (const std::uint64_t number : {0, 7, 100}) EXPECT_EQ(step(ranks, number), step(1, number));
  }
}

TEST(Samples, WeightsSayHowOftenAFileIsRead) {
  const DataDirectory directory;
  const DataConfig config =
      config_of({directory.write("a", numbered('a', 40)) + "=1.5", directory.write("b", numbered('b', 50)) + "=0.5",
                 directory.write("c", numbered('c', 10)) + "=1.25"});
  const Samples samples = open(config);
  EXPECT_EQ(samples.per_epoch(), 40U * 3 + 50 + 25);
  std::map<std::string, int> both = epoch_of(samples, 0);
  for (const auto& [text, count] : both) {
    const int least = text[0] == 'a' ? 3 : text[0] == 'b' ? 1 : 2;
    EXPECT_TRUE(count == least || (text[0] == 'c' && count == 3)) << text << ": " << count;
  }
  for (const auto& [text, count] : epoch_of(samples, 1)) both[text] += count;
  for (const auto& [text, count] : both) {
    EXPECT_EQ(count, text[0] == 'a'   ? 6
                     : text[0] == 'b' ? 2
                                      : 5)
        << text << ": what one epoch reads less often, the next reads more often";
  }
}

TEST(Samples, TheEndOfEachFileIsHeldOut) {
  const DataDirectory directory;
  DataConfig config = config_of({directory.write("a", numbered('a', 70)), directory.write("b", numbered('b', 5))});
  config.held_out_share = 0.1;
  const auto training = epoch_of(open(config), 0);
  const Samples held_out = open(config, DataSplit::kHeldOut);
  EXPECT_EQ(training.size(), 63U + 4);
  EXPECT_EQ(held_out.per_epoch(), 8U) << "a tenth of 70, and at least one of 5";
  for (const auto& [text, count] : epoch_of(held_out, 0)) {
    EXPECT_FALSE(training.contains(text)) << text;
    EXPECT_TRUE(text >= "a063" || text.starts_with("b004")) << text;
  }
  DataConfig rounded = config_of({directory.write("r", numbered('r', 100))});
  rounded.held_out_share = 0.29;  // of 100, as doubles: slightly less than 29
  EXPECT_EQ(open(rounded, DataSplit::kHeldOut).per_epoch(), 29U);
  config.held_out = {directory.write("c", numbered('c', 9))};
  EXPECT_EQ(open(config).per_epoch(), 75U) << "held-out files leave the others whole";
  EXPECT_TRUE(sample(open(config, DataSplit::kHeldOut), 0).starts_with('c'));
}

TEST(Samples, ADirectoryIsReadAsOneFile) {
  const DataDirectory directory;
  directory.write("d/b", "bb");
  directory.write("d/a/z", "a");
  directory.write("d/c", std::string("x\0y", 3));
  directory.write("d/e", "");
  directory.write("d/.hidden/x", "hidden");
  directory.write("d/f", "ff");
  const log::LineCapture capture;
  const Samples samples = Samples::open(config_of({directory.path("d")}), DataSplit::kTraining, 7, 1);
  EXPECT_EQ(samples.per_epoch(), 1U);
  EXPECT_EQ(sample(samples, 0, 7), std::string("a\0bb\0ff\0", 8));
  ASSERT_EQ(capture.lines().size(), 1U);
  EXPECT_NE(capture.lines()[0].find("1 files in"), std::string::npos) << capture.lines()[0];
  EXPECT_NE(capture.lines()[0].find("d/c"), std::string::npos) << capture.lines()[0];
}

TEST(Samples, FilesOfTokensAreReadByTheirHeaders) {
  const DataDirectory directory;
  const std::string text = "to be or not to be, that is the question, whether it is nobler";
  const std::string_view views[] = {text};
  const Tokenizer tokenizer = Tokenizer::learn(views, 280);
  tokenizer.write(directory.path("t.json"));
  for (const char* name : {"d/x", "d/y"}) {
    directory.write(name, "");
    TokenFileWriter writer(directory.path(name), tokenizer, TokenWidth::kU32);
    writer.add_document(tokenizer.encode(text));
    writer.commit();
  }
  DataConfig config = config_of({directory.path("d")});
  config.tokenizer = directory.path("t.json");
  const Samples samples = open(config);
  EXPECT_EQ(samples.largest_token(), 279);
  EXPECT_EQ(samples.tokenizer().digest(), tokenizer.digest());
  const auto length = static_cast<std::int64_t>(2 * tokenizer.encode(text).size() + 1);
  std::vector<std::int32_t> all(static_cast<std::size_t>(length) + 1);
  Samples::open(config, DataSplit::kTraining, length, 1).read(0, all);
  const std::vector<std::uint32_t> tokens(all.begin(), all.end());
  EXPECT_EQ(tokenizer.decode(tokens), text + "<|endoftext|>" + text + "<|endoftext|>");

  config.files.push_back(directory.write("plain", "text of bytes"));
  EXPECT_EQ(open(config).tokenizer().digest(), tokenizer.digest());
  config.tokenizer = "bytes";
  expect_error<MismatchError>([&] { (void)open(config); }, {"plain", "d/x", tokenizer.digest(), "data.tokenizer"});
  config.files.pop_back();
  EXPECT_EQ(open(config).largest_token(), 279) << "tokens need no tokenizer to be read";
  const Tokenizer other = Tokenizer::learn(views, 270);
  other.write(directory.path("other.json"));
  config.tokenizer = directory.path("other.json");
  expect_error<MismatchError>([&] { (void)open(config); }, {"other.json", "d/x"});
}

TEST(Samples, TokensAloneAreReadIfSaid) {
  const DataDirectory directory;
  DataConfig config = config_of({directory.write("x", std::string("\1\0\2\0\3\0\4\0\5\2\6\0", 12))});
  config.format = "u16";
  const Samples samples = open(config);
  EXPECT_EQ(samples.largest_token(), 0x205);
  std::vector<std::int32_t> tokens(5);
  samples.read(0, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{1, 2, 3, 4, 0x205}));
  config.format = "auto";
  expect_error<IoError>([&] { (void)open(config); }, {"/x", "NUL", "u16"});
  config.format = "tokens";
  expect_error<IoError>([&] { (void)open(config); }, {"/x", "not a token file"});
  config.format = "token";
  expect_error<InvalidArgument>([&] { (void)open(config); }, {"data.format", "did you mean 'tokens'"});
}

TEST(Samples, SaysWhatAFileLacks) {
  const DataDirectory directory;
  const auto refused = [&](std::vector<std::string> files, std::initializer_list<std::string_view> words) {
    expect_error<IoError>([&] { (void)open(config_of(std::move(files))); }, words);
  };
  refused({directory.path("missing.txt")}, {"missing.txt", "No such file"});
  refused({directory.write("good", "abcdefgh"), directory.path("missing.txt") + "=2"}, {"missing.txt'"});
  refused({directory.write("empty.txt", "")}, {"empty.txt", "empty"});
  refused({directory.write("short.txt", "abc")}, {"short.txt", "got 4;", "4 + 1"});
  EXPECT_EQ(open(config_of({directory.write("just.txt", "abcd")})).per_epoch(), 1U);
  std::filesystem::create_directory(directory.path("nothing"));
  refused({directory.path("nothing")}, {"nothing", "no files"});
  directory.write("binary/x", std::string(9, '\0'));
  refused({directory.path("binary")}, {"binary", "no file in the directory contains text"});
  refused({"/dev/null"}, {"/dev/null", "not a regular file"});
}

TEST(Samples, SaysWhatIsWrongWithTheConfiguration) {
  const DataDirectory directory;
  const std::string good = directory.write("good", numbered('a', 10));
  const auto refused = [&](const DataConfig& config, DataSplit part, std::initializer_list<std::string_view> words) {
    expect_error<InvalidArgument>([&] { (void)open(config, part); }, words);
  };
  refused(config_of({}), DataSplit::kTraining, {"data.files: at least one file or directory is required"});
  refused(config_of({""}), DataSplit::kTraining, {"entries must be PATH or PATH=WEIGHT, got ''"});
  for (const char* weight : {"=0", "=-1", "=nan", "=inf", "=x", "=", "=1x"}) {
    refused(config_of({good + weight}), DataSplit::kTraining, {weight, "weight above 0"});
  }
  refused(config_of({good}), DataSplit::kHeldOut, {"no held-out data", "held_out_share is 0"});
  DataConfig all = config_of({good});
  all.held_out_share = 1;
  refused(all, DataSplit::kTraining, {"data.held_out_share: must be in [0, 1), got 1"});
  all.held_out_share = 0.5;
  all.files = {directory.write("one", "abcd")};
  expect_error<IoError>([&] { (void)open(all, DataSplit::kHeldOut); }, {"no held-out data", "one sample each"});
  expect_error<InvalidArgument>([&] { (void)Samples::open(config_of({good}), DataSplit::kTraining, 0, 1); },
                                {"model.sequence: must be at least 1, got 0"});
  std::vector<std::int32_t> small(4);
  expect_error<InvalidArgument>([&] { open(config_of({good})).read(0, small); }, {"4 + 1", "room for 4"});
  const std::string odd = directory.write("odd=2", numbered('a', 10));
  EXPECT_EQ(open(config_of({odd})).per_epoch(), 10U) << "a name may hold =";
}

TEST(Samples, OpeningTellsHowManyBytesOfFilesAreBehind) {
  const DataDirectory directory;
  const DataConfig config =
      config_of({directory.write("a", numbered('a', 10)), directory.write("b", numbered('b', 20))});
  std::vector<std::pair<std::uint64_t, std::uint64_t>> told;
  const auto tell = [&](std::uint64_t done, std::uint64_t all) { told.emplace_back(done, all); };
  (void)Samples::open(config, DataSplit::kTraining, kSequence, 1, tell);
  EXPECT_EQ(told, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{40, 120}, {120, 120}}));
}

TEST(Samples, BigramEntropyIsThatOfTheCounts) {
  const DataDirectory directory;
  // After a: b three times, c once; after b and c: a, and at the end NUL.
  const Samples samples = Samples::open(config_of({directory.write("x", "abababac")}), DataSplit::kTraining, 8, 1);
  const double after_a = -(0.75 * std::log(0.75) + 0.25 * std::log(0.25));
  EXPECT_NEAR(samples.bigram_entropy(), 4.0 / 8 * after_a, 1e-12);
  const Samples certain = Samples::open(config_of({directory.write("y", "abcdefgh")}), DataSplit::kTraining, 8, 1);
  EXPECT_EQ(certain.bigram_entropy(), 0);
  // The same counts with a vocabulary too large for a table.
  std::string wide;
  for (const std::uint16_t token : {40000, 7, 40000, 7, 40000, 7, 40000, 9, 0}) {
    wide.append(reinterpret_cast<const char*>(&token), 2);
  }
  DataConfig config = config_of({directory.write("w", wide)});
  config.format = "u16";
  EXPECT_NEAR(Samples::open(config, DataSplit::kTraining, 8, 1).bigram_entropy(), 4.0 / 8 * after_a, 1e-12);
}

}  // namespace
}  // namespace tessera::train
