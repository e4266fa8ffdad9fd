"""What goes wrong on purpose: every fault ends in success or in one sentence. One file a kind of fault."""
