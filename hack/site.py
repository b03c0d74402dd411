"""
Hooks of the documentation site (mkdocs.yml): pages of the API reference, pages from outside `docs/`, and links.

The reference has one page for each module that is meant for others: the framework, the plugins' extension points, the
test kit, the types of the wire. mkdocstrings fills the pages from the docstrings. Pages for contributors and those of
the examples stand where readers of the repository look for them, and are pages of the site, too. All link to each other
and to files by relative paths of the repository. On the site, a link to a public module leads to its page of the
reference, and a link to another file that is no page leads to the repository.
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

PACKAGES: Final = (
    "ktrain.framework",
    "ktrain.testing",
    "ktrain.pipeline",
    "ktrain.api.meta",
    "ktrain.api.core",
    "ktrain.api.trainer",
    "ktrain.api.rbac",
)
"""The public packages, and the types of the wire that they speak of."""

ROOT: Final = Path(__file__).parent.parent
BESIDE: Final = {
    f"{name.lower().replace('_', '-')}.md": f"{name}.md"
    for name in ("CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT", "CHANGELOG")
} | {
    f"examples/{'index' if path.parent.name == 'examples' else path.parent.name}.md": path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("examples/README.md"), *sorted(ROOT.glob("examples/*/README.md")))
}
"""Pages of the site from outside `docs/`, and their files in the repository."""

LINK: Final = re.compile(r"(?P<text>\]\()(?P<path>[^)#:\s]+)(?P<fragment>#[^)\s]*)?\)")
FENCE: Final = re.compile(r"^( *```.*?^ *```)", re.MULTILINE | re.DOTALL)

log = get_plugin_logger("ktrain")


@event_priority(100)  # before the plugin that sorts the pages into the navigation
def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages from outside `docs/` and of the reference, unless `extra.generated` is false (tests)."""
    if config.extra.get("generated", True):
        beside = ((path, (ROOT / source).read_text()) for path, source in BESIDE.items())
        for path, text in (*beside, *reference()):
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
    """Turn links between files of the repository into links of the site, or to the repository's pages."""

    def replaced(link: re.Match[str]) -> str:
        return f"{link['text']}{target(link['path'], page.file.src_uri, config, files)}{link['fragment'] or ''})"

    parts = FENCE.split(markdown)
    return "".join(part if FENCE.fullmatch(part) else LINK.sub(replaced, part) for part in parts)


def target(path: str, page: str, config: MkDocsConfig, files: Files) -> str:
    """Return where a link leads that stands on a page of the site: to another page, or to the repository."""
    source = BESIDE.get(page, f"docs/{page}")
    found = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    beside = {repository: site for site, repository in BESIDE.items()}
    module = re.sub(r"(/__init__)?\.py$", "", found)
    places = (beside.get(found), found.removeprefix("docs/") if found.startswith("docs/") else None)
    for there in (*places, f"reference/{module}.md", f"reference/{module}/index.md"):
        if there is not None and files.get_file_from_path(there) is not None:
            return posixpath.relpath(there, posixpath.dirname(page) or ".")
    if not (ROOT / found).exists():
        log.warning("%s links to %s, which is neither a page nor a file of the repository", source, path)
        return path
    kind = "tree" if (ROOT / found).is_dir() else "blob"
    return f"{config.repo_url}/{kind}/main/{found}"
