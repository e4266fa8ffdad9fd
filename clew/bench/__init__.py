"""Speed and memory beside peers: workloads, how they are timed, and what was recorded of them."""
