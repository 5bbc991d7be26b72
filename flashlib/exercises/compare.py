"""Is an answer the expected one? A NaN never passes, nothing is broadcast, integers are exact."""

import inspect
import math

import numpy as np

FLOAT64_TOLERANCE, FLOAT32_TOLERANCE = 1e-9, 1e-4


class AnswerError(Exception):
    """An answer that can't be compared; its text says why."""


def read(value, expected, parts=()):
    """Bring an answer into the form of `expected`: a list with one entry a part.

    Arrays may come as lists, float32 or in Fortran order. Raises AnswerError when the number of
    parts, a shape or a type is wrong.
    """
    if isinstance(expected, tuple):
        names = parts or tuple(f"result {k}" for k in range(len(expected)))
        wanted = f"a tuple of {len(expected)}: {', '.join(names)}"
        if not isinstance(value, (tuple, list)) and getattr(value, "ndim", 0) == 0:
            raise AnswerError(f"It returned {kind_of(value)}, expected {wanted}.")
        if len(value) != len(expected):
            raise AnswerError(f"It returned {kind_of(value)}, expected {wanted}.")
        pairs = zip(value, expected, names, strict=True)
        return [_read_part(one, model, name + " ") for one, model, name in pairs]
    return [_read_part(value, expected, "")]


def _read_part(value, expected, name):
    subject = f"{name}is {kind_of(value)}" if name else f"It returned {kind_of(value)}"
    if value is None or value is Ellipsis or inspect.isroutine(value):
        raise AnswerError(f"{subject}, expected {kind_of(expected)}.")
    if isinstance(expected, str):
        if not isinstance(value, str):
            raise AnswerError(f"{subject}, expected a string such as {expected!r}.")
        return str(value)
    array = _as_array(value, subject, expected)
    if array.shape != np.shape(expected):
        subject = f"{name}has" if name else "The result has"
        tip = " Is it keepdims=True?" if array.shape == (*np.shape(expected), 1) else ""
        raise AnswerError(f"{subject} shape {array.shape}, expected {np.shape(expected)}.{tip}")
    return array if array.shape else array[()]  # a NumPy scalar keeps its precision


def _as_array(value, subject, expected):
    try:
        array = np.array(value)  # a copy: the answer may use its memory again
    except Exception as error:
        text = f"{subject}, which NumPy can't turn into an array ({type(error).__name__})."
        raise AnswerError(text) from error
    wanted = "b" if np.asarray(expected).dtype == bool else "iuf"
    if array.dtype.kind not in wanted or array.dtype == np.float16:
        what = "True or False" if wanted == "b" else "float64 or float32"
        python = array.dtype.kind == "O" and not hasattr(value, "dtype")
        dtype = "" if python or array.dtype.kind in "US" else f" with dtype {array.dtype}"
        raise AnswerError(f"{subject}{dtype}, expected {what}.")
    return array


def kind_of(value):
    """A few words for what a value is: "None", "an array of shape (3, 2)", "a function"."""
    if value is None or value is Ellipsis:
        return str(value)
    if inspect.isroutine(value):
        return "a function"
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    known = {int: "a whole number", float: "a number", str: "a string", bool: "True or False"}
    return known.get(type(value), f"a {type(value).__name__}")


def tolerance_of(got, *inputs):
    """The coarser of the precisions of the result and of the inputs decides."""
    single = any(getattr(x, "dtype", None) == np.float32 for x in (got, *inputs))
    return FLOAT32_TOLERANCE if single else FLOAT64_TOLERANCE


def wrong_entries(got, expected, tolerance):
    """Where two parts of equal shape differ: a boolean array, or one bool for a scalar.

    Strings, bools and whole numbers must be equal. Otherwise the difference may be `tolerance`
    times the largest finite |expected|; infinities must be equal, and NaN is always wrong.
    """
    if isinstance(expected, (str, bool, int)):
        return np.asarray(got != expected)
    got, expected = np.asarray(got), np.asarray(expected)
    if expected.dtype.kind in "bi":
        return got != expected
    finite = np.isfinite(expected)
    size = np.abs(expected[finite]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        close = np.abs(got.astype(np.float64) - expected) <= tolerance * (size or 1.0)
    return ~np.where(finite, close, got == expected)


def alike(a, b, tolerance):
    """Whether two answers, right or wrong, are the same: here NaN equals NaN."""
    if np.shape(a) != np.shape(b) or isinstance(a, str) != isinstance(b, str):
        return False
    if isinstance(a, str):
        return a == b
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    both_nan = np.isnan(a) & np.isnan(b)
    return bool((both_nan | ~wrong_entries(np.where(both_nan, 0, a), b, tolerance)).all())


def shown(name, value, largest=12):
    """`name = value`; of an array with more than `largest` entries only the shape."""
    if callable(value):
        return f"{name} = {getattr(value, '__name__', 'a function')}"
    if np.shape(value) == ():
        return f"{name} = {number(value)}"
    if np.size(value) > largest:
        single = ", float32" if getattr(value, "dtype", None) == np.float32 else ""
        return f"{name}: shape {np.shape(value)}{single}"
    return f"{name} = {rows(value)}"


def rows(array):
    """A small array on one line, four digits after the point."""
    text = np.array2string(np.asarray(array), precision=4, separator=", ", threshold=50)
    return " ".join(text.split())


def number(value):
    """A scalar as text, ten digits for floats; strings quoted."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and math.isfinite(value) and value != int(value):
        return f"{value:.10g}"
    if isinstance(value, float) and math.isfinite(value) and abs(value) < 1e15:
        return f"{value:.1f}"
    return repr(value)
