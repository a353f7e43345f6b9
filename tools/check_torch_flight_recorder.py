#!/usr/bin/env python3
"""Checks a directory of dumps in the format of the PyTorch flight recorder, as its analyzer reads them.

    check_torch_flight_recorder.py DIRECTORY

The files have one prefix, followed by their rank. A pickle must contain only plain data. The version must be equal in all
files and at least 2.7. Every entry must have its keys with their types, a group in pg_config with one description on all
ranks, an operation that the analyzer knows, and sizes that fit the operation. Operations that were launched together must
end with an entry nccl:coalesced. Exits with 1 and prints a line for each fault.
"""

import argparse
import ast
import math
import pathlib
import pickle
import pickletools
import re
import sys

OPCODES = set("""PROTO FRAME MARK STOP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE
    EMPTY_LIST EMPTY_DICT EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 LIST DICT APPEND APPENDS SETITEM SETITEMS MEMOIZE BINPUT
    LONG_BINPUT BINGET LONG_BINGET""".split())
OPERATIONS = set("""broadcast _broadcast_oop reduce _reduce_oop all_gather _all_gather_base all_gather_into_tensor_coalesced
    all_reduce allreduce_coalesced all_reduce_barrier reduce_scatter _reduce_scatter_base reduce_scatter_tensor_coalesced
    gather scatter all_to_all ALLGATHER_coalesced REDUCE_SCATTER_coalesced send recv coalesced""".split())
KEYS = {"record_id": int, "pg_id": int, "process_group": tuple, "thread_name": str, "thread_id": str,
        "collective_seq_id": int, "p2p_seq_id": int, "op_id": int, "profiling_name": str, "time_created_ns": int,
        "input_sizes": list, "input_dtypes": list, "output_sizes": list, "output_dtypes": list, "state": str,
        "retired": bool, "timeout_ms": int, "is_p2p": bool}
OPTIONAL = {"frames": list, "duration_ms": float, "time_discovered_started_ns": (int, type(None)),
            "time_discovered_completed_ns": (int, type(None)), "tessera": dict}
STATES = {"scheduled", "started", "completed"}
MESSAGE = re.compile(r"^(?:send \d+->\d+|recv \d+<-\d+)$")


def find_files(directory):
    """Returns a map from rank to path. The analyzer detects the prefix only if there is exactly one."""
    prefixes = {}
    for path in sorted(directory.iterdir()):
        match = re.match(r"^(.*?)(\d+)$", path.name)
        if match and path.is_file():
            prefixes.setdefault(match.group(1), {})[int(match.group(2))] = path
    if len(prefixes) != 1:
        raise SystemExit(f"{directory}: {len(prefixes)} prefixes of files, and there must be one: {sorted(prefixes)}")
    return next(iter(prefixes.values()))


def numel(sizes):
    return sum(math.prod(size) for size in sizes)


def entry_faults(entry, ranks_of):
    """Returns the faults of one entry."""
    for key, kind in KEYS.items():
        if not isinstance(entry.get(key), kind):
            yield f"{key} is {entry.get(key)!r}"
            return
    for key in entry:
        if key not in KEYS and not isinstance(entry[key], OPTIONAL.get(key, ())):
            yield f"{key} is {entry[key]!r}"
    if entry["process_group"][0] not in ranks_of:
        yield f"group {entry['process_group'][0]} is not in pg_config"
        return
    if entry["state"] not in STATES:
        yield f"state {entry['state']}"
    name = entry["profiling_name"]
    backend, _, operation = name.partition(":")
    if name.count(":") != 1 or backend not in ("nccl", "xccl"):
        yield f"profiling_name {name}: its backend is none that the analyzer knows"
    if operation.split(" ")[0] not in OPERATIONS:
        yield f"profiling_name {name}: the analyzer stops here"
    if operation.split(" ")[0] in ("send", "recv") and not (MESSAGE.match(operation) and entry["is_p2p"]):
        yield f"profiling_name {name}: no message, or not marked as one"
    for side in ("input", "output"):
        sizes, dtypes = entry[side + "_sizes"], entry[side + "_dtypes"]
        if not all(isinstance(size, list) and all(isinstance(n, int) for n in size) for size in sizes):
            yield f"{side}_sizes {sizes}"
            return
        if len(sizes) != len(dtypes):
            yield f"{len(sizes)} {side}_sizes and {len(dtypes)} {side}_dtypes"
    size = len(ranks_of[entry["process_group"][0]])
    given, got = numel(entry["input_sizes"]), numel(entry["output_sizes"])
    if operation == "_all_gather_base" and given * size != got or operation == "_reduce_scatter_base" and given != got * size:
        yield f"{name} of {size} ranks: {given} elements in, {got} out"
    if operation in ("all_reduce", "broadcast", "reduce") and given != got:
        yield f"{name}: {given} elements in, {got} out"


def coalesced_faults(entries):
    """Returns the faults of entries of one launch that do not end as the analyzer requires."""
    runs = {}
    for entry in entries:
        number = entry["p2p_seq_id"] if entry["is_p2p"] else entry["collective_seq_id"]
        runs.setdefault((entry["process_group"][0], entry["is_p2p"], number), []).append(entry["profiling_name"])
    for (group, _, number), names in runs.items():
        if len(names) > 1 and names[-1] != "nccl:coalesced":
            yield f"group {group}: {names} of one number, {number}, do not end with nccl:coalesced"


def file_faults(data, dump, descriptions):
    """Returns the faults of one file; descriptions are those of the groups seen so far."""
    strange = {opcode.name for opcode, _, _ in pickletools.genops(data)} - OPCODES
    if strange:
        yield f"opcodes beyond plain data: {', '.join(sorted(strange))}"
    for key, kind in {"entries": list, "version": str, "pg_config": dict, "pg_status": dict, "comm_lib_version": str}.items():
        if not isinstance(dump.get(key), kind):
            yield f"{key} is {dump.get(key)!r}"
            return
    ranks_of = {}
    for name, config in dump["pg_config"].items():
        ranks_of[name] = ast.literal_eval(config["ranks"])
        if config["name"] != name or not all(isinstance(rank, int) for rank in ranks_of[name]):
            yield f"group {name}: {config}"
        if descriptions.setdefault(name, config["desc"]) != config["desc"]:
            yield f"group {name}: {config['desc']} here, {descriptions[name]} elsewhere"
    for number, status in dump["pg_status"].items():
        wanted = {"last_enqueued_collective", "last_started_collective", "last_completed_collective"}
        if not number.isdigit() or set(status) != wanted or not all(isinstance(value, int) for value in status.values()):
            yield f"pg_status {number}: {status}"
    faults = [f"entry {i}: {fault}" for i, entry in enumerate(dump["entries"]) for fault in entry_faults(entry, ranks_of)]
    yield from faults
    if faults:
        return
    if [entry["record_id"] for entry in dump["entries"]] != list(range(len(dump["entries"]))):
        yield "record_id does not count"
    yield from coalesced_faults(dump["entries"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    faults = []
    versions = set()
    descriptions = {}
    for path in find_files(parser.parse_args().directory).values():
        data = path.read_bytes()
        dump = pickle.loads(data)
        versions.add(dump.get("version"))
        faults += [f"{path}: {fault}" for fault in file_faults(data, dump, descriptions)]
    if len(versions) != 1 or not re.match(r"^2\.(?:[7-9]|\d\d+)$", str(next(iter(versions)))):
        faults.append(f"versions {sorted(map(str, versions))}: one of at least 2.7 is needed")
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
