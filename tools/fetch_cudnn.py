#!/usr/bin/env python3
"""Downloads the headers that a build of attention by cuDNN needs: fetch_cudnn.py FOLDER

FOLDER/include receives the headers of the cuDNN frontend (a wheel of PyPI, by pip) and of cuDNN (from a wheel of PyPI,
whose libraries are not downloaded). Versions and hashes are pinned here. If FOLDER already has these versions, nothing
is downloaded. If a download fails, the program prints the reason and exits with 1.
"""

import hashlib
import io
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile

FRONTEND = "1.18.0"
FRONTEND_SHA256 = "382ea063b92cbfd5b442cb75ff8422932d78276aecf139e46713ed1ad3d07af4"
CUDNN = "9.19.0.56"
CUDNN_WHEEL = (
    "https://files.pythonhosted.org/packages/a3/22/0b4b932655d17a6da1b92fa92ab12844b053bb2ac2475e179ba6f043da1e/"
    f"nvidia_cudnn_cu13-{CUDNN}-py3-none-manylinux_2_27_x86_64.whl"
)
CUDNN_HEADERS_SHA256 = "bd6b5d6a85867d0f075035b8c4766a22181445a4d5cb726b7977dd681e5a5460"  # of the names and contents of the headers
TIMEOUT_S = 15


class RemoteFile(io.RawIOBase):
    """A file on a server, of which only the parts that are read are downloaded."""

    def __init__(self, url: str):
        self.url = url
        self.at = 0
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=TIMEOUT_S) as answer:
            self.size = int(answer.headers["Content-Length"])

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, to) -> int:
        end = min(self.at + len(to), self.size)
        if self.at >= end:
            return 0
        request = urllib.request.Request(self.url, headers={"Range": f"bytes={self.at}-{end - 1}"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            if answer.status != 206:
                raise OSError(f"{self.url}: the server does not send parts of files")
            data = answer.read()
        to[: len(data)] = data
        self.at += len(data)
        return len(data)


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


def fetch_cudnn(include: pathlib.Path) -> None:
    folder = "nvidia/cudnn/include/"
    with zipfile.ZipFile(io.BufferedReader(RemoteFile(CUDNN_WHEEL), 1 << 16)) as wheel:
        headers = {
            name.removeprefix(folder): wheel.read(name)
            for name in sorted(wheel.namelist())
            if name.startswith(folder) and name.endswith(".h")
        }
    found = hashlib.sha256(b"".join(name.encode() + b"\0" + text for name, text in headers.items())).hexdigest()
    if found != CUDNN_HEADERS_SHA256:
        raise OSError(f"headers of cuDNN {CUDNN}: the hash must be {CUDNN_HEADERS_SHA256}, got {found}")
    for name, text in headers.items():
        (include / name).write_bytes(text)


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    stamp = folder / "versions"
    versions = f"{FRONTEND} {FRONTEND_SHA256} {CUDNN} {CUDNN_HEADERS_SHA256}\n"
    if stamp.exists() and stamp.read_text() == versions:
        return 0
    shutil.rmtree(folder, ignore_errors=True)
    include = folder / "include"
    include.mkdir(parents=True)
    try:
        with tempfile.TemporaryDirectory() as work:
            fetch_frontend(include, pathlib.Path(work))
        fetch_cudnn(include)
    except (OSError, zipfile.BadZipFile) as error:
        print(f"headers of cuDNN cannot be downloaded: {error}", file=sys.stderr)
        return 1
    stamp.write_text(versions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
