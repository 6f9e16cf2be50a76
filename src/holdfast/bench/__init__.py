"""Benchmarks: one module each, with `run() -> Report`; `holdfast bench` runs them."""
