"""The files of the page: complete, small, without inline code, markup from text, or addresses of other places."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from itaml.serve.static_files import static_files

STATIC = files("itaml.serve") / "static"
TEXTS = {entry.name: entry.read_text(encoding="utf-8") for entry in STATIC.iterdir()}
SCRIPTS = {name: text for name, text in TEXTS.items() if name.endswith(".js")}
PAGE = TEXTS["index.html"]


def test_every_script_is_reached_from_the_page_and_every_import_exists() -> None:
    assert set(re.findall(r'(?:src|href)="static/([^"]+)"', PAGE)) <= set(TEXTS)
    reached, todo = set(), ["app.js"]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += re.findall(r'from "\./([^"]+)"', TEXTS[name])
    assert reached == set(SCRIPTS)


def test_every_imported_name_is_exported() -> None:
    missing = []
    for name, text in SCRIPTS.items():
        for names, source in re.findall(r'import \{([^}]+)\} from "\./([^"]+)"', text):
            exported = set(re.findall(r"export (?:async )?(?:function|const|class|let) (\w+)", TEXTS[source]))
            missing += [(name, one.strip()) for one in names.split(",") if one.strip() and one.strip() not in exported]
    assert missing == []


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_scripts_never_parse_text_as_markup_or_code(name: str) -> None:
    """Names of classes and files reach the page as text alone."""
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|srcdoc"
    assert re.findall(forbidden, TEXTS[name]) == []


def test_the_page_has_no_inline_code_or_style() -> None:
    """The policy of the server forbids both."""
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", PAGE) == []
    assert [name for name, text in SCRIPTS.items() if re.search(r'setAttribute\("style"|\bstyle: "', text)] == []


def test_no_file_names_another_place() -> None:
    allowed = "http://www.w3.org/2000/svg"  # a namespace, which is never asked for
    found = {address for text in TEXTS.values() for address in re.findall(r"(?:https?:)?//[\w.-]+\.[\w/.-]+", text)}
    assert found <= {allowed}


def test_files_are_small() -> None:
    assert [name for name, text in TEXTS.items() if len(text.splitlines()) > 250] == []
    lines = [(name, line) for name, text in TEXTS.items() for line in text.splitlines() if len(line) > 125]
    assert [(name, line) for name, line in lines if not name.endswith(".svg")] == []


def test_the_service_has_every_file_with_its_type() -> None:
    kinds = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8",
             "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}  # fmt: skip
    served = static_files()
    assert {name: file.data.decode() for name, file in served.items()} == TEXTS
    assert {name: file.media_type for name, file in served.items()} == {
        name: kinds[name.rpartition(".")[2]] for name in TEXTS
    }
