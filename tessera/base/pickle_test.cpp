// Pickles: golden bytes, misuse, and loading in Python.
#include "tessera/base/pickle.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <sstream>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using Fill = std::function<void(PickleWriter&)>;

std::string pickled(const Fill& fill) {
  std::ostringstream out;
  PickleWriter writer(out);
  fill(writer);
  writer.finish();
  return out.str();
}

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text += static_cast<char>(value);
  return text;
}

bool has_python() { return std::system("python3 -c 'import pickle, pickletools' >/dev/null 2>&1") == 0; }

// Returns the output of `python3 -c program file`, with the pickle in the file.
std::string python(const std::string& program, const Fill& fill) {
  char directory[] = "/tmp/tessera_pickle_XXXXXX";
  if (::mkdtemp(directory) == nullptr) return "no directory";
  const std::string path = std::string(directory) + "/value.pickle";
  write_pickle_file(path, fill);
  std::FILE* pipe = ::popen(("python3 -c '" + program + "' " + path + " 2>&1").c_str(), "r");
  std::string text;
  char piece[4096];
  while (std::fgets(piece, sizeof piece, pipe) != nullptr) text += piece;
  ::pclose(pipe);
  std::filesystem::remove_all(directory);
  return text;
}

// Loads the pickle, checks that it uses only allowed opcodes and batches of at most 1000, and prints the expression.
std::string loaded(const std::string& expression, const Fill& fill) {
  return python(
      "import pickle, pickletools, sys\n"
      "data = open(sys.argv[1], \"rb\").read()\n"
      "allowed = \"PROTO FRAME MARK STOP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE "
      "BINUNICODE EMPTY_LIST EMPTY_DICT EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS SETITEM SETITEMS MEMOIZE "
      "BINGET LONG_BINGET\".split()\n"
      "ops = [op.name for op, arg, at in pickletools.genops(data)]\n"
      "assert set(ops) <= set(allowed), set(ops) - set(allowed)\n"
      "assert data[:2] == bytes([128, 4])\n"
      "v = pickle.loads(data)\n"
      "print(" +
          expression + ")\n",
      fill);
}

#define SKIP_WITHOUT_PYTHON() \
  if (!has_python()) GTEST_SKIP() << "python3 is not installed"

TEST(Pickle, GoldenBytes) {
  EXPECT_EQ(pickled([](auto& p) { p.none(); }), bytes({0x80, 4, 'N', '.'}));
  EXPECT_EQ(pickled([](auto& p) { p.value(true); }), bytes({0x80, 4, 0x88, '.'}));
  EXPECT_EQ(pickled([](auto& p) { p.value(255); }), bytes({0x80, 4, 'K', 255, '.'}));
  EXPECT_EQ(pickled([](auto& p) { p.value(256); }), bytes({0x80, 4, 'M', 0, 1, '.'}));
  EXPECT_EQ(pickled([](auto& p) { p.value(-1); }), bytes({0x80, 4, 'J', 255, 255, 255, 255, '.'}));
  EXPECT_EQ(pickled([](auto& p) { p.value(std::int64_t{1} << 31); }), bytes({0x80, 4, 0x8a, 5, 0, 0, 0, 0x80, 0, '.'}));
  EXPECT_EQ(pickled([](auto& p) { p.value(1.0); }), bytes({0x80, 4, 'G', 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, '.'}));
  EXPECT_EQ(pickled([](auto& p) {
              p.begin_list();
              p.value("ab");
              p.value("ab");
              p.end_list();
            }),
            bytes({0x80, 4, ']', '(', 0x8c, 2, 'a', 'b', 0x94, 'h', 0, 'e', '.'}));
  EXPECT_EQ(pickled([](auto& p) {
              p.begin_dict();
              p.entry("k", 1);
              p.end_dict();
            }),
            bytes({0x80, 4, '}', '(', 0x8c, 1, 'k', 0x94, 'K', 1, 'u', '.'}));
  EXPECT_EQ(pickled([](auto& p) {
              p.begin_list();
              p.end_list();
            }),
            bytes({0x80, 4, ']', '.'}));
  EXPECT_EQ(pickled([](auto& p) {
              p.begin_tuple();
              p.value(false);
              p.end_tuple();
            }),
            bytes({0x80, 4, '(', 0x89, 't', '.'}));
}

