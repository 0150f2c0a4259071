# SPDX-License-Identifier: Apache-2.0
"""Tests SIGTERM in a separate process: pipelines stop, and then the process ends."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

STATUS = 143

_PROGRAM = """
import os, signal, sys, threading, time
from connectors_core.spark.termination import Termination

stopped = threading.Event()

def stop():
    os.kill(os.getpid(), signal.SIGTERM)  # sent again meanwhile
    print("stopped", flush=True)
    stopped.set()

one, two = Termination(stop), Termination(lambda: print("stopped too", flush=True))
{before}
one.install()
two.install()
try:
    {main}
finally:
    print("finally", flush=True)
"""


def ended(main: str, before: str = "pass") -> tuple[int, list[str]]:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(main=main, before=before)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return ran.returncode, ran.stdout.splitlines()


SEND = "os.kill(os.getpid(), signal.SIGTERM)"


@pytest.mark.parametrize(
    "main",
    [
        f"{SEND}; stopped.wait(30); one.end()",  # the main thread awaits the pipeline
        f"{SEND}; time.sleep(30)",  # the main thread does other work
    ],
    ids=["awaiting", "elsewhere"],
)
def test_all_pipelines_are_stopped_and_the_process_ends(main: str) -> None:
    assert ended(main) == (STATUS, ["stopped", "stopped too", "finally"])


def test_a_signal_handler_of_the_user_is_kept() -> None:
    before = "signal.signal(signal.SIGTERM, lambda *_: print('mine', flush=True))"
    assert ended(SEND, before) == (0, ["mine", "finally"])


def test_after_the_last_pipeline_the_default_handler_is_restored() -> None:
    status, shown = ended(
        "one.restore(); two.restore(); "
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, flush=True); " + SEND
    )
    assert status == -signal.SIGTERM
    assert shown == ["True"]


def test_only_pipelines_that_still_run_are_stopped() -> None:
    status, shown = ended(f"one.restore(); {SEND}; time.sleep(30)")
    assert (status, shown) == (STATUS, ["stopped too", "finally"])


def test_a_thread_other_than_the_main_one_installs_no_handler() -> None:
    main = (
        "one.restore(); two.restore(); "
        "t = threading.Thread(target=one.install); t.start(); t.join(); "
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, flush=True)"
    )
    assert ended(main) == (0, ["True", "finally"])
