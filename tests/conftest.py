"""What every test shares: the hypothesis profiles and the folder of recorded material that some tests read."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A slow machine is no property of the code: deadlines and the generator's speed are not judged.
settings.register_profile(
    "default", max_examples=200, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", settings.get_profile("default"), max_examples=2_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the working copy."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """Recorded material kept beside the working copy, not in it; where there is none the test is skipped."""
    path = REPOSITORY.parent / "shared"
    if not path.is_dir():
        pytest.skip(f"needs the recorded material in {path.name}/ beside the repository")
    return path
