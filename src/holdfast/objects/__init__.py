"""Objects: a key and some bytes, written once, kept in several copies."""

from .objects import Listing, ObjectInfo, Objects

__all__ = ["Listing", "ObjectInfo", "Objects"]
