pytest_plugins = ["ktrain.testing.plugin", "pytester"]
