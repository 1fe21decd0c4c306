"""Every test starts from the same random state, so that a failure is a failure again on the next run."""

import asyncio
import contextlib
import gc
import os
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import torch

from tests.firefox import Firefox

with contextlib.suppress(ImportError):  # torch.compile imports it, which fails once a package has imported distutils
    import setuptools  # noqa: F401

if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup: the tests send it, and children inherit this
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

if not torch.cuda.is_available():  # what Triton brings along is made for its interpreter when it is imported, or never
    with contextlib.suppress(ImportError), pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        import triton.experimental.gluon  # noqa: F401

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-extensions", "--mute-audio"]

hypothesis.settings.register_profile("headway", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("headway")


def pytest_collection_finish() -> None:
    """Take what is imported and collected out of the garbage collector's sight.

    Python looks for garbage everywhere only once a quarter of all objects is new. Beside a million objects that stay,
    models of earlier tests were kept for minutes: a worker grew to 5 GB, and each process forked from it copied what
    its own garbage collector touched.
    """
    gc.collect()
    gc.freeze()


@contextlib.contextmanager
def _no_running_loop(item: pytest.Item) -> Iterator[None]:
    """Between its calls playwright leaves its event loop as the running one, so that other tests could run none."""
    loop = None if "browser" in getattr(item, "fixturenames", ()) else asyncio._get_running_loop()
    if loop is not None:
        asyncio._set_running_loop(None)
    try:
        yield
    finally:
        if loop is not None:
            asyncio._set_running_loop(loop)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """The fixtures of a test without a browser see no running event loop."""
    with _no_running_loop(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Nor does the test itself."""
    with _no_running_loop(item):
        return (yield)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _interpreter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only tests marked `triton_interpreter` run the flash kernel in Triton's interpreter: it is slow."""
    if request.node.get_closest_marker("triton_interpreter") is None:
        monkeypatch.setattr("headway.ops.kernels.triton_flash.launch.interpreted", lambda: False)
    elif not torch.cuda.is_available():
        monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium by playwright; one for all tests of a process, as playwright has one event loop."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the page is tried in a browser: headway[browser]")
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip("no chromium on this machine: the page is not tried in a browser")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def firefox() -> Iterator[Firefox]:
    """The system's Firefox, one for all tests of a process."""
    executable = shutil.which("firefox-esr") or shutil.which("firefox")
    if executable is None:
        pytest.skip("no Firefox on this machine: the page is tried in chromium alone")
    opened = Firefox(executable)
    yield opened
    opened.close()
