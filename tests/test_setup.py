"""One set of versions, one set of commands, and nothing in the files that only works here."""

import ast
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

packaging = pytest.importorskip("packaging.requirements")
yaml = pytest.importorskip("yaml")
rattler = pytest.importorskip("rattler")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def locked():
    """name -> version, of both locks; every line must parse."""
    versions = {}
    for line in (read("requirements-light.lock") + read("requirements.lock")).splitlines():
        if line.startswith("#") or line == "-r requirements-light.lock":
            continue
        requirement = packaging.Requirement(line)
        assert re.fullmatch(r"==[\w.]+", str(requirement.specifier)), f"not an exact pin: {line}"
        assert canonical(requirement.name) not in versions, f"pinned twice: {line}"
        versions[canonical(requirement.name)] = str(requirement.specifier).removeprefix("==")
    return versions


def direct():
    """The requirements that pyproject.toml names itself."""
    extras = PROJECT["optional-dependencies"].values()
    lines = PROJECT["dependencies"] + [line for extra in extras for line in extra]
    return [packaging.Requirement(line) for line in lines]


def environment():
    """name -> version of environment.yml, conda and pip lines parsed strictly."""
    dependencies = yaml.safe_load(read("environment.yml"))["dependencies"]
    versions = {}
    for line in dependencies:
        if isinstance(line, str):
            spec = rattler.MatchSpec(line, True)
            assert spec.build is None, f"build string: {line}"
            versions[line.split()[0].split("=")[0]] = str(spec.version or "")
    for line in dependencies[-1]["pip"]:
        requirement = packaging.Requirement(line)
        versions[requirement.name] = str(requirement.specifier)
    return versions


# ---------------------------------------------------------------- versions


def test_the_lock_satisfies_every_bound_of_pyproject():
    versions = locked()
    for requirement in direct():
        assert versions[canonical(requirement.name)] in requirement.specifier, requirement


def test_the_light_lock_holds_neither_torch_nor_triton_and_no_lock_names_a_source():
    assert not re.search(r"^(torch|triton|nvidia|sympy)", read("requirements-light.lock"), re.M)
    for name in ("requirements.lock", "requirements-light.lock"):
        assert not re.search(r"^(nvidia|--)|@|://", read(name), re.M)


def test_environment_yml_has_the_versions_of_the_lock_and_nothing_else():
    versions = environment()
    assert packaging.SpecifierSet(versions.pop("python")) == packaging.SpecifierSet(
        PROJECT["requires-python"]
    )
    assert versions.pop("pip") == ""
    pins = locked()
    names = {canonical(requirement.name) for requirement in direct()}
    assert versions == {name: f"=={pins[name]}" for name in names}


def test_environment_yml_is_portable():
    content = yaml.safe_load(read("environment.yml"))
    assert content["channels"] == ["conda-forge"]
    assert set(content) == {"name", "channels", "dependencies"}  # no prefix


@pytest.mark.parametrize("line", ["numpy==2.4.6==x", "num py 3 4 5 6"])
def test_a_malformed_conda_line_is_refused(line):
    with pytest.raises(Exception, match="not valid|invalid"):
        rattler.MatchSpec(line, True)


# ---------------------------------------------------------------- imports


def test_numpy_alone_imports_flashlib():
    blocked = "matplotlib ipywidgets IPython torch triton tqdm PIL nbformat pytest"
    script = f"""
        import sys

        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in {blocked.split()}:
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, Blocker())
        import numpy as np
        import flashlib

        Q = np.ones((3, 2))
        assert flashlib.flash_attention_forward(Q, Q, Q).shape == (3, 2)
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- files


def project_files():
    """What git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True)
    paths = [ROOT / name for name in done.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def forbidden():
    """Registry hosts and machine paths, put together here so that this file is clean as well."""
    hosts = [f"{name}.org" for name in ("pypi", "pythonhosted", "anaconda", "debian")]
    folders = [f"/{name}/" for name in ("work", "root", "home", "tmp/venv", "opt/wheels")]
    return re.compile("|".join(map(re.escape, [*hosts, "npmjs" + ".", *folders])))


def test_no_file_names_a_registry_host_or_a_machine_path():
    files = project_files()
    assert ROOT / "pyproject.toml" in files
    found = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        found += [f"{path.name}: {match[0]}" for match in forbidden().finditer(text)]
    assert found == []


def test_every_command_in_the_texts_is_a_make_target():
    targets = set(re.findall(r"^([a-z][\w-]*):", read("Makefile"), re.M))
    for name in ("README.md", "CONTRIBUTING.md", ".ci/run"):
        named = set(re.findall(r"(?:^|`)make ([a-z][\w-]*)", read(name), re.M))
        assert named and named <= targets, f"{name}: {named - targets}"


# ---------------------------------------------------------------- source


def functions(source):
    tree = ast.parse(source)
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def code_lines(function):
    """Length from `def` to the end, without the docstring."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = first.end_lineno - first.lineno + 1 if is_docstring else 0
    return function.end_lineno - function.lineno + 1 - docstring


def too_long(source):
    """Functions above 40 lines; kernels may be longer."""
    return [
        f"{function.name}: {code_lines(function)} lines"
        for function in functions(source)
        if code_lines(function) > 40
        and not any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)
    ]


def without_encoding(source):
    """Calls that read or write text in whatever encoding the machine prefers."""
    faults = []
    for call in (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        text = name in ("read_text", "write_text") or ast.unparse(call.func) == "open"
        values = [
            a.value
            for a in (*call.args, *(k.value for k in call.keywords))
            if isinstance(a, ast.Constant)
        ]
        binary = any(isinstance(v, str) and re.fullmatch("[rwax]+b[+]?", v) for v in values)
        if text and not binary and "encoding" not in {keyword.arg for keyword in call.keywords}:
            faults.append(f"line {call.lineno}: {name} without encoding=")
    return faults


SOURCES = [
    p for folder in ("flashlib", "tools", "tests") for p in sorted((ROOT / folder).rglob("*.py"))
]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_functions_are_short_and_text_files_name_their_encoding(path):
    source = path.read_text(encoding="utf-8")
    assert too_long(source) == []
    assert without_encoding(source) == []


def test_the_source_guards_find_planted_faults():
    body = "    x = 1\n" * 40
    assert too_long(f"def f():\n{body}")
    assert not too_long(f"@triton.jit\ndef f():\n{body}")
    assert not too_long(f'def f():\n    """a\n    b"""\n{body[:-10]}')
    assert without_encoding("open('x')") and without_encoding("path.read_text()")
    assert not without_encoding("open('x', 'rb')")
    assert not without_encoding("path.write_text(t, encoding='utf-8')")
