"""The machine: its CPU, cores, memory and cache folder, and whether bfloat16 works on it."""
