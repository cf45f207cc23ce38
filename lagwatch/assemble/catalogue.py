"""The catalogue of a configuration: the built-in tables and what the user's JMX beans add to them."""

from __future__ import annotations

from lagwatch.catalogue import BUILT_IN, Catalogue, with_user_fields
from lagwatch.config import Settings


def catalogue_of(settings: Settings) -> Catalogue:
    """The built-in tables with the fields of the user's beans."""
    return with_user_fields(BUILT_IN, [bean.catalogue_field() for bean in settings.jmx.beans])
