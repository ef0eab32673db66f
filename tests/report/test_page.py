"""The page: it holds what it should, needs nothing else, escapes everything, and stays small."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from handmade import handmade, write_run
from itaml.cli.main import main
from itaml.report.figure_names import Collection, collect
from itaml.report.page import page
from itaml.storage import save_state

METHODS = 4  # of a large report; its size grows in proportion
VOID = {"meta", "img", "input"}


class Outline(HTMLParser):
    """Checks that elements are closed in order, and gathers names, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def _page(tmp_path: Path, *runs: dict[str, Any]) -> str:
    folders = [write_run(tmp_path / f"run{number}", **values) for number, values in enumerate(runs)]
    return page(collect(folders))


def test_the_page_holds_every_part(tmp_path: Path) -> None:
    text = _page(tmp_path, {"last": 0.8}, {"seed": 1, "last": 0.9}, {"method": "replay", "last": 0.7})
    outline = Outline(text)
    said = " ".join(outline.texts)
    for words in (
        "4 classes in 2 tasks of 2 classes each",  # the protocol in words
        "Class accuracy, p = 1",
        "Class accuracy, p = 20",
        "Task-aware",
        "No update",
        "Training time by task",
        "Accuracy of each task, p = 20, %",
        "Task predicted for single samples",
        "task, Alg. 4",
        "Forgetting of each task",
        "Accuracy of each class",
        "there is no checkpoint beside the result",
        "torch 2.13.0",
        "itaml run digits --method replay --seed 0",
    ):
        assert words in said, words
    assert "85.00 ± 7.07" in said
    # four curves with three ranges of the axis, two costs, six figures per method, two samples of lines in the legend
    assert outline.count("svg") == 4 * 3 + 2 + 2 * 6 + 2
    assert sum(attributes.get("type") == "radio" for _, attributes in outline.tags) == 3


def test_the_same_results_give_the_same_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    assert page(collect([folder])) == page(collect([folder]))


def test_the_table_is_sorted_best_first_and_has_the_values_to_sort_by(tmp_path: Path) -> None:
    runs: list[dict[str, Any]] = [{"method": "replay", "last": 0.7}, {"method": "joint", "last": 0.95}, {"last": 0.8}]
    outline = Outline(_page(tmp_path, *runs, {"method": "finetune", "last": 0.5}))
    rows = [attributes for name, attributes in outline.tags if name == "tr"][1:]
    assert [row.get("data-series", "-") for row in rows] == ["0", "1", "-", "2", "3"]  # "-" is the line between
    heads = [attributes for name, attributes in outline.tags if name == "th" and "data-better" in attributes]
    assert [place for place, head in enumerate(heads) if head.get("aria-sort") == "descending"] == [1]  # class p=1
    cells = [attributes for name, attributes in outline.tags if name == "td"]
    assert [cell["data-value"] for cell in cells[1 :: len(heads)]] == ["0.8", "0.7", "0.95", "0.5"]
    best = [place for place, cell in enumerate(cells[: len(heads)]) if cell.get("class") == "best"]
    assert 1 in best
    assert not any(cell.get("class") == "best" for cell in cells[2 * len(heads) :])  # bounds and chance do not compete


def test_the_page_has_a_contents_list_whose_links_lead_somewhere(tmp_path: Path) -> None:
    outline = Outline(_page(tmp_path, {}, {"method": "replay"}))
    links = {attributes["href"] for name, attributes in outline.tags if name == "a"}
    ids = [attributes["id"] for _, attributes in outline.tags if attributes.get("id")]
    assert {"#b0-results", "#b0-curves", "#b0-costs", "#b0-methods", "#b0m0", "#b0m1"} <= links
    assert links <= {f"#{name}" for name in ids}
    assert len(ids) == len(set(ids))  # figures share no identifiers


def test_many_methods_are_closed_and_few_are_open(tmp_path: Path) -> None:
    few = Outline(_page(tmp_path / "few", {}))
    assert [a for name, a in few.tags if name == "details" and a.get("class")] == [{"class": "method", "open": None}]
    many = Outline(_page(tmp_path / "many", *({"method": f"m{n}"} for n in range(5))))
    assert [a for name, a in many.tags if name == "details" and a.get("class")] == [{"class": "method"}] * 5


def test_the_page_asks_nothing_of_the_network_and_runs_its_own_script_alone(tmp_path: Path) -> None:
    text = _page(tmp_path, {}, {"method": "replay"})
    assert not re.search(r"https?:", text)
    names = {name for name, _ in Outline(text).tags}
    assert not names & {"link", "iframe", "object", "base", "form"}
    policy = unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', text)[0])
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    assert "@import" not in text
    assert set(re.findall(r"url\((.)", text)) == {"#"}  # clip paths inside figures


