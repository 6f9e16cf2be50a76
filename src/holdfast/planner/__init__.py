"""Models and simulators of what failures cost: no I/O, no cluster; `holdfast plan` asks them."""
