"""How tasks learn: from examples, texts, streams or documents. Members follow `Learning` (`clew.tasks.learning`)."""

from clew.core.rooms import show_modules

show_modules(__name__)
