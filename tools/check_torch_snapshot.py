#!/usr/bin/env python3
"""Checks PyTorch memory snapshots (pickle or JSON), as the PyTorch viewer reads them.

    check_torch_snapshot.py FILE...

A pickle must have protocol 2 to 4, and use only the opcodes of plain data and batches of at most 1000. In both formats,
every key must exist with its type, segments must be sorted and covered by their blocks, sums must be right, and the trace
must replay backwards from the final state without an inconsistent event. Exits with 1 if a file is invalid.
"""

import argparse
import io
import json
import pickle
import pickletools
import sys

OPCODES = set("""PROTO FRAME MARK STOP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE
    EMPTY_LIST EMPTY_DICT EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 LIST DICT APPEND APPENDS SETITEM SETITEMS MEMOIZE BINPUT
    LONG_BINPUT BINGET LONG_BINGET""".split())
MOST_IN_BATCH = 1000
STATES = {"active_allocated", "active_pending_free", "inactive"}
SEGMENT = {"device": int, "address": int, "total_size": int, "allocated_size": int, "active_size": int, "requested_size": int,
           "stream": int, "segment_type": str, "segment_pool_id": tuple, "is_expandable": bool, "frames": list, "blocks": list}
BLOCK = {"address": int, "size": int, "requested_size": int, "state": str, "frames": list}
FRAME = {"filename": str, "line": int, "name": str}
EVENT = {"action": str, "size": int, "stream": int, "time_us": int, "compile_context": str, "user_metadata": str,
         "frames": list, "pool_id": tuple}
ACTIONS = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
           "oom", "snapshot"}
SETTINGS = {"PYTORCH_CUDA_ALLOC_CONF": str, "max_split_size": int, "garbage_collection_threshold": float,
            "expandable_segments": bool, "pinned_num_register_threads": int, "release_lock_on_cudamalloc": bool,
            "pinned_use_cuda_host_register": bool, "roundup_power2_divisions": dict,
            "graph_capture_record_stream_reuse": bool, "trace_alloc_max_entries": int, "trace_alloc_overflowed": bool}


class Bad(Exception):
    """The file is invalid."""


def need(condition, message):
    if not condition:
        raise Bad(message)


class PlainUnpickler(pickle.Unpickler):
    """Loads only plain data."""

    def find_class(self, module, name):
        raise Bad(f"the pickle names {module}.{name}; only plain data is allowed")


def check_pickle(data):
    need(data[0] == 0x80 and data[1] in (2, 3, 4), f"protocol {data[1]}; the viewer reads 2 to 4")
    marks = []  # values on the stack since each open mark
    for opcode, argument, position in pickletools.genops(data):
        need(opcode.name in OPCODES, f"opcode {opcode.name} at byte {position}: the viewer does not know it")
        if opcode.name == "MARK":
            marks.append(0)
        elif pickletools.markobject in opcode.stack_before:
            batch = marks.pop()
            per_item = 2 if opcode.name == "SETITEMS" else 1
            need(batch <= MOST_IN_BATCH * per_item, f"a batch of {batch} at byte {position}")
            if marks and opcode.stack_after and opcode.name not in ("APPENDS", "SETITEMS"):
                marks[-1] += 1
        elif marks:
            marks[-1] += len(opcode.stack_after) - len(opcode.stack_before)
    return PlainUnpickler(io.BytesIO(data)).load()


def load(path):
    """Returns the snapshot, and whether it came from JSON, where a tuple is a list."""
    with open(path, "rb") as file:
        data = file.read()
    need(data, "empty")
    if data[:1] == b"{":
        return json.loads(data), True
    return check_pickle(data), False


def check_keys(value, schema, where, is_json, allowed=()):
    need(isinstance(value, dict), f"{where} is no dict")
    for key, kind in schema.items():
        need(key in value, f"{where} has no '{key}'")
        wanted = list if is_json and kind is tuple else kind
        need(type(value[key]) is wanted, f"{where}: '{key}' is {value[key]!r}, not a {wanted.__name__}")
        if kind is tuple:
            need(len(value[key]) == 2 and all(type(part) is int for part in value[key]), f"{where}: '{key}' is no pair of ints")
    extra = set(value) - set(schema) - set(allowed)
    need(not extra, f"{where} has keys that PyTorch does not write: {sorted(extra)}")


def check_frames(frames, where, is_json):
    for frame in frames:
        check_keys(frame, FRAME, f"{where}: a frame", is_json)


def check_segment(segment, is_json):
    where = f"segment {segment.get('address')}"
    check_keys(segment, SEGMENT, where, is_json)
    need(segment["segment_type"] in ("small", "large"), f"{where}: type {segment['segment_type']}")
    check_frames(segment["frames"], where, is_json)
    sums = {state: 0 for state in STATES}
    requested = 0
    address = segment["address"]
    for block in segment["blocks"]:
        at = f"{where}: block {block.get('address')}"
        check_keys(block, BLOCK, at, is_json)
        check_frames(block["frames"], at, is_json)
        need(block["state"] in STATES, f"{at}: state {block['state']}")
        need(block["address"] == address, f"{at} should be at {address}")
        need(block["requested_size"] <= block["size"], f"{at} is smaller than what was asked for")
        address += block["size"]
        sums[block["state"]] += block["size"]
        requested += block["requested_size"] if block["state"] != "inactive" else 0
    need(sum(sums.values()) == segment["total_size"], f"{where}: blocks have {sum(sums.values())} of {segment['total_size']} bytes")
    need(segment["allocated_size"] == sums["active_allocated"], f"{where}: allocated_size is wrong")
    need(segment["active_size"] == sums["active_allocated"] + sums["active_pending_free"], f"{where}: active_size is wrong")
    need(segment["requested_size"] == requested, f"{where}: requested_size is wrong")


