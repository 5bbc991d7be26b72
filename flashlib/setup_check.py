"""What this Python has of what the course uses, one line each, with the command that mends it."""

import importlib
import importlib.util
import platform
import sys

# package: what it is needed for
NEEDED_FOR = {
    "numpy": "everything",
    "matplotlib": "the figures",
    "ipywidgets": "the widgets",
    "torch": "the autograd check in 05, and 06 and 07",
    "triton": "the GPU kernel in 06 and 07",
}


def missing_sentence(package):
    """One sentence for an absent package: what it is needed for and how to install it."""
    if package == "triton" and sys.platform != "linux":
        return "triton has wheels for Linux only; 06 and 07 can be read here, not run"
    need = NEEDED_FOR[package]
    return f"{package} is missing, needed for {need}: make lab, or pip install {package}"


def has(*packages):
    """True if all `packages` are installed; otherwise print a sentence for the first that isn't."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            print(missing_sentence(package))
            return False
    return True


def triton_mode():
    """How Triton kernels would run here: "compiled for <GPU>", "interpreted on the CPU"."""
    import torch

    if torch.cuda.is_available():
        return f"compiled for {torch.cuda.get_device_name()}"
    return "interpreted on the CPU (slow, no GPU needed)"


def check_setup():
    """Print versions, the device, how Triton runs, and one sentence for each missing package."""
    print(f"Python      {platform.python_version()} on {platform.system()} {platform.machine()}")
    found = {}
    for package in NEEDED_FOR:
        found[package] = importlib.util.find_spec(package) is not None
        if found[package]:
            print(f"{package:<12}{importlib.import_module(package).__version__}")
        else:
            print(missing_sentence(package))
    if found["torch"] and found["triton"]:
        print(f"kernels     {triton_mode()}")
    if all(found.values()):
        print("All set.")
    elif found["numpy"] and found["matplotlib"]:
        print("Enough for 00 to 04 in full.")
