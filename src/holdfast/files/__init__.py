"""Files of a shared file system, read from copies on the nodes of the job."""

from .files import Files
from .policy import FilePolicy

__all__ = ["FilePolicy", "Files"]
