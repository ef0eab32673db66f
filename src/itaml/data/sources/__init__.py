"""One module for each place that images come from."""
