"""Pages of the Python API: one for each group of public modules, filled by mkdocstrings."""

from __future__ import annotations

from typing import NamedTuple

from itaml.learners import LEARNERS

GROUPS = {  # title: name of the page, and the modules below `itaml` that are shown on it
    "Model on disk": (
        "model",
        "modelstore.image_classifier modelstore.editable_model modelstore.predictions modelstore.learning",
    ),
    "scikit-learn": ("sklearn", "sklearn"),
    "Experiments": ("experiments", "experiment.run_config experiment.build experiment.runner experiment.result"),
    "Data": ("data", "data.stream data.images data.dataset_wrappers data.benchmarks"),
    "Models": ("models", "models.classifier models.task_map models.features models.backbones.module"),
    "Memory": ("memory", "memory.buffer"),
    "Learners": (
        "learners",
        "learners.api learners.method learners.settings learners.recipe learners.trainer testing",
    ),
    "Algorithm 1": ("meta", "meta.algorithm1 meta.inner_loop meta.eta meta.engines.fused meta.engines.batched"),
    "Inference": (
        "inference",
        "inference.predictor inference.task_prediction inference.adaptation inference.class_prediction"
        " inference.bound inference.segmentation inference.unknown",
    ),
    "Metrics": ("metrics", "metrics.metric_registry metrics.evaluate"),
    "Events and errors": ("events", "events errors config"),
}


class ApiPage(NamedTuple):
    """A page: its title, its path below `docs`, and its Markdown."""

    title: str
    path: str
    text: str


def api_pages() -> list[ApiPage]:
    """Return the pages, the overview first."""
    groups = []
    for title, (name, modules) in GROUPS.items():
        text = _text(title, [f"itaml.{module}" for module in modules.split()])
        groups.append(ApiPage(title, f"reference/api/{name}.md", text))
    homes = sorted({LEARNERS.entry(name).target.partition(":")[0] for name in LEARNERS.names()})
    methods = ApiPage("Methods", "reference/api/methods.md", _text("Methods", homes))
    return [_overview([*groups, methods]), *groups, methods]


def page_of_module(module: str) -> str | None:
    """Return the page below `docs` that shows a module, or None."""
    line = f"::: {module}"
    return next((page.path for page in api_pages() if line in page.text.splitlines()), None)


def _text(title: str, modules: list[str]) -> str:
    return "\n\n".join([f"# {title}", *(f"::: {module}" for module in modules)]) + "\n"


def _overview(pages: list[ApiPage]) -> ApiPage:
    rows = [f"| [{page.title}]({page.path.rpartition('/')[2]}) |" for page in pages]
    text = (
        "# Python API\n\nThe public names of `itaml`, with their source.\n\n| part |\n|---|\n" + "\n".join(rows) + "\n"
    )
    return ApiPage("Overview", "reference/api/index.md", text)
