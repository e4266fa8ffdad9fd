"""The table of instruments, by the name that the command line and the page know them by."""

from clew.inspection.instrument import Instrument

INSTRUMENTS: dict[str, Instrument] = {}
