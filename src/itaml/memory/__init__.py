"""The exemplar memory: a fixed number of pictures, shared equally by all classes seen."""
