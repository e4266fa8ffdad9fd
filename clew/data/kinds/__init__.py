"""Kinds of data, one for each file: the section `data` of a config, and its readers. Knows no task."""