TEST(Pickle, PythonLoadsIntegersOfEveryWidth) {
  SKIP_WITHOUT_PYTHON();
  const auto fill = [](PickleWriter& p) {
    p.begin_list();
    for (int bit = 0; bit < 63; ++bit) {
      for (const std::int64_t step : {-1, 0, 1}) {
        p.value((std::int64_t{1} << bit) + step);
        p.value(-(std::int64_t{1} << bit) + step);
      }
    }
    p.value(std::numeric_limits<std::int64_t>::min());
    p.value(std::numeric_limits<std::int64_t>::max());
    p.value(std::uint64_t{1} << 63);
    p.value(std::numeric_limits<std::uint64_t>::max());
    p.value(std::uint8_t{200});
    p.value(std::int16_t{-300});
    p.end_list();
  };
  EXPECT_EQ(loaded("v == [s * (1 << b) + d for b in range(63) for d in (-1, 0, 1) for s in (1, -1)]"
                   " + [-2**63, 2**63 - 1, 2**63, 2**64 - 1, 200, -300]",
                   fill),
            "True\n");
}

TEST(Pickle, PythonLoadsNestedData) {
  SKIP_WITHOUT_PYTHON();
  const auto fill = [](PickleWriter& p) {
    p.begin_dict();
    p.entry("name", "pool \xc3\xa9");
    p.entry("nan", std::numeric_limits<double>::quiet_NaN());
    p.entry("ratio", -1.25);
    p.value("blocks");
    p.begin_list();
    for (int i = 0; i < 2; ++i) {
      p.begin_dict();
      p.entry("free", i == 0);
      p.value("frames");
      p.begin_tuple();
      p.end_tuple();
      p.end_dict();
    }
    p.end_list();
    p.begin_tuple();  // a tuple is an ordinary key
    p.value(0);
    p.begin_tuple();
    p.value("name");
    p.end_tuple();
    p.end_tuple();
    p.none();
    p.value(3);
    p.begin_dict();
    p.end_dict();
    p.end_dict();
  };
  EXPECT_EQ(loaded("ascii(v)", fill),
            "{'name': 'pool \\xe9', 'nan': nan, 'ratio': -1.25, 'blocks': [{'free': True, 'frames': ()}, "
            "{'free': False, 'frames': ()}], (0, ('name',)): None, 3: {}}\n");
}

TEST(Pickle, BatchesHoldAtMostAThousand) {
  SKIP_WITHOUT_PYTHON();
  for (const int count : {999, 1000, 1001, 2000, 2500}) {
    const auto fill = [count](PickleWriter& p) {
      p.begin_tuple();
      p.begin_list();
      for (int i = 0; i < count; ++i) p.value(i);
      p.end_list();
      p.begin_dict();
      for (int i = 0; i < count; ++i) {
        p.value(i);
        p.begin_list();
        p.value(-i);
        p.end_list();
      }
      p.end_dict();
      p.end_tuple();
    };
    const std::string n = std::to_string(count);
    const std::string batches = std::to_string((count + 999) / 1000);
    EXPECT_EQ(loaded("v == (list(range(" + n + ")), {i: [-i] for i in range(" + n +
                         ")}), ops.count(\"SETITEMS\"), "
                         "ops.count(\"APPENDS\") - " +
                         n,
                     fill),
              "True " + batches + " " + batches + "\n");
  }
}