def test_names_of_classes_methods_and_paths_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    runs = tmp_path / "<img src=x onerror=alert(1)>"
    folder = write_run(runs, names=((evil, '"><svg onload=x>'), ("c", "d")), method="<b>", benchmark="<i>&")
    text = page(Collection(collect([folder]).results, ("<u>broken</u> file",)))
    outline = Outline(text)
    names = {name for name, _ in outline.tags}
    assert outline.count("script") == 1  # the page's own
    assert not names & {"b", "i", "u"}
    assert any(text.startswith("<script>") for text in outline.texts)
    assert "<u>broken</u> file" in outline.texts
    assert not any(key.startswith("on") for _, attributes in outline.tags for key in attributes)
    assert [attributes for name, attributes in outline.tags if name == "img"] == []


def test_exemplars_come_from_the_checkpoint_with_their_names(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", names=(("<cat>", "dog"), ("c", "d")))
    grey = torch.arange(2 * 64, dtype=torch.uint8).reshape(2, 1, 8, 8)
    memory = {"images": {"7": grey, "3": torch.rand(1, 3, 5, 5)}}
    state = {"rows": [], "spent": 0.0, "learner": {"table": [[7, 3], [0, 1]], "memory": memory}}
    save_state(folder / "checkpoint.safetensors", state, kind="run checkpoint")
    outline = Outline(page(collect([folder])))
    said = " ".join(outline.texts)
    assert "3 images of 2 classes at the end of seed 0." in said
    assert "<cat> (2)" in said
    assert "dog (1)" in said
    sources = [attributes["src"] for name, attributes in outline.tags if name == "img"]
    assert len(sources) == 2
    assert all(source and source.startswith("data:image/png;base64,") for source in sources)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint"])
def test_a_damaged_checkpoint_costs_the_images_alone(tmp_path: Path, content: bytes) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "checkpoint.safetensors").write_bytes(content)
    assert "The memory cannot be shown" in page(collect([folder]))


def test_a_report_of_twenty_methods_and_twenty_tasks_would_stay_under_three_megabytes(tmp_path: Path) -> None:
    big = handmade(benchmark="cifar100-20")
    tasks = 20
    big["tasks"] = [
        big["tasks"][0] | {"index": task, "classes": [f"class {task}-{n}" for n in range(5)]} for task in range(tasks)
    ]
    square = [[0.5 if column <= row else None for column in range(tasks)] for row in range(tasks)]
    big |= {"accuracy_matrix": square, "accuracy_matrices": {"1": square, "20": square}}
    big["final"] |= {
        "task_confusion": [[5] * tasks] * tasks,
        "per_class": {f"class {n}": 0.5 for n in range(1000)},
    }
    for number in range(METHODS):
        folder = tmp_path / f"run{number}"
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps(big | {"method": f"method {number}"}), encoding="utf-8")
        noise = {str(n): torch.randint(0, 256, (10, 3, 32, 32)).to(torch.uint8) for n in range(20)}
        state = {"learner": {"memory": {"images": noise}}}
        save_state(folder / "checkpoint.safetensors", state, kind="run checkpoint")
    text = page(collect([tmp_path]))
    assert text.count("<h4") == METHODS
    images = sum(len(source) for source in re.findall(r'src="data:[^"]*', text))
    assert images < 500_000
    assert len(text.encode()) - images < 200_000 + 115_000 * METHODS  # 2.5 MB for twenty


def test_two_benchmarks_are_reported_apart_and_said_to_be(tmp_path: Path) -> None:
    text = _page(tmp_path, {}, {"benchmark": "mnist-5"})
    assert "The runs are of 2 benchmarks; each has its own part and they are not compared." in text
    outline = Outline(text)
    assert outline.count("table") == 2
    assert "published" in outline.texts  # on mnist-5, where there is a figure


def test_the_command_reports_the_rest_when_some_runs_are_bad(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write_run(tmp_path / "good")
    cut = write_run(tmp_path / "cut")
    (cut / "result.json").write_text((cut / "result.json").read_text()[:100], encoding="utf-8")
    output = tmp_path / "report.html"
    with pytest.raises(SystemExit) as ended:
        main(["report", str(good), str(cut), str(tmp_path / "gone"), "-o", str(output)])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.err.count("not reported: ") == 2
    assert "1 run reported" in said.out
    text = output.read_text(encoding="utf-8")
    assert "damaged or not JSON" in text
    assert "no such file" in text


def test_the_command_without_a_single_result_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path / "gone"), "-o", str(tmp_path / "report.html")])
    assert ended.value.code == 1
    assert "error: there is nothing to report" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_figures_are_written_under_names_that_say_what_they_are(tmp_path: Path) -> None:
    run, figures = write_run(tmp_path / "run", method="a/../b"), tmp_path / "figures"
    with pytest.raises(SystemExit) as ended:
        main(["report", str(run), "-o", str(tmp_path / "report.html"), "--figures", str(figures), "--quiet"])
    assert ended.value.code == 0
    names = {path.name for path in figures.iterdir()}
    assert {"digits-figure5.svg", "digits-figure5.png", "digits-figure5.pdf", "digits-time.svg"} <= names
    assert "digits-a-..-b-matrix-p1.svg" in names
    assert len(names) == 3 * (4 + 1 + 2 + 6)
