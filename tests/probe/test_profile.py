"""Stacks of a running process: what perf prints is folded, and without perf the kernel's are looked at."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import lacking
from walproof.errors import ProbeError
from walproof.facts.profile import KERNEL_MARK
from walproof.probe.profile import (
    IN_SERVER,
    KernelProfiler,
    PerfProfiler,
    begin_profile,
    fold_perf,
)

# As perf 6.1 prints it: the innermost function first, a blank line between stacks; kernel addresses are high.
PRINTED = """
\tffffffff81591287 ext4_llseek
\tffffffff821ef691 do_syscall_64
\t           f63d3 llseek@GLIBC_2.2.5
\t          4381d7 mdnblocks
\t          1b12bd StartupXLOG
\t          3d944c StartupProcessMain
\t          112ea7 main


\t          5abd30 hash_search_with_hash_value
\tffffffffffffffff [unknown]


\t          1b12bd StartupXLOG
\t          3d944c StartupProcessMain

"""


def test_stacks_of_perf_are_folded_from_the_outermost_function() -> None:
    assert fold_perf(PRINTED) == {
        "StartupXLOG;mdnblocks;llseek;do_syscall_64_[k];ext4_llseek_[k]": 1,
        "(caller not known);hash_search_with_hash_value": 1,
        "StartupXLOG": 1,
    }
    assert fold_perf("") == {}


def test_a_rare_stack_is_counted_for_its_caller() -> None:
    common = "\t 1 StartupXLOG\n\n"
    rare = "\t 3 deep\n\t 2 rare\n\t 1 StartupXLOG\n\n"
    assert fold_perf(common * 9_995 + rare * 5) == {"StartupXLOG": 10_000}
    assert fold_perf(common * 900 + rare * 100) == {"StartupXLOG": 900, "StartupXLOG;rare;deep": 100}


@pytest.fixture
def busy() -> Iterator[int]:
    """A process that does little else but read /dev/zero."""
    program = "import os\nfile = os.open('/dev/zero', os.O_RDONLY)\nwhile True: os.read(file, 1 << 20)"
    process = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    yield process.pid
    process.kill()
    process.wait()


def test_without_perf_kernel_stacks_are_sampled_and_it_says_so(
    busy: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or, where those are not shown either, nothing is."""
    monkeypatch.setattr("walproof.probe.profile.shutil.which", lambda _: None)
    profiler, said = begin_profile(busy, tmp_path)
    assert said is not None
    assert said.startswith("perf is not installed")
    if profiler is None:
        assert "there is no profile" in said
        lacking("kernel stacks", said)
    assert isinstance(profiler, KernelProfiler)
    for _ in range(500):
        if profiler.samples > 20:
            break
        time.sleep(0.02)
    stacks = profiler.stop()
    assert sum(stacks.values()) == profiler.samples > 20
    # A stack is shown while the process is in the kernel; the rest is one line.
    assert all(stack == IN_SERVER or stack.endswith(KERNEL_MARK) for stack in stacks)


def test_perf_is_used_where_it_may_be(busy: int, tmp_path: Path) -> None:
    profiler, said = begin_profile(busy, tmp_path)
    if not isinstance(profiler, PerfProfiler):
        assert said is not None
        assert said.startswith(("perf is not installed", "perf may not observe the process"))
        if profiler is not None:
            profiler.abandon()
        lacking("perf", said)
    assert said is None
    for _ in range(20):
        time.sleep(0.3)
        try:
            stacks = profiler.stop()
        except ProbeError:  # it had no core meanwhile
            profiler = PerfProfiler(busy, tmp_path)
            continue
        break
    assert any("read" in stack for stack in stacks)
    profiler.abandon()


def test_a_process_that_is_gone_is_not_profiled(tmp_path: Path) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    profiler, said = begin_profile(done.pid, tmp_path)
    assert profiler is None
    assert said is not None
    assert said.endswith("there is no profile")
