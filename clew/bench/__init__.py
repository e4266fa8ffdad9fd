"""Benchmarks of speed and memory against peers: workloads, timing, and recorded ratios."""
