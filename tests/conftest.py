from hypothesis import settings

pytest_plugins = ["ktrain.testing.plugin", "pytester"]

# No deadline for an example: what is slow on a busy machine is measured by benchmarks, not by tests.
settings.register_profile("ktrain", deadline=None)
settings.load_profile("ktrain")
