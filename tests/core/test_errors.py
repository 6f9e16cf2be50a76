"""The tree of exceptions, the core's codes and the drawing in the docstring are one thing."""

from __future__ import annotations

import inspect
import re

from holdfast import _core, errors


def tree() -> list[type[errors.HoldfastError]]:
    return [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and issubclass(value, errors.HoldfastError)
    ]


def test_every_code_of_the_core_is_an_exception() -> None:
    codes = _core.status_codes()
    assert codes.pop("Ok") == 0
    assert len(set(codes.values())) == len(codes)
    for name in codes:
        assert issubclass(getattr(errors, name), errors.HoldfastError)


def test_the_docstring_draws_every_exception_once() -> None:
    assert errors.__doc__ is not None
    drawn = re.findall(r"(?:[├└]── |^    )([A-Z]\w+)", errors.__doc__, flags=re.MULTILINE)
    assert sorted(drawn) == sorted(cls.__name__ for cls in tree())


def test_each_says_what_it_is_and_has_an_exit_code() -> None:
    for cls in tree():
        assert cls.__doc__
        assert 1 <= cls.exit_code <= 9


def test_builtin_handlers_catch_them() -> None:
    assert issubclass(errors.BadInput, ValueError)
    assert issubclass(errors.NotFound, LookupError)
    assert issubclass(errors.DeadlineMissed, TimeoutError)
    assert issubclass(errors.Refused, PermissionError)
    assert issubclass(errors.Full, OSError)
