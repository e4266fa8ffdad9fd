"""Strings to ids and back: characters, words and subwords. Knows no model, no file format of a corpus and no batch."""
