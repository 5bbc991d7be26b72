"""Claims about `python -m flashlib` and `python -m flashlib.bench`."""

import csv
import re
import subprocess
import sys

import numpy as np
import pytest

import flashlib.__main__ as demo
from flashlib import bench


def run(*arguments):
    command = [sys.executable, "-W", "error", "-m", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8")


def test_the_demonstrations_pass_within_80_columns_of_ascii():
    result = run("flashlib")
    assert result.returncode == 0 and result.stderr == ""
    assert result.stdout.isascii() and max(map(len, result.stdout.splitlines())) <= 80
    assert "All claims hold." in result.stdout and "FAIL" not in result.stdout
    for N in (128, 256, 512, 1024, 2048, 4096):
        assert re.search(rf"^ *{N} \| +{4 * N * N:,} +0 \|", result.stdout, re.MULTILINE)


def broken(*args, **kwargs):
    return np.full((len(args[0]), args[2].shape[1]), np.nan, args[0].dtype)


def test_every_demonstration_notices_a_broken_kernel(monkeypatch, capsys):
    monkeypatch.setattr(demo, "FORWARDS", {"Q-outer": broken})
    monkeypatch.setattr(demo, "flash_attention_forward", broken)
    assert demo.main() == 1
    out = capsys.readouterr().out
    for part in re.split(r"^\d\. ", out, flags=re.MULTILINE)[1:]:
        assert "FAIL" in part


def test_main_returns_zero():
    assert demo.main() == 0


def test_cpu_bench_prints_a_table_and_writes_a_csv(tmp_path, capsys):
    path = tmp_path / "cpu.csv"
    options = "cpu --N 64 128 --d 8 --repeats 1 --tiles 16x32 64x64 --csv".split()
    assert bench.main([*options, str(path)]) == 0
    assert "tiled 16x32" in capsys.readouterr().out
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    by_name = {(row["N"], row["variant"]): row for row in rows}
    naive = by_name["128", "naive"]
    assert float(naive["of_naive"]) == 1 and float(naive["median_s"]) > 0
    assert int(naive["peak_extra_bytes"]) > 2 * 128 * 128 * 4  # S and P, whole
    assert int(by_name["128", "tiled 16x32"]["peak_extra_bytes"]) < 128 * 128 * 4


@pytest.mark.parametrize("arguments", ["cpu --tiles 0x4", "cpu --tiles 4", "cpu --N 0"])
def test_cpu_bench_refuses_nonsense(arguments, capsys):
    with pytest.raises(SystemExit):
        bench.main(arguments.split())
    assert "error:" in capsys.readouterr().err


def test_bench_without_a_name_says_which_there_are(capsys):
    assert bench.main([]) == 2
    assert "cpu" in capsys.readouterr().out


def test_a_missing_package_is_one_sentence_with_the_command(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert bench.main("cpu --N 8 --repeats 1".split()) == 1
    assert capsys.readouterr().err == "flashlib.bench needs tqdm: pip install tqdm\n"


def test_the_demonstrations_have_no_options():
    assert run("flashlib", "--help").returncode == 0
    assert run("flashlib", "--fast").returncode == 2
