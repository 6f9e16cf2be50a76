"""Tensors of torch go in and out like any other buffer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mpi4py import MPI

from holdfast.errors import BadInput
from holdfast.replicas import Replicas

comm = MPI.COMM_WORLD
store = Replicas(comm, copies=min(2, comm.size))


def there_and_back(mine: torch.Tensor) -> None:
    store.submit(mine, block_bytes=mine.element_size())
    neighbour = (comm.rank + 1) % comm.size
    count = mine.numel()
    out = torch.empty(count, dtype=mine.dtype)
    got = store.load([(neighbour * count, count)], out=out)
    theirs = mine.contiguous().reshape(-1) - comm.rank + neighbour
    assert torch.equal(out, theirs)
    assert np.array_equal(got, theirs.numpy().view(np.uint8))


for kind in (torch.float32, torch.float64, torch.int16, torch.uint8):
    table = torch.arange(40, dtype=kind).reshape(8, 5) + comm.rank
    there_and_back(table)
    there_and_back(table.T)  # not contiguous
    there_and_back(table[::2, 1:])
store.submit_many([torch.arange(n) for n in range(3)], name="varied")
assert store.load_many([(2, 1)], name="varied")[0].cast("q").tolist() == [0, 1]
for refused in (torch.zeros(16, requires_grad=True), torch.zeros(16, dtype=torch.bfloat16)):
    with pytest.raises(BadInput, match="Tensor"):
        store.submit(refused)
print(f"rank {comm.rank} is done")
