"""What is measured and is no workload of `clew bench`: quality, faults, pictures, serving, parts side by side."""
