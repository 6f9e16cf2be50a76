"""How often to checkpoint, and to which level: the multi-level model with an asynchronous top.

`system` has the inputs, `two_level` the closed form, `chain` the absorbing chain that defines the
model for any number of levels, `blocks` the same chain folded up for the optimiser, `optimum` the
best schedule, `simulated_periods` and `simulated_clock` the two simulators.
"""
