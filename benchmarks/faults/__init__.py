"""Fault injection: every trial must end in success or in a one-sentence error message. One kind of fault per file."""
