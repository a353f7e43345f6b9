#!/usr/bin/env python3
"""Downloads the headers of the cuDNN frontend, which attention by cuDNN is built with: fetch_cudnn.py FOLDER

FOLDER/include receives the headers of a wheel of PyPI, downloaded by pip. Version and hash are pinned here. If FOLDER
already has this version, nothing is downloaded. If the download fails, the program prints the reason and exits with 1.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

FRONTEND = "1.18.0"
FRONTEND_SHA256 = "382ea063b92cbfd5b442cb75ff8422932d78276aecf139e46713ed1ad3d07af4"
TIMEOUT_S = 15


def fetch_frontend(include: pathlib.Path, work: pathlib.Path) -> None:
    requirements = work / "requirements.txt"
    requirements.write_text(f"nvidia-cudnn-frontend=={FRONTEND} --hash=sha256:{FRONTEND_SHA256}\n")
    # One wheel for any Python, so that its hash is pinned: only its headers are used.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps", "--retries", "1"]
    command += ["--timeout", str(TIMEOUT_S), "--only-binary", ":all:", "--python-version", "3.11", "--abi", "cp311"]
    command += ["--implementation", "cp", "--platform", "manylinux_2_28_x86_64", "-d", str(work), "-r", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise OSError(f"pip cannot download nvidia-cudnn-frontend {FRONTEND}: {lines[-1]}")
    with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
        for name in wheel.namelist():
            if name.startswith("include/") and name.endswith((".h", ".hpp")):
                target = include / name.removeprefix("include/")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(wheel.read(name))


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    stamp = folder / "versions"
    versions = f"{FRONTEND} {FRONTEND_SHA256}\n"
    if stamp.exists() and stamp.read_text() == versions:
        return 0
    shutil.rmtree(folder, ignore_errors=True)
    include = folder / "include"
    include.mkdir(parents=True)
    try:
        with tempfile.TemporaryDirectory() as work:
            fetch_frontend(include, pathlib.Path(work))
    except (OSError, zipfile.BadZipFile) as error:
        print(f"the headers of the cuDNN frontend cannot be downloaded: {error}", file=sys.stderr)
        return 1
    stamp.write_text(versions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
