"""Files of a shared file system, read from copies on the nodes of the job."""

from .files import Files

__all__ = ["Files"]
