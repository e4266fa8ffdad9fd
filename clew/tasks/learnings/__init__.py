"""How tasks learn: from examples, from one text, from a stream of texts, or from documents. Members follow `Learning`
(`clew.tasks.learning`)."""

from clew.core.rooms import show_modules

show_modules(__name__)
