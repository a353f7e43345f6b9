#!/usr/bin/env python3
"""Writes the dependencies of a build with their versions, as a CycloneDX 1.5 document.

Versions come from the headers or package files that the build uses. If a version cannot be found, the list contains the
dependency with the version "unknown", and a warning is printed: no dependency is omitted silently.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

# name, license, how it is linked, files below an include or library directory, patterns of the parts of its version
DEPENDENCIES = [
    ("fmt", "MIT", "dynamic", "fmt/core.h fmt/base.h", [r"define FMT_VERSION (\d+)"]),
    ("spdlog", "MIT", "dynamic", "spdlog/version.h",
     [r"SPDLOG_VER_MAJOR (\d+)", r"SPDLOG_VER_MINOR (\d+)", r"SPDLOG_VER_PATCH (\d+)"]),
    ("nlohmann-json", "MIT", "header", "nlohmann/detail/abi_macros.hpp",
     [r"JSON_VERSION_MAJOR (\d+)", r"JSON_VERSION_MINOR (\d+)", r"JSON_VERSION_PATCH (\d+)"]),
    ("CLI11", "BSD-3-Clause", "header", "CLI/Version.hpp", [r'define CLI11_VERSION "([\d.]+)"']),
    ("highway", "Apache-2.0", "dynamic", "pkgconfig/libhwy.pc", [r"Version: ([\d.]+)"]),
    ("asio", "BSL-1.0", "header", "asio/version.hpp", [r"define ASIO_VERSION \d+ // ([\d.]+)"]),
    ("tomlplusplus", "MIT", "header", "toml++/impl/version.h",
     [r"TOML_LIB_MAJOR\s+(\d+)", r"TOML_LIB_MINOR\s+(\d+)", r"TOML_LIB_PATCH\s+(\d+)"]),
    ("xxhash", "BSD-2-Clause", "header", "xxhash.h",
     [r"XXH_VERSION_MAJOR\s+(\d+)", r"XXH_VERSION_MINOR\s+(\d+)", r"XXH_VERSION_RELEASE\s+(\d+)"]),
    ("onednn", "Apache-2.0", "dynamic", "oneapi/dnnl/dnnl_version.h",
     [r"DNNL_VERSION_MAJOR (\d+)", r"DNNL_VERSION_MINOR (\d+)", r"DNNL_VERSION_PATCH (\d+)"]),
    ("libsodium", "ISC", "static", "sodium/version.h", [r'SODIUM_VERSION_STRING "([\d.]+)"']),
    ("utf8proc", "MIT", "static", "utf8proc.h",
     [r"UTF8PROC_VERSION_MAJOR (\d+)", r"UTF8PROC_VERSION_MINOR (\d+)", r"UTF8PROC_VERSION_PATCH (\d+)"]),
]


# The same fields for optional dependencies of a build; --with NAME=DIRECTORY names those that it has.
OPTIONAL = {
    "cuda": ("cuda", "NVIDIA CUDA Toolkit EULA", "header, loaded at run time", "cuda.h", [r"define CUDA_VERSION (\d+)"]),
    "cudnn-frontend": ("cudnn-frontend", "MIT", "header", "cudnn_frontend_version.h",
                       [r"define CUDNN_FRONTEND_MAJOR_VERSION (\d+)", r"define CUDNN_FRONTEND_MINOR_VERSION (\d+)",
                        r"define CUDNN_FRONTEND_PATCH_VERSION (\d+)"]),
    "cudnn": ("cudnn", "NVIDIA cuDNN Software License", "header, loaded at run time", "cudnn_version.h",
              [r"define CUDNN_MAJOR (\d+)", r"define CUDNN_MINOR (\d+)", r"define CUDNN_PATCHLEVEL (\d+)"]),
    "nccl": ("nccl", "BSD-3-Clause", "header, loaded at run time", "nccl.h",
             [r"define NCCL_MAJOR (\d+)", r"define NCCL_MINOR (\d+)", r"define NCCL_PATCH (\d+)"]),
    "openmpi": ("openmpi", "BSD-3-Clause-Open-MPI", "header, loaded at run time", "mpi.h",
                [r"OMPI_MAJOR_VERSION (\d+)", r"OMPI_MINOR_VERSION (\d+)", r"OMPI_RELEASE_VERSION (\d+)"]),
}
UNKNOWN = "unknown"


def dotted(name, version):
    """Converts a version that a header defines as one number: 90100 of fmt is 9.1.0, and 13020 of CUDA is 13.2."""
    if "." in version:
        return version
    number = int(version)
    if name == "cuda":
        return f"{number // 1000}.{number % 1000 // 10}"
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def version_of(name, files, patterns, directories):
    """Returns the version from the header."""
    for directory in directories:
        for path in (directory / file for file in files.split()):
            if not path.is_file():
                continue
            text = path.read_text(errors="replace")
            parts = [re.search(pattern, text) for pattern in patterns]
            if all(parts):
                return dotted(name, ".".join(part.group(1) for part in parts))
    warn(name, f"no file {files} in {', '.join(map(str, directories))} states it")
    return UNKNOWN


def version_of_nvcc(program):
    """Returns the version that the compiler prints."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        found = re.search(r"\bV([\d.]+)", done.stdout)
    except OSError:
        found = None
    if found:
        return found.group(1)
    warn("nvcc", f"{program} --version does not print it")
    return UNKNOWN


def warn(name, why):
    print(f"make_sbom: warning: the version of {name} is unknown: {why}", file=sys.stderr)


def component(kind, name, license_name, linkage, version):
    """Returns an entry of the list."""
    is_spdx = " " not in license_name
    return {"type": kind, "name": name, "version": version,
            "licenses": [{"license": {"id" if is_spdx else "name": license_name}}],
            "properties": [{"name": "tessera:linkage", "value": linkage}]}


def components(arguments):
    """Returns all entries of the list."""
    for name, license_name, linkage, files, patterns in DEPENDENCIES:
        yield component("library", name, license_name, linkage, version_of(name, files, patterns, arguments.directories))
    for setting in arguments.has:
        key, _, directory = setting.partition("=")
        name, license_name, linkage, files, patterns = OPTIONAL[key]
        yield component("library", name, license_name, linkage, version_of(name, files, patterns, [pathlib.Path(directory)]))
    if arguments.nvcc:
        yield component("application", "nvcc", OPTIONAL["cuda"][1], "compiler", version_of_nvcc(arguments.nvcc))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="file to write")
    parser.add_argument("--version", required=True, help="version of Tessera")
    parser.add_argument("--compiler", required=True, help="compiler and its version")
    parser.add_argument("--with", dest="has", action="append", default=[], metavar="NAME=DIRECTORY",
                        help=f"an optional dependency of this build and its headers: {', '.join(OPTIONAL)}")
    parser.add_argument("--nvcc", help="the CUDA compiler of this build")
    parser.add_argument("directories", nargs="+", type=pathlib.Path, help="directories of headers and libraries to look in")
    arguments = parser.parse_args()
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "library", "name": "tessera", "version": arguments.version,
                          "licenses": [{"license": {"id": "MIT"}}]},
            "properties": [{"name": "tessera:compiler", "value": arguments.compiler}],
        },
        "components": list(components(arguments)),
    }
    arguments.output.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
