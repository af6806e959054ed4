# SPDX-License-Identifier: Apache-2.0
"""Builds the site of every release beside the checkout's: `make site-versions`.

python docs/site/versions.py OUTPUT

``OUTPUT/dev`` is the checkout, ``OUTPUT/0.2.0`` the pages of tag ``v0.2.0``, made by that tag's own builder.
``versions.js`` beside them lists what there is, so pages of an old release lead to newer ones without being built again;
``index.html`` leads to the newest release. A tag without a site is skipped with a line that says so.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from build import ROOT, SITE, main
from packaging.version import InvalidVersion, Version


def build_versions(output: Path) -> list[str]:
    """Build all in ``output``; their names, newest release first, ``dev`` last. Raises RuntimeError where one fails."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    names = []
    for version in releases():
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            _unpack(f"v{version}", tree)
            if not (tree / "docs/site/versions.py").is_file():
                print(f"{version}: has no site with versions, skipped")
                continue
            command = [
                sys.executable,
                "docs/site/build.py",
                str(Path(folder) / "site"),
                "--version",
                str(version),
            ]
            done = subprocess.run(
                command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree / "sdk")}, check=False
            )
            if done.returncode:
                raise RuntimeError(f"the site of v{version} does not build: its messages are above")
            shutil.copytree(Path(folder) / "site/html", output / str(version))
        names.append(str(version))
    with tempfile.TemporaryDirectory() as folder:
        if main(Path(folder), version="dev"):
            raise RuntimeError("the site of the checkout does not build: its messages are above")
        shutil.copytree(Path(folder) / "html", output / "dev")
    names.append("dev")
    listed = [{"name": name, "pages": _pages(output / name)} for name in names]
    script = (SITE / "versions.js").read_text()
    (output / "versions.js").write_text(f"const versions = {json.dumps(listed)};\n{script}")
    first = f'<!doctype html><meta charset="utf-8"><title>mlf-sdk</title><meta http-equiv="refresh" content="0; url={names[0]}/index.html">'
    (output / "index.html").write_text(f'{first}\n<a href="{names[0]}/index.html">mlf-sdk {names[0]}</a>\n')
    return names


def releases() -> list[Version]:
    """Versions of the tags ``vX.Y.Z``, newest first; other tags are not releases."""
    done = subprocess.run(
        ["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    versions = []
    for tag in done.stdout.split():
        try:
            versions.append(Version(tag[1:]))
        except InvalidVersion:
            continue
    return sorted(versions, reverse=True)


def _unpack(tag: str, tree: Path) -> None:
    done = subprocess.run(["git", "archive", tag], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(tree)  # noqa: S202 - git wrote it


def _pages(site: Path) -> list[str]:
    return sorted(
        page.relative_to(site).as_posix() for page in site.rglob("*.html") if "_modules" not in page.parts
    )


if __name__ == "__main__":
    print("built:", ", ".join(build_versions(Path(sys.argv[1]).resolve())))
