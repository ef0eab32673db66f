"""Hooks of MkDocs: pages made from the package and from the root of the repository, mathematics without scripts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from api_pages import api_pages  # noqa: E402
from mathematics import Mathematics  # noqa: E402
from reference_pages import cli_page, method_index, presets_page, settings_page  # noqa: E402
from repository_links import Links, root_page  # noqa: E402

PROJECT = ("REPRODUCIBILITY.md", "CHANGELOG.md", "CONTRIBUTING.md")
SEARCH_SCRIPT = "https://unpkg.com/iframe-worker/shim"  # which the theme would load
_mathematics = Mathematics()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the generated pages to the navigation."""
    for section in config.nav or []:
        for title, entries in section.items():
            if title == "Methods":
                names = sorted(path.stem for path in (ROOT / "docs" / "methods").glob("*.md"))
                entries.extend({name: f"methods/{name}.md"} for name in names if name != "index")
            if title == "Reference":
                (api,) = (entry["Python API"] for entry in entries if "Python API" in entry)
                api.extend({page.title: page.path} for page in api_pages() if page.title != "Overview")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the package and from the root of the repository."""
    pages = {page.path: page.text for page in api_pages()}
    pages["reference/cli.md"] = cli_page()
    pages["reference/settings.md"] = settings_page()
    pages["reference/presets.md"] = presets_page()
    pages["methods/index.md"] = method_index(ROOT / "docs" / "methods")
    for name in PROJECT:
        pages[f"project/{name}"] = root_page(ROOT / name)
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to the repository's files to pages of the site, and set mathematics aside."""
    return _mathematics.take_out(Links(page.file.src_uri).rewrite(markdown))


def on_page_content(html: str, page: Page, **kwargs: Any) -> str:
    """Put the mathematics back as MathML."""
    return _mathematics.put_back(html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Load the script that searches pages opened from disk from the site itself, not from another host."""
    return output.replace(SEARCH_SCRIPT, "../" * page.file.dest_uri.count("/") + "figures/offline-search.js")


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """Do the same in pages that belong to no document."""
    return output_content.replace(SEARCH_SCRIPT, "/figures/offline-search.js")
