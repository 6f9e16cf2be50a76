"""What some tests need of the machine; where it is missing they are skipped, and say why."""

from __future__ import annotations

import pytest

from holdfast.launch import networks
from holdfast.testing import countfs

needs_networks = pytest.mark.skipif(bool(networks.why_not()), reason=networks.why_not())
needs_storage = pytest.mark.skipif(bool(countfs.why_not()), reason=countfs.why_not())
