"""What MkDocs calls while it builds: generated pages, the navigation, links that leave the folder of the site."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from website import gallery, mechanism_pages, navigation, outside, reference

NOT_RUN: Final = re.compile(r"^( *```\w+) no-run$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = navigation.filled(cast(Any, config).nav or [])
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, text in generated().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    path = page.file.src_uri
    # A word for the tests, which the site's highlighter would not understand.
    markdown = NOT_RUN.sub(r"\1", markdown)
    if page.file.generated_by is not None:
        return markdown
    folder = "docs/" + path.rpartition("/")[0]
    return outside.with_links(markdown, path, folder.rstrip("/"))


def generated() -> dict[str, str]:
    """Every page that is in no file."""
    return {
        **outside.copied_pages(),
        **{f"api/{path}": text for path, text in reference.pages().items()},
        **{f"mechanisms/{path}": text for path, text in mechanism_pages.pages().items()},
        **{f"examples/{path}": text for path, text in gallery.pages().items()},
    }
