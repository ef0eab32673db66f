"""Learners: anything that learns tasks one after another and predicts."""

from itaml.registry import Registry

LEARNERS = Registry("method", group="itaml.learners")
LEARNERS.add("itaml", "itaml.learners.itaml:ITAML", "incremental task-agnostic meta-learning (CVPR 2020)")
