"""What can be known of an answer without running it."""

import dis
import inspect


def plain_function(answer):
    """The Python function inside decorators and Triton's wrappers."""
    for _ in range(5):
        answer = getattr(answer, "fn", answer)
    try:
        return inspect.unwrap(answer)
    except ValueError:
        return answer


def filename_of(answer):
    """The file, or notebook cell, that an answer was written in; None if there is none."""
    return getattr(getattr(plain_function(answer), "__code__", None), "co_filename", None)


def does_something(answer):
    """Whether a function has more in its body than a docstring, dots or `pass`."""
    code = getattr(plain_function(answer), "__code__", None)
    idle = {"RESUME", "NOP", "POP_TOP", "RETURN_VALUE", "RETURN_CONST"}
    return code is not None and any(
        step.opname not in idle and not step.opname.startswith("LOAD_CO")  # CONST, COMMON_CONSTANT
        for step in dis.get_instructions(code)
    )
