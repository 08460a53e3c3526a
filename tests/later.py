"""Libraries that few tests need, imported when the first of these runs: every process collects all tests."""

import importlib
import types


class Later(types.ModuleType):
    """A module that is imported when something of it is asked for."""

    def __getattr__(self, name):
        return getattr(importlib.import_module(self.__name__), name)

    def __setattr__(self, name, value):
        setattr(importlib.import_module(self.__name__), name, value)
