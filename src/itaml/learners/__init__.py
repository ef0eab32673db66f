"""Learners: anything that learns tasks one after another and predicts."""

from itaml.registry import Registry

LEARNERS = Registry("method", group="itaml.learners")
LEARNERS.add("itaml", "itaml.learners.methods.itaml:ITAML", "incremental task-agnostic meta-learning (CVPR 2020)")
LEARNERS.add(
    "finetune",
    "itaml.learners.methods.finetune:Finetune",
    "train on the new data alone: lower bound",
)
LEARNERS.add("fixedrep", "itaml.learners.methods.fixedrep:FixedRep", "features fixed after the first task")
LEARNERS.add("joint", "itaml.learners.methods.joint:Joint", "train on all data so far: upper bound, keeps everything")
LEARNERS.add("replay", "itaml.learners.methods.replay:Replay", "rehearse exemplars, mixed in or task-balanced")
LEARNERS.add("ewc", "itaml.learners.methods.ewc:EWC", "elastic weight consolidation (PNAS 2017)")
LEARNERS.add("online-ewc", "itaml.learners.methods.online_ewc:OnlineEWC", "EWC with one running Fisher (ICML 2018)")
LEARNERS.add("si", "itaml.learners.methods.si:SI", "synaptic intelligence (ICML 2017)")
LEARNERS.add("mas", "itaml.learners.methods.mas:MAS", "memory aware synapses (ECCV 2018)")
LEARNERS.add("rwalk", "itaml.learners.methods.rwalk:RWalk", "Riemannian walk, with or without exemplars (ECCV 2018)")
LEARNERS.add("lwf", "itaml.learners.methods.lwf:LwF", "learning without forgetting (ECCV 2016)")
LEARNERS.add("gem", "itaml.learners.methods.gem:GEM", "gradient episodic memory (NeurIPS 2017)")
LEARNERS.add("icarl", "itaml.learners.methods.icarl:ICaRL", "nearest mean of exemplars, with distillation (CVPR 2017)")
LEARNERS.add("bic", "itaml.learners.methods.bic:BiC", "distillation and bias correction (CVPR 2019)")
LEARNERS.add("reptile", "itaml.learners.methods.reptile:Reptile", "first-order meta-learning by interpolation (2018)")
LEARNERS.add("fomaml", "itaml.learners.methods.fomaml:FOMAML", "first-order MAML (ICML 2017)")
LEARNERS.add("dgr", "itaml.learners.methods.dgr:DGR", "deep generative replay (NeurIPS 2017)")
LEARNERS.add("rtf", "itaml.learners.methods.rtf:RtF", "replay through feedback (2018)")
LEARNERS.add("dmc", "itaml.learners.methods.dmc:DMC", "deep model consolidation on auxiliary images (WACV 2020)")
LEARNERS.add("lda", "itaml.learners.methods.lda:LDA", "linear discriminant analysis from sums of features, exact")
LEARNERS.add("ranpac", "itaml.learners.methods.ranpac:RanPAC", "random projection and ridge regression (NeurIPS 2023)")
LEARNERS.add("ncm", "itaml.learners.methods.ncm:NCM", "nearest class mean of features (TPAMI 2013)")
LEARNERS.add("rpsnet", "itaml.learners.methods.rpsnet:RPSNet", "random path selection (NeurIPS 2019)")
