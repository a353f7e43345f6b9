#!/usr/bin/env python3
"""Writes the list of dependencies that a build is made from, with their versions, as a CycloneDX 1.5 document.

Versions are read from the headers or package files that the build uses. A dependency whose version cannot be found is an
error, so that the list never omits one silently.
"""

import argparse
import json
import pathlib
import re
import sys

# name, license, how it is linked, file below an include or library directory, patterns of the parts of its version
DEPENDENCIES = [
    ("fmt", "MIT", "dynamic", "fmt/core.h", [r"define FMT_VERSION (\d+)"]),
    ("spdlog", "MIT", "dynamic", "spdlog/version.h",
     [r"SPDLOG_VER_MAJOR (\d+)", r"SPDLOG_VER_MINOR (\d+)", r"SPDLOG_VER_PATCH (\d+)"]),
    ("nlohmann-json", "MIT", "header", "nlohmann/detail/abi_macros.hpp",
     [r"JSON_VERSION_MAJOR (\d+)", r"JSON_VERSION_MINOR (\d+)", r"JSON_VERSION_PATCH (\d+)"]),
    ("CLI11", "BSD-3-Clause", "header", "CLI/Version.hpp", [r'define CLI11_VERSION "([\d.]+)"']),
    ("highway", "Apache-2.0", "dynamic", "pkgconfig/libhwy.pc", [r"Version: ([\d.]+)"]),
    ("openblas", "BSD-3-Clause", "static", "openblas-serial/openblas_config.h", [r"OPENBLAS_VERSION \"\s*OpenBLAS ([\d.]+)"]),
    ("asio", "BSL-1.0", "header", "asio/version.hpp", [r"define ASIO_VERSION \d+ // ([\d.]+)"]),
    ("tomlplusplus", "MIT", "header", "toml++/impl/version.h",
     [r"TOML_LIB_MAJOR\s+(\d+)", r"TOML_LIB_MINOR\s+(\d+)", r"TOML_LIB_PATCH\s+(\d+)"]),
    ("xxhash", "BSD-2-Clause", "header", "xxhash.h",
     [r"XXH_VERSION_MAJOR\s+(\d+)", r"XXH_VERSION_MINOR\s+(\d+)", r"XXH_VERSION_RELEASE\s+(\d+)"]),
    ("libsodium", "ISC", "static", "sodium/version.h", [r'SODIUM_VERSION_STRING "([\d.]+)"']),
]


def version_of(name, file, patterns, directories):
    """The version as its header states it."""
    for directory in directories:
        path = directory / file
        if path.is_file():
            text = path.read_text(errors="replace")
            parts = [re.search(pattern, text) for pattern in patterns]
            if not all(parts):
                raise SystemExit(f"make_sbom: {path} does not state the version of {name}")
            version = ".".join(part.group(1) for part in parts)
            # fmt states one number: 90100 is 9.1.0.
            return version if "." in version else "{}.{}.{}".format(*divmod(int(version) // 100, 100), int(version) % 100)
    raise SystemExit(f"make_sbom: {name}: no file {file} in {', '.join(map(str, directories))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, required=True, help="file to write")
    parser.add_argument("--version", required=True, help="version of Tessera")
    parser.add_argument("--compiler", required=True, help="compiler and its version")
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
        "components": [
            {"type": "library", "name": name, "version": version_of(name, file, patterns, arguments.directories),
             "licenses": [{"license": {"id": license_id}}], "properties": [{"name": "tessera:linkage", "value": linkage}]}
            for name, license_id, linkage, file, patterns in DEPENDENCIES
        ],
    }
    arguments.output.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
