"""Override fields of a run's decoding section."""

from typing import Any

from pydantic import ValidationError

from clew.core.errors import UserError
from clew.runs.settings.explaining import explain
from clew.tasks.uses.writing import DecodingConfig


def decoding_config(config: DecodingConfig, options: dict[str, Any]) -> DecodingConfig:
    """Return the decoding section with some fields changed."""
    try:
        return DecodingConfig(**{**config.model_dump(), **options})
    except ValidationError as error:
        raise UserError(explain(error, DecodingConfig, prefix="decoding.")) from None
