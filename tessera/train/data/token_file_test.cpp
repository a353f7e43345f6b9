#include "tessera/train/data/token_file.h"
#include "tessera/base/fnv1a.h"

#include <gtest/gtest.h>

#include <bit>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/train/data/testing/data_directory.h"

namespace tessera::train {
namespace {

using testing::DataDirectory;

std::vector<std::int32_t> all_of(const TokenFile& file) {
  std::vector<std::int32_t> tokens(file.tokens());
  file.read(0, tokens);
  return tokens;
}

// Documents "ab" and "c" by bytes.
std::string write_small(const DataDirectory& directory, const std::string& name, TokenWidth width) {
  const Tokenizer bytes = Tokenizer::bytes();
  TokenFileWriter writer(directory.path(name), bytes, width);
  writer.add_document(bytes.encode("ab"));
  writer.add_document(bytes.encode("c"));
  EXPECT_EQ(writer.commit().tokens, 5U);
  return directory.path(name);
}

// Changes a number and repairs the check, as a faulty program would write it.
std::string with_number(std::string bytes, std::size_t offset, std::size_t nbytes, std::uint64_t value) {
  bytes.replace(offset, nbytes, reinterpret_cast<const char*>(&value), nbytes);
  const std::uint64_t check = tessera::detail::fnv1a(bytes.substr(0, 56));
  return bytes.replace(56, 8, reinterpret_cast<const char*>(&check), 8);
}

TEST(TokenFile, KeepsTokensAndDocumentEnds) {
  const DataDirectory directory;
  for (const TokenWidth width : {TokenWidth::kU16, TokenWidth::kU32}) {
    const TokenFile file = TokenFile::open(write_small(directory, "x.tokens", width));
    EXPECT_EQ(all_of(file), (std::vector<std::int32_t>{'a', 'b', 0, 'c', 0}));
    EXPECT_EQ(*file.header(), (TokenFileHeader{width, 5, 2, 256, 0, Tokenizer::bytes().digest()}));
    EXPECT_EQ(file.largest(), static_cast<std::uint32_t>('c'));
    std::vector<std::int32_t> part(2);
    file.read(2, part);
    EXPECT_EQ(part, (std::vector<std::int32_t>{0, 'c'}));
    expect_error<InvalidArgument>([&] { file.read(4, part); }, {"x.tokens", "within 5 tokens, got 2 tokens from 4"});
    expect_error<InvalidArgument>([&] { file.read(~std::uint64_t{0}, part); }, {"within 5 tokens"});
  }
}

// The bytes match the drawing in token_file.h, which other programs rely on.
TEST(TokenFile, LooksAsItIsDrawn) {
  const DataDirectory directory;
  const std::string bytes = directory.write("x", "");
  write_small(directory, "x", TokenWidth::kU16);
  const std::string found = directory.content("x");
  std::string expected = "TSRTOKEN";
  expected += std::string("\1\0\0\0\2\0\0\0", 8) + std::string("\5\0\0\0\0\0\0\0", 8);
  expected += std::string("\2\0\0\0\0\0\0\0", 8) + std::string("\0\1\0\0\0\0\0\0", 8);
  const std::string digest = Tokenizer::bytes().digest();
  for (std::size_t i = 0; i < 32; i += 2) {
    expected += static_cast<char>(std::stoi(digest.substr(i, 2), nullptr, 16));
  }
  ASSERT_EQ(found.size(), 64U + 10U);
  EXPECT_EQ(found.substr(0, 56), expected);
  EXPECT_EQ(found.substr(64), std::string("a\0b\0\0\0c\0\0\0", 10));
}

TEST(TokenFile, RefusesEachFieldThatCannotBe) {
  const DataDirectory directory;
  const std::string sound =
      directory.content(write_small(directory, "x", TokenWidth::kU16).substr(directory.path().size() + 1));
  const auto refused = [&](const std::string& bytes, std::initializer_list<std::string_view> words) {
    const std::string path = directory.write("bad.tokens", bytes);
    expect_error<IoError>([&] { (void)TokenFile::open(path); }, words);
  };
  refused("", {"bad.tokens", "empty"});
  refused("some text", {"bad.tokens", "not a token file", "u16"});
  refused(sound.substr(0, 40), {"truncated", "got 40"});
  refused(with_number(sound, 8, 4, 2), {"version 2"});
  std::string damaged = sound;
  damaged[17] = 1;
  refused(damaged, {"the header is corrupt"});
  refused(with_number(sound, 12, 4, 3), {"tokens must have 2 or 4 bytes, got 3"});
  refused(with_number(sound, 16, 8, 6), {"has 6 tokens", "10 bytes follow"});
  refused(with_number(sound, 16, 8, std::uint64_t{1} << 63 | 5), {"tokens"});
  refused(sound + "x", {"11 bytes follow"});
  refused(sound.substr(0, sound.size() - 2), {"8 bytes follow"});
  refused(with_number(sound, 24, 8, 6), {"6 documents"});
  refused(with_number(sound, 32, 4, 0), {"vocabulary must be in [1, 2147483647], got 0"});
  refused(with_number(sound, 32, 4, 0x80000000), {"vocabulary must be in [1, 2147483647], got 2147483648"});
  refused(with_number(sound, 36, 4, 256), {"end-of-text token must be in [0, 256), got 256"});
  expect_error<IoError>([&] { (void)TokenFile::open(directory.path("no")); }, {"/no", "No such file"});
  expect_error<IoError>([&] { (void)TokenFile::open(directory.path()); }, {"not a regular file"});
}

TEST(TokenFile, RefusesATokenOutsideOfTheVocabulary) {
  const DataDirectory directory;
  write_small(directory, "x", TokenWidth::kU16);
  std::string bytes = directory.content("x");
  bytes[64 + 3] = 1;
  const TokenFile file = TokenFile::open(directory.write("x", bytes));
  std::vector<std::int32_t> tokens(1);
  file.read(0, tokens);
  expect_error<IoError>([&] { file.read(1, tokens); }, {"token 1", "354", "256"});
}

TEST(TokenFile, ReadsTokensAlone) {
  const DataDirectory directory;
  const std::string path = directory.write("x.bin", std::string("\1\0\2\1\3\0\xff\xff", 8));
  const TokenFile narrow = TokenFile::open_plain(path, TokenWidth::kU16);
  EXPECT_EQ(all_of(narrow), (std::vector<std::int32_t>{1, 258, 3, 65535}));
  EXPECT_EQ(narrow.largest(), 65535U);
  EXPECT_FALSE(narrow.header());
  const TokenFile wide = TokenFile::open_plain(path, TokenWidth::kU32);
  EXPECT_EQ(wide.tokens(), 2U);
  expect_error<IoError>([&] { (void)all_of(wide); }, {"token 1", "4294901763"});
  expect_error<IoError>([&] { (void)TokenFile::open_plain(directory.write("y", "abc"), TokenWidth::kU16); },
                        {"3 bytes", "u16"});
  expect_error<IoError>([&] { (void)TokenFile::open_plain(directory.write("y", ""), TokenWidth::kU16); }, {"empty"});
  const std::string headed = write_small(directory, "h", TokenWidth::kU16);
  expect_error<IoError>([&] { (void)TokenFile::open_plain(headed, TokenWidth::kU16); }, {"has a header"});
  EXPECT_TRUE(TokenFile::has_header(headed));
  EXPECT_FALSE(TokenFile::has_header(path));
}

TEST(TokenFileWriter, LeavesNothingUnlessCommitted) {
  const DataDirectory directory;
  const std::string path = directory.write("x", "old");
  {
    TokenFileWriter writer(path, Tokenizer::bytes(), TokenWidth::kU16);
    writer.add_document(Tokenizer::bytes().encode("text"));
  }
  EXPECT_EQ(directory.content("x"), "old");
  EXPECT_EQ(directory.count(), 1U);
}

TEST(TokenFileWriter, RefusesWhatDoesNotFit) {
  const DataDirectory directory;
  TokenFileWriter writer(directory.path("x"), Tokenizer::bytes(), TokenWidth::kU16);
  const std::uint32_t wrong[] = {1, 256};
  expect_error<InvalidArgument>([&] { writer.add_document(wrong); }, {"256"});
  EXPECT_EQ(writer.commit().tokens, 0U) << "a refused document leaves nothing";
  expect_error<IoError>([&] { TokenFileWriter(directory.path("no/x"), Tokenizer::bytes(), TokenWidth::kU16); },
                        {"/no", "No such file"});
  expect_error<IoError>([&] { TokenFileWriter(directory.path(), Tokenizer::bytes(), TokenWidth::kU16); },
                        {"must be a file, got a directory"});
  EXPECT_EQ(width_for(65536), TokenWidth::kU16);
  EXPECT_EQ(width_for(65537), TokenWidth::kU32);
}

}  // namespace
}  // namespace tessera::train
