// The main function of the tests of a layer, which are one program of many files. --file=PATH runs the tests of one
// file, as ctest does, so that the tests of each file run in a separate process.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

// Removes --file=PATH from the arguments and returns the path; empty if the option is missing.
std::string take_file(int& count, char** arguments) {
  constexpr std::string_view kOption = "--file=";
  std::string file;
  int kept = 1;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument.starts_with(kOption)) {
      file = argument.substr(kOption.size());
    } else {
      arguments[kept++] = arguments[i];
    }
  }
  count = kept;
  return file;
}

bool is_path_of(std::string_view path, std::string_view file) {
  return path == file || (path.ends_with(file) && path[path.size() - file.size() - 1] == '/');
}

// Returns the filter for the tests of a file.
std::string filter_for(const std::string& file) {
  std::string filter;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const ::testing::TestInfo& test = *suite.GetTestInfo(j);
      if (is_path_of(test.file(), file)) filter += std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string file = take_file(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  // A test that starts this program again selects its tests by a filter.
  if (!file.empty() && GTEST_FLAG_GET(filter) == "*") {
    const std::string filter = filter_for(file);
    if (filter.empty()) {
      std::fprintf(stderr, "%s contains no test of this program\n", file.c_str());
      return 1;
    }
    GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}
