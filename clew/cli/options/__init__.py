"""Arguments that several verbs share: rows and texts, decoding, precision, a user's file."""
