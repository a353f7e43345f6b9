"""Common functions of the gates: the files of the tree, and C++ text without comments and strings."""

import pathlib
import re
import subprocess

HEADERS = {".h", ".cuh"}
SOURCES = {".cpp", ".cu"}


def files(root):
    """Returns the files of the tree as relative paths: those git knows or would add; in a plain copy, all except build/."""
    root = pathlib.Path(root)
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"],
                                check=True, capture_output=True, text=True).stdout.splitlines()
        found = [pathlib.PurePosixPath(name) for name in listed]
    else:
        found = [pathlib.PurePosixPath(path.relative_to(root).as_posix()) for path in root.rglob("*") if path.is_file()]
    return sorted(path for path in found
                  if path.parts[0] not in ("build", ".git") and "__pycache__" not in path.parts and (root / path).is_file())


def cpp_files(root):
    """Returns the C++ and CUDA files of the tree."""
    return [path for path in files(root) if path.suffix in HEADERS | SOURCES]


def is_for_tests(path):
    """Returns True if a file is built only into tests, benches or fuzzers (including examples to copy)."""
    return bool(re.search(r"_(test|suite|fuzz|bench)\.\w+$|/(testing|example)/", str(path)))


def is_installed(path):
    """Returns True if this header is installed: the rule of tessera_layer()."""
    name = str(path)
    return (path.suffix == ".h" and path.parts[0] == "tessera" and path.parts[1] != "cli"
            and not re.search(r"_suite\.h$|/(testing|example|detail)/", name)
            and ("/cuda/" not in name or name.endswith("_device.h")))


_NOISE = re.compile(r'R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"'  # raw string
                    r'|//(?:\\\n|[^\n])*|/\*.*?\*/'
                    r'|"(?:\\.|[^"\\\n])*"'
                    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def blank(text, keep_comments=False):
    """Comments, strings and characters replaced by spaces; every line keeps its number and length."""
    def replace(match):
        if keep_comments and match.group().startswith(("//", "/*")):
            return match.group()
        return re.sub(r"[^\n]", " ", match.group())
    return _NOISE.sub(replace, text)


def strings(text):
    """For each line, the contents of the strings that begin on it or, for a raw string, continue on it."""
    found = [[] for _ in range(text.count("\n") + 1)]
    for match in _NOISE.finditer(text):
        literal = match.group()
        if not literal.startswith(('"', 'R"')):
            continue
        first = text.count("\n", 0, match.start())
        for offset, line in enumerate(literal.split("\n")):
            found[first + offset].append(line.strip('R"'))
    return found


class Findings:
    """Collects `file:line: message` and turns them into an exit status."""

    def __init__(self, gate):
        self.gate = gate
        self.errors = 0

    def error(self, path, line, message):
        self.errors += 1
        print(f"{path}:{line}: {message}")

    def warning(self, path, line, message):
        print(f"{path}:{line}: warning: {message}")

    def close(self, checked):
        print(f"{self.gate}: {checked} files, " + (f"{self.errors} errors" if self.errors else "good"))
        return 1 if self.errors else 0