TEST(Pickle, SharedListsAreOneObject) {
  SKIP_WITHOUT_PYTHON();
  const auto fill = [](PickleWriter& p) {
    p.begin_list();
    const auto frames = p.begin_shared_list();
    p.value("main");
    p.end_list();
    const auto info = p.begin_shared_dict();
    p.entry("a", 1);
    p.end_dict();
    for (int i = 0; i < 400; ++i) p.value("name" + std::to_string(i));  // so that later references need four bytes
    for (int i = 0; i < 400; ++i) p.value("name" + std::to_string(i));
    p.reference(frames);
    p.reference(info);
    p.end_list();
  };
  EXPECT_EQ(loaded("v[0] is v[-2], v[1] is v[-1], v[0], v[1], v[2:402] == v[402:802], v[401] is v[801], "
                   "ops.count(\"SHORT_BINUNICODE\"), ops.count(\"LONG_BINGET\") > 0",
                   fill),
            "True True ['main'] {'a': 1} True True 402 True\n");
}

TEST(Pickle, StringsOfEveryLengthAndBrokenUtf8) {
  SKIP_WITHOUT_PYTHON();
  const auto fill = [](PickleWriter& p) {
    p.begin_list();
    for (const std::size_t size : {0u, 255u, 256u, 1024u, 1025u, 70'000u}) p.value(std::string(size, 'x'));
    p.value("ok \xf0\x9f\x98\x80");
    p.value("\xff|\xc3|\xed\xa0\x80|\xc0\x80|\xf4\x90\x80\x80|\xe2\x82");
    p.value(std::string_view("a\0b", 3));
    p.end_list();
  };
  EXPECT_EQ(loaded("[len(x) for x in v[:6]], ascii(v[6:])", fill),
            "[0, 255, 256, 1024, 1025, 70000] ['ok \\U0001f600', "
            "'\\ufffd|\\ufffd|\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd', "
            "'a\\x00b']\n");
}

std::string misuse(const Fill& fill) {
  try {
    pickled(fill);
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  return "no error";
}

TEST(Pickle, MisuseIsAnError) {
  EXPECT_EQ(misuse([](auto&) {}), "pickle: finish() requires a value");
  EXPECT_EQ(misuse([](auto& p) { p.begin_list(); }), "pickle: finish() while a list is open");
  EXPECT_EQ(misuse([](auto& p) { p.end_list(); }), "pickle: cannot end a list while a pickle is open");
  EXPECT_EQ(misuse([](auto& p) { p.begin_dict(), p.end_list(); }), "pickle: cannot end a list while a dict is open");
  EXPECT_EQ(misuse([](auto& p) { p.begin_dict(), p.value(1), p.end_dict(); }),
            "pickle: the last key of a dict has no value");
  EXPECT_EQ(misuse([](auto& p) { p.value(1), p.value(2); }),
            "pickle: the top level must have one value; use a list or a tuple");
  EXPECT_EQ(misuse([](auto& p) { p.begin_dict(), p.begin_list(); }),
            "pickle: a dict key must not be or contain a list or dict");
  EXPECT_EQ(misuse([](auto& p) { p.begin_dict(), p.begin_tuple(), p.begin_tuple(), p.begin_dict(); }),
            "pickle: a dict key must not be or contain a list or dict");
  EXPECT_EQ(misuse([](auto& p) { p.value(1), p.finish(), p.value(2); }), "pickle: no value may follow finish()");
  EXPECT_EQ(misuse([](auto& p) { p.value(1), p.finish(); }), "pickle: finish() was already called");
  EXPECT_EQ(misuse([](auto& p) {
              std::ostringstream other_stream;
              PickleWriter other(other_stream);
              p.begin_list();
              p.reference(other.begin_shared_list());
            }),
            "pickle: the reference belongs to another writer");
}

TEST(Pickle, AStreamThatFailsIsAnIoError) {
  std::ostringstream out;
  PickleWriter writer(out);
  writer.value(1);
  out.setstate(std::ios::badbit);
  EXPECT_THROW(writer.finish(), IoError);
}

TEST(Pickle, AFileThatIsNotFinishedIsNotThere) {
  const std::string path = std::filesystem::temp_directory_path() / ("tessera_pickle_" + std::to_string(::getpid()));
  EXPECT_THROW(write_pickle_file(path, [](PickleWriter& p) { p.begin_list(); }), InvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace tessera
