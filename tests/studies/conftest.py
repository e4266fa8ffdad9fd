from tests.cli.conftest import clew

__all__ = ["clew"]
