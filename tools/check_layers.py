#!/usr/bin/env python3
"""Checks the includes between layers.

A folder is a layer. The table of layers is read only from the tessera_layer(name DEPS ...) calls in
tessera/*/CMakeLists.txt. The rules are:
  - a file includes only its own layer and the layers that its declared dependencies reach (cli reaches all);
  - a detail/ folder is included only inside its own layer, by tests too;
  - an implementation of an interface (device/host, device/cuda, device/meta, comm/backends/*) is included only inside its own folder,
    except through its entry headers (see ENTRY) and in tests;
  - library code includes nothing from testing/;
  - CUDA and NCCL headers are included only in device/cuda, ops/*/cuda, comm/backends/{nccl,cuda} and *.cu, *.cuh;
  - installed headers include no third-party header;
  - the library code of nn, models and train names no device: it uses the default device, or tensor::host_device();
  - headers have #pragma once (x-inl.h, vector code: a toggle); x.cpp includes x.h first; includes use full paths.
"""

import argparse
import pathlib
import re
import sys

import source_tree

# Folders that implement an interface of their layer.
IMPLEMENTATIONS = re.compile(r"^tessera/(device/(?:host|cuda|meta)|comm/backends/[a-z0-9_]+)/")
# Headers through which other folders may use an implementation: its registration and its configuration.
ENTRY = re.compile(r"/(?:register|(?:[a-z0-9]+_)?options|(?:host|cuda|meta|nccl|mpi)(?:_device)?)\.h$")
CUDA_HEADER = re.compile(r"^(?:cuda|cublas|cudnn|cufft|curand|cusparse|cusolver|nccl|nvml|nvrtc|nvtx|nvToolsExt)\w*(?:/.*)?\.h(?:pp)?$"
                         r"|^cooperative_groups")
CUDA_PLACES = re.compile(r"^tessera/(?:device/cuda|ops/(?:[a-z0-9_]+/)?cuda|comm/backends/(?:nccl|cuda))/|\.cuh?$")
THIRD_PARTY = re.compile(r"^(?:fmt|spdlog|nlohmann|CLI|gtest|gmock|benchmark|toml\+\+|hwy|oneapi|Random123|asio)/"
                         r"|^(?:xxhash|sodium|utf8proc|mpi|toml)\.h(?:pp)?$")
# Layers that compute on any device, and the names of devices as texts: "host", "cuda", "cuda:0".
ANY_DEVICE = {"nn", "models", "train"}
DEVICE_NAME = re.compile(r'"(?:host|cuda|meta)(?::[0-9]*)?"')
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


def read_layers(root):
    """Returns a map from each layer to all layers that it may include, including itself."""
    declared = {}
    for path in sorted(root.glob("tessera/*/CMakeLists.txt")):
        text = re.sub(r"#.*", "", path.read_text())
        for name, rest in re.findall(r"\btessera_layer\s*\(\s*(\w+)([^)]*)\)", text):
            dependencies = re.search(r"\bDEPS\b((?:\s+(?!MUTANTS\b|LIBRARIES\b|TEST_DEPS\b)[\w:]+)*)", rest)
            declared[name] = dependencies.group(1).split() if dependencies else []
    closures = {}

    def closure(name, trail):
        if name in trail:
            raise SystemExit(f"layers depend on each other in a circle: {' -> '.join(trail + [name])}")
        if name not in declared:
            raise SystemExit(f"layer {trail[-1]} depends on {name}, which no tessera_layer() declares")
        if name not in closures:
            closures[name] = {name}.union(*(closure(below, trail + [name]) for below in declared[name]))
        return closures[name]

    for name in declared:
        closure(name, [])
    return closures


def implementation_of(path):
    match = IMPLEMENTATIONS.match(path)
    return match.group(1) if match else None


