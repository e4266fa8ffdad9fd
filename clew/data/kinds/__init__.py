"""Kinds of data, one a file: the section `data` of a config that reads it, and its readers. Knows no task."""
