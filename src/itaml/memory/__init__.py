"""The exemplar memory: a fixed number of images, shared equally by all classes seen."""