def check_ours(path, included, layers, findings, line):
    """Checks an #include of a header of the project."""
    parts = included.split("/")
    here = path.parts
    tests = source_tree.is_for_tests(path)
    if here[0] != "tessera":
        if not source_tree.is_installed(pathlib.PurePosixPath(included)):
            findings.error(path, line, f"{included} is not installed; only the library's own files may include it")
        return
    if len(here) > 2 and len(parts) > 2 and here[1] != "cli":
        layer, target = here[1], parts[1]
        if target == "cli" or (target not in layers):
            findings.error(path, line, f"{included}: '{target}' is not a layer that others may include")
        elif target not in layers.get(layer, {layer}):
            findings.error(path, line, f"layer {layer} includes {included}, but {layer} may include only "
                           + ", ".join(sorted(layers.get(layer, {layer}))))
    elif len(here) > 2 and len(parts) == 2 and here[1] != "cli" and not tests:
        findings.error(path, line, f"{included} is for users; include what is needed from its layer")
    if "detail" in parts[:-1] and (len(here) < 3 or here[1] != parts[1]):
        findings.error(path, line, f"{included} is internal to layer {parts[1]}; move the header out of detail/, or use another header")
    if "/testing/" in included and not tests:
        findings.error(path, line, f"{included} is for tests; code of the library must not include it")
    owner = implementation_of(included)
    if owner and owner != implementation_of(str(path)) and not tests and not ENTRY.search(included):
        findings.error(path, line, f"{included} is internal to {owner}; use the interface, or its entry header")


def check_foreign(path, included, findings, line):
    """Checks an #include of a foreign header."""
    if CUDA_HEADER.match(included) and not CUDA_PLACES.search(str(path)):
        findings.error(path, line, f"{included}: CUDA and NCCL headers belong in device/cuda, ops/*/cuda, comm/backends/{{nccl,cuda}} and *.cu")
    if source_tree.is_installed(path):
        if THIRD_PARTY.match(included):
            findings.error(path, line, f"{included}: an installed header must not need a third-party header; use it in a .cpp")
        elif CUDA_HEADER.match(included):
            findings.error(path, line, f"{included}: an installed header must not need CUDA; put this header in a detail/ folder")


def check_device_names(path, text, findings):
    """Checks that a file of a layer for any device names none."""
    if path.parts[0] != "tessera" or path.parts[1] not in ANY_DEVICE or source_tree.is_for_tests(path):
        return
    code = re.sub(r"//[^\n]*", "", text)
    for match in DEVICE_NAME.finditer(code):
        findings.error(path, code.count("\n", 0, match.start()) + 1,
                       f"{match.group()} names a device in layer {path.parts[1]}; use tensor::default_device(), or "
                       "tensor::host_device() for control traffic and staging")


def check_file(root, path, layers, findings):
    text = (root / path).read_text()
    check_device_names(path, text, findings)
    # blank() removes strings together with comments, so the included name is read from the text itself.
    code = source_tree.blank(text)
    includes = []
    for match in INCLUDE.finditer(text):
        if "#" in code[match.start():match.end()]:
            includes.append((text.count("\n", 0, match.start()) + 1 + match.group().count("\n"), match.group(1), match.group(2)))
    for line, kind, included in includes:
        if included.startswith("tessera/"):
            if kind == "<" and path.parts[0] == "tessera":
                findings.error(path, line, f"write our own headers in quotes: \"{included}\"")
            check_ours(path, included, layers, findings, line)
        elif kind == '"' and path.parts[0] == "tessera":
            findings.error(path, line, f"\"{included}\": include ours by the full path from the root, others' in <>")
        else:
            check_foreign(path, included, findings, line)
    # x-inl.h is vector code that is read once per Highway target: its guard is a toggle.
    guard = r"\bHWY_TARGET_TOGGLE\b" if path.name.endswith("-inl.h") else r"^#pragma once$"
    if path.suffix in source_tree.HEADERS and not re.search(guard, text, re.MULTILINE):
        findings.error(path, 1, "a header needs " + ("the toggle of HWY_TARGET_TOGGLE" if "TOGGLE" in guard else "#pragma once"))
    own = path.with_suffix(".h")
    if path.suffix == ".cpp" and path.parts[0] == "tessera" and (root / own).is_file():
        if not includes or includes[0][2] != str(own):
            findings.error(path, includes[0][0] if includes else 1, f"include \"{own}\" first, which proves that it stands alone")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the tree to check (default: the one this file is in)")
    root = parser.parse_args().root
    layers = read_layers(root)
    findings = source_tree.Findings("layers")
    if not layers:
        findings.error("tessera", 1, "no tessera_layer() found in tessera/*/CMakeLists.txt")
    checked = source_tree.cpp_files(root)
    for path in checked:
        if path.parts[0] == "tessera" and len(path.parts) > 2 and path.parts[1] not in layers and path.parts[1] != "cli":
            findings.error(path, 1, f"folder tessera/{path.parts[1]} declares no tessera_layer()")
        check_file(root, path, layers, findings)
    return findings.close(len(checked))


if __name__ == "__main__":
    sys.exit(main())
