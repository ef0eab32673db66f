"""A model as an HTTP service: predict, learn and correct over HTTP, with a page for browsers (extra `serve`)."""
