"""
Hooks of the documentation site (mkdocs.yml): pages of the API reference, and links to files of the repository.

The reference has one page for each module that is meant for others: the framework, the plugins' extension points, the
test kit, the types of the wire. mkdocstrings fills the pages from the docstrings. Guides link to files beside `docs/`
by relative paths, as readers of the repository need them; on the site these become links to the repository.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import griffe
from mkdocs.plugins import event_priority, get_plugin_logger
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

PACKAGES: Final = ("ktrain.framework", "ktrain.testing", "ktrain.pipeline", "ktrain.api.meta", "ktrain.api.core")
"""The public packages."""

ROOT: Final = Path(__file__).parent.parent
LINK: Final = re.compile(r"(?P<text>\]\()(?P<path>[^)#:\s]+)(?P<fragment>#[^)\s]*)?\)")
FENCE: Final = re.compile(r"^( *```.*?^ *```)", re.MULTILINE | re.DOTALL)

log = get_plugin_logger("ktrain")


@event_priority(100)  # before the plugin that sorts the pages into the navigation
def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages of the reference, unless `extra.reference` is false: its pages take most of a build's time."""
    for path, text in reference() if config.extra.get("reference", True) else ():
        files.append(File.generated(config, path, content=text))
    return files


def reference() -> Iterator[tuple[str, str]]:
    """Yield path and Markdown of each page of the reference."""
    overview = ["# API reference\n", "| package | |\n|---|---|"]
    loader = griffe.GriffeLoader(search_paths=[str(ROOT)])
    loader.load("ktrain")
    loader.resolve_aliases()
    for package in PACKAGES:
        module = loader.modules_collection[package]
        overview.append(f"| [{package}][] | {summary(module)} |")
        yield from pages(module)
    yield "reference/index.md", "\n".join(overview) + "\n"


def pages(module: griffe.Module) -> Iterator[tuple[str, str]]:
    """Yield the page of a module, and those of the public modules inside it."""
    inner = [found for found in module.modules.values() if not found.is_alias and not found.name.startswith("_")]
    folder = f"reference/{module.path.replace('.', '/')}"
    yield f"{folder}/index.md" if inner else f"{folder}.md", page(module)
    for found in inner:
        yield from pages(found)


def page(module: griffe.Module) -> str:
    """Return the Markdown of one module: what it defines, and what it re-exports, with links to the definitions."""
    text = f"# {module.path}\n\n::: {module.path}\n"
    names = exported(module) if module.is_init_module else []
    if not names:
        return text
    own = [name for name, member in module.members.items() if not (member.is_alias or name.startswith("_"))]
    options = f"    options:\n      members: {own or 'false'}\n"
    return f"{text}{options}\n## Names\n\n| name | |\n|---|---|\n" + "\n".join(names) + "\n"


def exported(module: griffe.Module) -> list[str]:
    """
    Return a row of a table for each name that the package re-exports: the name, where it is defined, what it is.

    Raises:
        griffe.AliasResolutionError: If a name is exported and not there.
    """
    aliases = [member for name, member in module.members.items() if member.is_alias and is_public(module, name)]
    return [f"| [`{alias.name}`][{alias.final_target.path}] | {summary(alias.final_target)} |" for alias in aliases]


def is_public(module: griffe.Module, name: str) -> bool:
    """Say whether `from ... import name as name`, or `__all__`, makes a name public."""
    listed = {str(each) for each in module.exports or ()}
    return name in listed if listed else f" as {name}\n" in module.source + "\n"


def summary(found: griffe.Object) -> str:
    """Return the first paragraph of a docstring, fit for a cell of a table."""
    text = found.docstring.value.strip().split("\n\n")[0] if found.docstring else ""
    return " ".join(text.split()).replace("|", "\\|")


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files of the repository into links to the repository's pages."""

    def replaced(link: re.Match[str]) -> str:
        return f"{link['text']}{target(link['path'], page.file.src_uri, config, files)}{link['fragment'] or ''})"

    parts = FENCE.split(markdown)
    return "".join(part if FENCE.fullmatch(part) else LINK.sub(replaced, part) for part in parts)


def target(path: str, source: str, config: MkDocsConfig, files: Files) -> str:
    """Return where a link of the page `source` leads: into the site as it is, or to the repository."""
    inside = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if files.get_file_from_path(inside) is not None:
        return path
    found = ROOT / posixpath.normpath(posixpath.join("docs", inside))
    if not found.exists():
        log.warning("%s links to %s, which is neither a page nor a file of the repository", source, path)
        return path
    kind = "tree" if found.is_dir() else "blob"
    return f"{config.repo_url}/{kind}/main/{found.relative_to(ROOT).as_posix()}"