def check_event(event, where, is_json):
    need(event.get("action") in ACTIONS, f"{where}: action {event.get('action')}")
    place = {"device_free": int} if event["action"] == "oom" else {"addr": int}
    check_keys(event, {**EVENT, **place}, where, is_json)
    check_frames(event["frames"], where, is_json)


class State:
    """The state of the viewer while it undoes events: mapped runs, and blocks that are not free."""

    def __init__(self, segments):
        self.runs = [[s["address"], s["total_size"], s["stream"]] for s in segments]
        self.blocks = {}
        for segment in segments:
            for block in segment["blocks"]:
                if block["state"] != "inactive":
                    self.blocks[block["address"]] = block["state"] == "active_pending_free"

    def undo(self, event, where):
        action, size = event["action"], event["size"]
        address = event.get("addr")
        if action == "alloc":
            need(address in self.blocks, f"{where}: alloc of {address}, which is not there afterwards")
            del self.blocks[address]
        elif action == "free_requested":
            need(address in self.blocks, f"{where}: free_requested of {address}, which neither ends nor is pending")
            need(self.blocks[address], f"{where}: free_requested of {address}, which is not pending afterwards")
            self.blocks[address] = False
        elif action == "free_completed":
            self.blocks[address] = True
        elif action in ("segment_free", "segment_unmap"):
            self.add([address, size, event["stream"]], action == "segment_unmap", where)
        elif action in ("segment_alloc", "segment_map"):
            self.remove(address, size, action == "segment_map", where)

    def add(self, run, merges, where):
        need(all(run[0] + run[1] <= other[0] or other[0] + other[1] <= run[0] for other in self.runs),
             f"{where}: {run[0]} is unmapped here and mapped afterwards")
        self.runs.append(run)
        self.runs.sort()
        if not merges:
            return
        merged = []
        for each in self.runs:
            touches = merged and merged[-1][0] + merged[-1][1] == each[0] and merged[-1][2] == each[2]
            if touches and (each is run or merged[-1] is run):
                each = run = [merged[-1][0], merged[-1][1] + each[1], each[2]]
                merged.pop()
            merged.append(each)
        self.runs = merged

    def remove(self, address, size, is_piece, where):
        for index, (start, length, stream) in enumerate(self.runs):
            fits = start <= address and address + size <= start + length if is_piece else start == address and length == size
            if fits:
                parts = [[start, address - start, stream], [address + size, start + length - address - size, stream]]
                self.runs[index:index + 1] = [part for part in parts if part[1] > 0]
                return
        raise Bad(f"{where}: {address} is mapped here, and no run holds it afterwards")

    def check_blocks(self, where):
        """Checks that every block is in a run; otherwise the viewer cannot draw it."""
        runs = iter(self.runs)
        run = next(runs, None)
        for address in sorted(self.blocks):
            while run and run[0] + run[1] <= address:
                run = next(runs, None)
            need(run and run[0] <= address, f"{where}: before it, block {address} lies in no segment")


def check(path):
    snapshot, is_json = load(path)
    check_keys(snapshot, {"segments": list, "device_traces": list, "allocator_settings": dict, "external_annotations": list},
               "the snapshot", is_json)
    segments, traces = snapshot["segments"], snapshot["device_traces"]
    check_keys(snapshot["allocator_settings"], SETTINGS, "allocator_settings", is_json, allowed=["tessera"])
    for segment in segments:
        check_segment(segment, is_json)
        need(segment["device"] < len(traces), f"segment {segment['address']}: device {segment['device']} has no trace")
    for before, after in zip(segments, segments[1:]):
        overlap = before["address"] + before["total_size"] > after["address"] and before["device"] == after["device"]
        need(before["address"] <= after["address"] and not overlap,
             f"segments {before['address']} and {after['address']} are out of order or overlap")
    events = 0
    for device, trace in enumerate(traces):
        state = State([segment for segment in segments if segment["device"] == device])
        state.check_blocks("the end")
        for index in range(len(trace) - 1, -1, -1):
            where = f"device {device}, event {index}"
            check_event(trace[index], where, is_json)
            state.undo(trace[index], where)
            state.check_blocks(where)
        events += len(trace)
    blocks = sum(len(segment["blocks"]) for segment in segments)
    return f"{len(segments)} segments, {blocks} blocks, {events} events: good"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="+", help="a snapshot")
    status = 0
    for path in parser.parse_args().file:
        try:
            print(f"{path}: {check(path)}")
        except (Bad, OSError, ValueError, pickle.UnpicklingError) as problem:
            print(f"{path}: {problem}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
