"""Show two functions of the library beside each other, in a notebook."""

import html
import inspect


def python_function(kernel):
    """The Python function that a Triton kernel was made from; any other function as it is."""
    while hasattr(kernel, "fn"):  # heuristics, autotuner and JIT wrap it
        kernel = kernel.fn
    return kernel


def side_by_side(*functions):
    """The sources of the functions (Triton kernels too) in columns, as an IPython object."""
    from IPython.display import HTML

    style = "vertical-align:top;text-align:left;background:white;color:black;padding:0 8px"
    columns = []
    for function in map(python_function, functions):
        text = html.escape(inspect.getsource(function).rstrip())
        title = f"<b>{function.__name__}</b>"
        columns.append(f'<td style="{style}">{title}<pre style="font-size:12px">{text}</pre></td>')
    return HTML(f"<table><tr>{''.join(columns)}</tr></table>")
