"""The persistent learner: a model in a folder that goes on learning, in new processes, for years."""
