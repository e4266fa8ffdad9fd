"""Arguments that several verbs share: rows and texts, decoding, precision, the user's own code."""
