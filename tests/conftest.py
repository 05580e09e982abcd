"""What all tests share: pytest's own tool for testing plugins."""

pytest_plugins = ["pytester"]
