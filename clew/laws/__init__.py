"""The properties that every member of every table must have, as plain functions: no test framework, float64, sizes given by the caller.

A law takes a function that builds the thing (`build(sizes)`) and `Sizes`; it returns, or raises `Broken` with a sentence. `check` runs them
from the smallest sizes upward over what a user's file adds to the tables.
"""
