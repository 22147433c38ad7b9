"""What the tests read."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import unhitch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def starve() -> Path:
    """A real recording: a starved lock."""
    return ROOT / "examples" / "starve.hitch"


@pytest.fixture(scope="session")
def trace(starve: Path) -> unhitch.Trace:
    return unhitch.open(starve)


@pytest.fixture(scope="session")
def program() -> str:
    """The program `unhitch`; a test that needs it is skipped where there is none."""
    found = shutil.which(os.environ.get("UNHITCH", "unhitch"))
    if found is None:
        pytest.skip("the program unhitch is not on PATH, nor named in UNHITCH")
    return found


@pytest.fixture(scope="session")
def synthetic() -> str:
    """The generator of recordings (python/synthetic)."""
    found = os.environ.get("UNHITCH_SYNTHETIC")
    built = ROOT / "python" / "target" / "release" / "unhitch-synthetic"
    if found is None and not built.exists():
        pytest.skip("unhitch-synthetic is not built")
    return found or str(built)


@pytest.fixture(scope="session")
def fleet(synthetic: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty recordings of a fleet."""
    folder = tmp_path_factory.mktemp("fleet")
    subprocess.run([synthetic, folder, "--traces", "60", "--filler", "20"], check=True)
    return folder
