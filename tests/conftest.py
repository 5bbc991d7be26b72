"""Settings for all tests, and the browser that some share."""

import offline
import pytest

try:
    from hypothesis import settings
except ImportError:  # the set-up and notebook tests run without it
    pass
else:  # the same examples every run, so that a red CI is red at home too
    settings.register_profile("course", derandomize=True, deadline=None)
    settings.load_profile("course")


@pytest.fixture(scope="module")
def chromium():
    """A headless browser with the network cut off; see `offline.chromium`."""
    with offline.chromium() as browser:
        yield browser
