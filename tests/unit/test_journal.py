"""What a failure message shows of a service's log."""

from __future__ import annotations

from sparkwright.journal import CAUSES, LAST, causes, shown

# A real failed start of vLLM 0.32.0, shortened: the reason stands far above the end.
VLLM = (
    """\
(Worker pid=3763) WARNING 11-29 20:46:34 [cpu.py:644] Failed to import from vllm._C: \
ImportError('libnuma.so.1: cannot open shared object file: No such file or directory')
(Worker pid=3763) ERROR 11-29 20:46:37 [executor.py:953] Traceback (most recent call last):
(Worker pid=3763) ERROR 11-29 20:46:37 [executor.py:953]     raise AttributeError(
(Worker pid=3763) ERROR 11-29 20:46:37 [executor.py:953] AttributeError: '_C' has no x
"""
    + "    frame of a traceback\n" * 40
    + "RuntimeError: Engine core initialization failed.\n"
)


def test_the_first_reasons_come_first_and_once() -> None:
    found = causes(VLLM + VLLM)
    assert found[0].startswith("Failed to import from vllm._C: ImportError('libnuma.so.1")
    assert found[1] == "AttributeError: '_C' has no x"
    assert found.count("AttributeError: '_C' has no x") == 1
    assert len(found) <= CAUSES


def test_a_long_log_shows_its_reasons_above_its_end() -> None:
    lines = shown(VLLM).splitlines()
    assert lines[0] == "what it said before:"
    assert "libnuma.so.1" in lines[1]
    assert lines[-1] == "RuntimeError: Engine core initialization failed."
    assert len(lines) <= LAST + CAUSES + 2


def test_a_short_log_is_shown_as_it_is() -> None:
    log = "loading\nerror: no such file\n"
    assert shown(log) == log.rstrip()
    assert shown("") == ""
