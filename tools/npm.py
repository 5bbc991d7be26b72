"""Files out of npm packages, each at one version and with one SHA-512.

Needs npm on the path; takes the packages by name through it, so a mirror set in .npmrc serves.
"""

import base64
import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

TOOLS = Path(__file__).parent
CACHE = TOOLS.parent / "_site" / ".cache"
PINS = json.loads((TOOLS / "npm-pins.json").read_text(encoding="utf-8"))


def tarball(name, cache=CACHE):
    """The package `name` as a .tgz in the cache; ValueError if it isn't the one pinned."""
    version, integrity = PINS[name]["version"], PINS[name]["integrity"]
    path = cache / f"{name.replace('@', '').replace('/', '-')}-{version}.tgz"
    if not path.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError("npm is missing: install Node.js 18 or newer")
        cache.mkdir(parents=True, exist_ok=True)
        command = [npm, "pack", "--silent", f"{name}@{version}", "--pack-destination", str(cache)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=cache)
    found = "sha512-" + base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    if found != integrity:
        path.unlink()
        raise ValueError(f"{name}@{version}: expected {integrity}, got {found}")
    return path


def extract(name, patterns, folder, cache=CACHE):
    """Put the files of a package that match one of `patterns` into `folder`, flat or in subfolders.

    patterns: {glob inside the package: folder below `folder`}. Raises ValueError if one matches
    nothing.
    """
    with tarfile.open(tarball(name, cache)) as archive:
        members = [m for m in archive.getmembers() if m.isfile()]
        for pattern, below in patterns.items():
            chosen = [m for m in members if Path(m.name).match(f"package/{pattern}")]
            if not chosen:
                raise ValueError(f"{name}: no file matches {pattern}")
            (folder / below).mkdir(parents=True, exist_ok=True)
            for member in chosen:
                target = folder / below / Path(member.name).name
                target.write_bytes(archive.extractfile(member).read())
