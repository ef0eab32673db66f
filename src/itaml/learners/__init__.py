"""Learners: anything that learns tasks one after another and predicts."""

from itaml.registry import Registry

LEARNERS = Registry("method", group="itaml.learners")
LEARNERS.add("itaml", "itaml.learners.itaml:ITAML", "incremental task-agnostic meta-learning (CVPR 2020)")
LEARNERS.add(
    "finetune", "itaml.learners.finetune:Finetune", "train on, with nothing done against forgetting: lower bound"
)
LEARNERS.add("fixedrep", "itaml.learners.fixedrep:FixedRep", "features fixed after the first task")
LEARNERS.add("joint", "itaml.learners.joint:Joint", "train on all data so far: upper bound, keeps everything")
LEARNERS.add("replay", "itaml.learners.replay:Replay", "rehearse exemplars, mixed in or task-balanced")
LEARNERS.add("ewc", "itaml.learners.ewc:EWC", "elastic weight consolidation (PNAS 2017)")
LEARNERS.add("online-ewc", "itaml.learners.online_ewc:OnlineEWC", "EWC with one running Fisher (ICML 2018)")
LEARNERS.add("si", "itaml.learners.si:SI", "synaptic intelligence (ICML 2017)")
LEARNERS.add("mas", "itaml.learners.mas:MAS", "memory aware synapses (ECCV 2018)")
LEARNERS.add("rwalk", "itaml.learners.rwalk:RWalk", "Riemannian walk, with or without exemplars (ECCV 2018)")
LEARNERS.add("lwf", "itaml.learners.lwf:LwF", "learning without forgetting (ECCV 2016)")
LEARNERS.add("gem", "itaml.learners.gem:GEM", "gradient episodic memory (NeurIPS 2017)")
LEARNERS.add("icarl", "itaml.learners.icarl:ICaRL", "nearest mean of exemplars, with distillation (CVPR 2017)")
LEARNERS.add("bic", "itaml.learners.bic:BiC", "distillation and bias correction (CVPR 2019)")
LEARNERS.add("reptile", "itaml.learners.reptile:Reptile", "first-order meta-learning by interpolation (2018)")
LEARNERS.add("fomaml", "itaml.learners.fomaml:FOMAML", "first-order MAML (ICML 2017)")
LEARNERS.add("dgr", "itaml.learners.dgr:DGR", "deep generative replay (NeurIPS 2017)")
LEARNERS.add("rtf", "itaml.learners.rtf:RtF", "replay through feedback (2018)")
LEARNERS.add("dmc", "itaml.learners.dmc:DMC", "deep model consolidation on auxiliary pictures (WACV 2020)")
LEARNERS.add("rpsnet", "itaml.learners.rpsnet:RPSNet", "random path selection (NeurIPS 2019)")
