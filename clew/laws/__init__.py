"""Laws: properties that every member of every table must have, as plain functions without a test framework.

A law takes a function that builds the module (`build(sizes)`) and `Sizes`; it returns, or raises `Broken` with a
sentence. It computes in float64. `check` runs the laws on everything that a user's file adds to the tables, from the
smallest sizes upward.
"""
