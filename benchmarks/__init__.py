"""Measurements that are not workloads of `clew bench`: quality, faults, pictures, serving, comparisons of parts."""
