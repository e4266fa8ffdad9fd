"""Benchmarks of speed and memory in comparison with peers: workloads, timing, and recorded ratios."""
