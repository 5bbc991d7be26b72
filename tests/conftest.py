"""Settings for all tests."""

try:
    from hypothesis import settings
except ImportError:  # the set-up and notebook tests run without it
    pass
else:  # the same examples every run, so that a red CI is red at home too
    settings.register_profile("course", derandomize=True, deadline=None)
    settings.load_profile("course")
