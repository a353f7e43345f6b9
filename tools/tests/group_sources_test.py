"""Tests that sources which are compiled as one share no private name."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import group_sources  # noqa: E402


def inside(body):
    return f"namespace tessera {{\nnamespace {{\n{body}\n}}  // namespace\n}}  // namespace tessera\n"


class GroupSources(unittest.TestCase):
    def groups(self, *texts, most_lines=1000, headers=None):
        """Returns the groups, as lists of the numbers of the texts."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (headers or {}).items():
                (root / name).write_text(text)
            paths = []
            for number, text in enumerate(texts):
                paths.append(root / f"{number}.cpp")
                paths[-1].write_text(text)
            sources = [group_sources.Source(path, root) for path in paths]
            return [[int(source.path.stem) for source in group] for group in group_sources.grouped(sources, most_lines)]

    def test_sources_with_names_of_their_own_share(self):
        self.assertEqual(self.groups(inside("int one() { return 1; }"), inside("int two() { return one_more(); }")), [[0, 1]])

    def test_the_same_name_keeps_them_apart(self):
        for name in ("int one() { return 1; }", "struct One {};", "class One final {};", "enum class One { kA };", "using One = int;",
                     "constexpr int kOne = 1;", "const std::string kOne{\"a\"};", "constexpr std::array<int, 2> kOne = {1, 2};",
                     "template <class T>\nT one(T x) {", "std::vector<int> one(\n    int x) {", "thread_local int one = 0;",
                     "template <class T>\nstruct One {};"):
            other = name.replace("= int", "= long")
            self.assertEqual(self.groups(inside(name), inside(other)), [], name)

    def test_the_same_alias_does_not(self):
        self.assertEqual(self.groups(inside("using Json = nlohmann::json;"), inside("using Json =\n    nlohmann::json;")), [[0, 1]])
        self.assertEqual(self.groups("using detail::Row;\n", "using detail::Row;\n"), [[0, 1]])
        self.assertEqual(self.groups("using detail::Row;\n", "using other::Row;\n"), [])

    def test_a_variable_keeps_away_who_uses_its_name(self):
        variable = inside("void f() {\n  const auto json = parse();\n}")
        self.assertEqual(self.groups("using nlohmann::json;\n", variable), [])
        self.assertEqual(self.groups(variable, "using nlohmann::json;\n"), [])
        self.assertEqual(self.groups("using nlohmann::json;\n", "using nlohmann::json;\n" + variable), [[0, 1]])

    def test_a_type_keeps_away_who_means_another_of_that_name(self):
        user = inside("int count(const Row& row) { return row.count; }")
        self.assertEqual(self.groups(inside("struct Row {};"), user), [])
        self.assertEqual(self.groups(user, inside("struct Row {};")), [])
        through_header = '#include "row.h"\n' + inside("int count() { return rows(); }")
        self.assertEqual(self.groups(inside("struct Row {};"), through_header, headers={"row.h": "struct Row {};\n"}), [])

    def test_a_function_keeps_away_who_knows_another_of_that_name(self):
        own = inside("int run(int x) { return x; }")
        through_header = '#include "run.h"\n' + inside("int two() { return run(1); }")
        headers = {"run.h": "TESSERA_API int run(const Config& config);\n"}
        self.assertEqual(self.groups(own, through_header, headers=headers), [])
        self.assertEqual(self.groups(through_header, own, headers=headers), [])
        self.assertEqual(self.groups('#include "run.h"\n' + own, through_header, headers=headers), [[0, 1]])

    def test_members_and_calls_are_no_names_of_a_source(self):
        members = "namespace tessera {\nvoid A::f() {\n  g(1);\n}\nA::~A() { f(); }\n}  // namespace tessera\n"
        self.assertEqual(self.groups(members, members.replace("A::", "B::").replace("~A", "~B")), [[0, 1]])

    def test_what_reaches_on_stays_alone(self):
        for line in ("#define X 1", "using namespace std;", "#pragma GCC diagnostic push"):
            self.assertEqual(self.groups(line + "\n" + inside("int one() {"), inside("int two() {"), inside("int three() {")), [[1, 2]])

    def test_a_group_has_so_many_lines_at_most(self):
        text = "\n" * 50
        self.assertEqual(self.groups(text, text, text, text, text, most_lines=100), [[0, 1], [2, 3]])


if __name__ == "__main__":
    unittest.main()
