"""
Build the API reference from the docstrings: `python hack/apidocs.py [DIRECTORY]` (default: build/docs).

One page per module of what is meant for others: the framework, the plugins' extension points, the test kit, the types
of the wire. A name that is exported and not there, or anything else that pdoc warns about, fails.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from pathlib import Path

import pdoc

PACKAGES = ("ktrain.framework", "ktrain.testing", "ktrain.pipeline", "ktrain.api.meta", "ktrain.api.core")
"""The public packages; what they do not re-export is on the page of its module."""


def main() -> None:
    """Write the pages."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs")
    warnings.simplefilter("error")
    # An annotation that pdoc cannot evaluate (its type is imported for checkers only) is shown as it is written.
    warnings.filterwarnings("ignore", message="Error parsing type annotation")
    # pdoc finds by itself the modules of packages that have no `__all__`, and only those.
    warnings.filterwarnings("ignore", message="The module specification .* has already been added")
    names = [name for package in PACKAGES for name in (package, *modules_of(package))]
    for name in names:
        package = importlib.import_module(name)
        # Names that load on first use are no attributes before it.
        for exported in getattr(package, "__all__", ()):
            getattr(package, exported)
    pdoc.render.configure(docformat="markdown", show_source=True, footer_text="ktrain")
    pdoc.pdoc(*names, output_directory=directory)
    print(directory / "index.html")


def modules_of(package: str) -> list[str]:
    """Name the modules inside a package. pdoc leaves them out where `__all__` does not list them."""
    path = getattr(importlib.import_module(package), "__path__", ())
    return [info.name for info in pkgutil.walk_packages(path, f"{package}.") if "._" not in info.name]


if __name__ == "__main__":
    main()
