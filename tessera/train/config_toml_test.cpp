#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/base/testing/expect_error.h"
#include "tessera/train/config.h"

namespace tessera::train {
namespace {

class Toml : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tessera_toml_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  std::string file(const std::string& text) const {
    std::string path = directory + "/run.toml";
    std::ofstream(path) << text;
    return path;
  }
  Config read(const std::string& text) const {
    Config config;
    read_toml(config, file(text));
    return config;
  }
  void refuses(const std::string& text, std::initializer_list<std::string_view> words) const {
    Config config;
    expect_error<InvalidArgument>([&] { read_toml(config, file(text)); }, words);
    EXPECT_EQ(to_toml(config), to_toml(Config())) << "what was refused left a trace";
  }

  std::string directory;
};

TEST_F(Toml, ReadsEachType) {
  const Config config = read(R"(
[model]
layers = 6
tied = true
dropout = 0   # an integer is a number
[mesh]
tp = 2
[train]
seed = 9007199254740991
dtype = "bf16"
[optimizer]
learning_rate = 1e-4
[data]
files = ["a b.txt", "c=2"]
)");
  EXPECT_EQ(config.model.layers, 6);
  EXPECT_TRUE(config.model.tied);
  EXPECT_EQ(config.model.dropout, 0);
  EXPECT_EQ(config.mesh.tp, 2);
  EXPECT_EQ(config.train.seed, 9007199254740991u);
  EXPECT_EQ(config.train.dtype, "bf16");
  EXPECT_EQ(config.optimizer.learning_rate, 1e-4);
  EXPECT_EQ(config.data.files, (std::vector<std::string>{"a b.txt", "c=2"}));
}

TEST_F(Toml, KeepsWhatTheFileDoesNotSay) {
  Config config;
  set(config, "train.steps", "7");
  read_toml(config, file("[train]\nbatch = 4\n"));
  EXPECT_EQ(config.train.steps, 7);
  EXPECT_EQ(config.train.batch, 4);
}

TEST_F(Toml, RefusesUnknownNamesWithTheNearestAndTheLine) {
  refuses("[train]\nsteps = 5\n\n[modle]\nlayers = 2\n", {"run.toml:4", "[modle]", "did you mean 'model'?"});
  refuses("[train]\nstep = 5\n", {"run.toml:2", "[train]", "'step'", "did you mean 'steps'?"});
  refuses("steps = 5\n", {"run.toml:1", "'steps'", "no section"});
  refuses("model = 5\n", {"run.toml:1", "'model' is a section"});
  refuses("[train.steps]\nx = 1\n", {"run.toml:1", "train.steps is not an integer"});
}

TEST_F(Toml, RefusesWrongTypesAndValuesWithTheLine) {
  refuses("[train]\n\nsteps = \"5\"\n", {"run.toml:3", "train.steps", "not an integer", "1 or more"});
  refuses("[train]\nsteps = 5.0\n", {"run.toml:2", "not an integer"});
  refuses("[train]\nsteps = 0\n", {"run.toml:2", "train.steps: must be an integer, 1 or more, got 0"});
  refuses("[train]\nseed = -1\n", {"run.toml:2", "train.seed is -1"});
  refuses("[mesh]\ntp = 4294967298\n", {"run.toml:2", "mesh.tp is 4294967298"});
  refuses("[optimizer]\neps = true\n", {"run.toml:2", "optimizer.eps", "not a number"});
  refuses("[model]\ntied = 1\n", {"run.toml:2", "model.tied", "true or false"});
  refuses("[train]\ndtype = 16\n", {"run.toml:2", "train.dtype", "quoted string"});
  refuses("[train]\ndtype = \"f23\"\n", {"run.toml:2", "train.dtype", "did you mean 'f32'?"});
  refuses("[data]\nfiles = \"a\"\n", {"run.toml:2", "data.files", "not a list"});
  refuses("[data]\nfiles = [\"a\",\n 3]\n", {"run.toml:3", "data.files", "entry"});
}

TEST_F(Toml, RefusesWhatIsNoTomlAndFilesThatAreNotThere) {
  refuses("[train]\nsteps = = 5\n", {"run.toml:2", "not TOML"});
  for (const char* table : {"[!x]\n", "[=]\n", "[.train]\n", "[[#]]\n", "[\n]\n"})
    refuses(table, {"run.toml", "not TOML"});
  refuses("[train]\nsteps = 5\nsteps = 6\n", {"run.toml:3"});
  Config config;
  expect_error<IoError>([&] { read_toml(config, directory + "/none.toml"); }, {"none.toml"});
  expect_error<IoError>([&] { read_toml(config, directory); }, {directory});
}

TEST_F(Toml, WritesWhatItReadsBack) {
  Config config;
  for (const Option& option : options()) {
    const auto change = [](auto* place) {
      using T = std::remove_cvref_t<decltype(*place)>;
      if constexpr (std::is_same_v<T, std::vector<std::string>>) {
        *place = {"plain", "with \"quotes\" and \\", "tab\tline\nend\x7f", "\xc3\xa4=1.5", ""};
      } else if constexpr (std::is_same_v<T, bool>) {
        *place = !*place;
      } else if constexpr (std::is_same_v<T, double>) {
        *place = *place == 0 ? 1.0 / 3 : *place * (1.0 / 3);
      } else if constexpr (!std::is_same_v<T, std::string>) {
        *place += 3;
      }
    };
    std::visit(change, option.place(config));
  }
  config.run.directory = "/tmp/a \"b\"\\c";
  config.model.rope_base = 500000;
  config.run.peak_flops = 1e30;
  const Config back = read(to_toml(config));
  for (const Option& option : options())
    EXPECT_EQ(value_texts(option, back), value_texts(option, config)) << option.name;
  EXPECT_EQ(to_toml(back), to_toml(config));
}

TEST_F(Toml, WritesTheDefaultsOfOptionsThatDiffer) {
  EXPECT_EQ(to_toml(Config()).find("# default: "), std::string::npos);
  Config config;
  config.model.layers = 6;
  config.mesh.tp = 2;
  config.data.files = {"a # b.txt"};
  const std::string text = to_toml(resolved(config, 4));
  for (const char* line : {"\nwidth = 128\n", "\nlayers = 6  # default: 4\n", "\ndp = 2\n", "\ntp = 2  # default: 1\n",
                           "\nfiles = [\"a # b.txt\"]  # default: []\n", "\nsteps = 1000\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "is not in\n" << text;
  EXPECT_NE(to_toml(config).find("\nwidth = 0\n"), std::string::npos) << "a size that is not resolved is the default";
}

TEST_F(Toml, WritesEveryOptionWithItsHelp) {
  const std::string text = to_toml(Config());
  for (const Option& option : options()) EXPECT_NE(text.find("# " + option.help), std::string::npos) << option.name;
  EXPECT_NE(text.find("\n[train]\n"), std::string::npos);
  EXPECT_NE(text.find("\nsteps = 1000\n"), std::string::npos);
}

}  // namespace
}  // namespace tessera::train
