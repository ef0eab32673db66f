"""Algorithm 1 of the paper: the inner loops, the outer mean and the interpolation by eta."""
