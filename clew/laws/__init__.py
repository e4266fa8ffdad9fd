"""Laws: properties that every member of every table must have, as plain functions without a test framework.

A law takes a function that builds the module, `build(sizes)`, and the `Sizes`. It returns None if the property holds
and raises `Broken` with a message if not. Laws compute in float64. `check` runs them on every entry that a user's file
adds to the tables, from the smallest sizes upward.
"""
