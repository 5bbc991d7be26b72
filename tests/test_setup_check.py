"""Claims about the set-up check of notebook 00 and the recorded measurements."""

import importlib.util

import pytest

from flashlib import hardware, setup_check


def test_everything_installed_is_listed_with_its_version(capsys):
    setup_check.check_setup()
    out = capsys.readouterr().out
    import numpy

    assert f"numpy       {numpy.__version__}" in out


def test_each_missing_package_is_one_sentence_with_the_command(monkeypatch, capsys):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n: None if n in ("torch", "ipywidgets") else real(n)
    )
    setup_check.check_setup()
    out = capsys.readouterr().out
    sentence = "ipywidgets is missing, needed for the widgets: make lab, or pip install ipywidgets"
    assert sentence in out
    assert "torch is missing" in out and "All set." not in out
    assert "kernels" not in out


def test_where_triton_has_no_wheels_it_says_so(monkeypatch):
    monkeypatch.setattr(setup_check.sys, "platform", "darwin")
    assert "Linux only" in setup_check.missing_sentence("triton")


def test_measurements_carry_their_provenance():
    data = hardware.measurements()
    assert {"gpu", "driver", "date", "torch", "triton"} <= set(data["provenance"])
    rows = hardware.select(data["throughput"], impl="sdpa_flash", d=128)
    assert rows and all(row["d"] == 128 and row["impl"] == "sdpa_flash" for row in rows)
    with pytest.raises(FileNotFoundError):
        hardware.measurements("no-such-run")
