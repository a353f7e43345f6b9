#!/usr/bin/env python3
"""torch_worker.py THREADS: measures rows of the suites host_train and nn under PyTorch, one request at a time.

Writes one JSON line about itself first: {"torch", "threads", "rows": {NAME: unit}}. Then reads requests
{"row", "mode", "seconds", "samples"} from stdin, one to a line, and answers each with {"value"}, a median, or with
{"error"}. A row is prepared when it is first requested and dropped when another one is. Needs torch.
"""

import gc
import json
import os
import statistics
import sys
import time

import torch

import torch_generation
import torch_operators
import torch_steps

BATCH_SECONDS = 200e-6  # a sample is as many calls as take this long, as in our benches


def median_seconds(call, seconds, samples):
    """Median over samples of the time of one call: as many samples as fit into `seconds`, at least one."""
    begin = time.perf_counter()
    call()
    calls = max(1, int(BATCH_SECONDS / max(time.perf_counter() - begin, 1e-9)))
    times = []
    until = time.perf_counter() + seconds
    while not times or (len(times) < samples and time.perf_counter() < until):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - begin) / calls)
    return statistics.median(times)


class Rows:
    """The rows that can be measured. Holds the one that was measured last."""

    def __init__(self):
        self.operators = torch_operators.rows()
        self.name, self.modes, self.warm = None, {}, set()

    def units(self):
        return {**{name: "us" for name in self.operators}, **{name: "ms" for name in torch_steps.STEPS},
                **{name: "tokens/s" for name in torch_generation.ROWS}}

    def measure(self, name, mode, seconds, samples):
        if name != self.name:
            self.name, self.modes, self.warm = None, {}, set()
            gc.collect()
            torch._dynamo.reset()
            if name in torch_generation.ROWS:
                self.modes = torch_generation.prepare(name)
            else:
                self.modes = torch_steps.prepare(name) if name in torch_steps.STEPS else self.operators[name]()
            self.name = name
        if mode not in self.modes:
            raise LookupError(f"no mode {mode}")
        call = self.modes[mode]
        if mode not in self.warm:
            call()  # compiles
            self.warm.add(mode)
        took = median_seconds(call, seconds, samples)
        unit = self.units()[name]
        return torch_generation.tokens_per_call(name) / took if unit == "tokens/s" else took * {"us": 1e6, "ms": 1e3}[unit]


def main():
    threads = int(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else prints, answers are alone
    torch.set_num_threads(threads)
    rows = Rows()
    print(json.dumps({"torch": torch.__version__, "threads": torch.get_num_threads(), "rows": rows.units()}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"value": rows.measure(request["row"], request["mode"], request["seconds"], request["samples"])}
        except Exception as error:  # torch raises many kinds; the row is then named with its reason
            answer = {"error": (str(error).strip().splitlines() or [type(error).__name__])[0]}
        print(json.dumps(answer), file=answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
