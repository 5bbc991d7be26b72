"""Claims about flashlib.triton_kernels: on a GPU compiled, elsewhere in Triton's interpreter."""

import ast
import importlib.util
import inspect
import itertools
import math
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("triton") is None:  # importing it here would compile, not interpret
    pytest.skip("Triton is not installed", allow_module_level=True)

from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from flashlib import triton_kernels  # noqa: E402
from flashlib.triton_kernels import triton_attention  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FLOAT32_TOLERANCE = 3e-6  # of 1 + |expected|: IEEE products, float32 sums


def oracle(q, k, v, causal=False, scale=None):
    """Attention from its definition, whole rows, in the dtype of the inputs. Returns O, L."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    S = scale * (q @ k.mT)
    rows, cols = torch.arange(S.shape[-2])[:, None], torch.arange(S.shape[-1])
    hidden = (cols > rows + S.shape[-1] - S.shape[-2]) & torch.tensor(bool(causal))
    S = S.masked_fill(hidden.to(S.device), -torch.inf)
    L = torch.logsumexp(S, -1)
    return torch.exp(S - L.masked_fill(L == -torch.inf, 0)[..., None]) @ v, L


def tensors(B, H, H_kv, N_q, N_k, d, dtype=torch.float32, seed=0):
    """Random q, k, v, dO and dL."""
    g = torch.Generator().manual_seed(seed + 31 * N_q + 7 * N_k + d)
    shapes = [(B, H, N_q, d), (B, H_kv, N_k, d), (B, H_kv, N_k, d), (B, H, N_q, d), (B, H, N_q)]
    q, k, v, dO, dL = (torch.randn(s, generator=g).to(DEVICE) for s in shapes)
    return q.to(dtype), k.to(dtype), v.to(dtype), dO.to(dtype), dL


def run(f, q, k, v, dO, dL, causal=False, scale=None, **options):
    """[O, L, dQ, dK, dV] of f, where f is triton_attention or oracle."""
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    O, L = f(q, k, v, causal, scale=scale, **options)
    seen = torch.isfinite(L)  # the gradient of -inf is nobody's business
    loss = (O * dO).sum() + (L[seen] * dL[seen].to(L.dtype)).sum()
    return [O.detach(), L.detach(), *torch.autograd.grad(loss, (q, k, v))]


def exact(q, k, v, dO, dL, causal=False, scale=None):
    """What `run` should give: the oracle in float64."""
    return run(oracle, *(x.double() for x in (q, k, v, dO, dL)), causal, scale)


def worst_error(got, expected):
    """Largest |got - expected| / (1 + |expected|), NaN if any is; equal infinities are right."""
    assert got.shape == expected.shape
    expected = expected.to(torch.float64)
    error = (got.to(torch.float64) - expected).abs() / (1 + expected.abs())
    return torch.where(got == expected, 0.0, error).max().item() if got.numel() else 0.0


def assert_right(got, expected, tolerance=FLOAT32_TOLERANCE):
    for name, a, b in zip(("O", "L", "dQ", "dK", "dV"), got, expected, strict=True):
        error = worst_error(a, b)
        assert error <= tolerance, f"{name}: error {error}, allowed {tolerance}"


def lse(*args, **options):
    return triton_attention(*args, return_lse=True, **options)


@pytest.mark.parametrize("causal", [False, True])
def test_every_length_from_1_to_70(causal):
    for N in range(1, 71):
        x = tensors(1, 1, 1, N, N, 16)
        O, L = lse(*x[:3], causal, Br=32, Bc=32)
        for a, b in zip((O, L), oracle(*(y.double() for y in x[:3]), causal), strict=True):
            assert worst_error(a, b) <= FLOAT32_TOLERANCE, N


@pytest.mark.parametrize("N", [1, 15, 16, 17, 33, 48, 70])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_ragged_lengths(N, causal):
    x = tensors(1, 2, 2, N, N, 16)
    assert_right(run(lse, *x, causal, Br=16, Bc=32), exact(*x, causal))
    assert_right(run(lse, *x, causal, Br=32, Bc=16), exact(*x, causal))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("H, H_kv", [(2, 2), (4, 2), (3, 1)])
@pytest.mark.parametrize("N_q, N_k", [(1, 37), (37, 1), (20, 50), (50, 20), (16, 64), (64, 16)])
def test_rectangular_with_fewer_kv_heads(N_q, N_k, H, H_kv, causal):
    x = tensors(1, H, H_kv, N_q, N_k, 16)
    assert_right(run(lse, *x, causal, Br=16, Bc=32), exact(*x, causal))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [1, 5, 16, 40, 64, 96, 128, 130, 256])
def test_any_head_size(d, causal):
    x = tensors(1, 2, 1, 45, 37, d)
    assert_right(run(lse, *x, causal, Br=32, Bc=32), exact(*x, causal))


@pytest.mark.parametrize("Br, Bc", list(itertools.product((16, 32, 64, 128), repeat=2)))
def test_the_tile_does_not_matter(Br, Bc):
    x = tensors(1, 1, 1, 100, 75, 16)
    assert_right(run(lse, *x, True, Br=Br, Bc=Bc), exact(*x, True))


@pytest.mark.parametrize("causal", [False, True])
def test_without_a_tile_one_is_chosen(causal):
    x = tensors(1, 2, 1, 70, 90, 24)
    assert_right(run(lse, *x, causal), exact(*x, causal))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_half_precision_within_twice_the_error_of_pytorch(dtype, causal):
    x = tensors(1, 2, 2, 70, 70, 64, dtype)

    def pytorch(q, k, v, causal, scale):
        O = scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
        return O, oracle(q.float(), k.float(), v.float(), causal, scale)[1]

    got, theirs, expected = run(lse, *x, causal), run(pytorch, *x, causal), exact(*x, causal)
    for name, a, b, c in zip(("O", "L", "dQ", "dK", "dV"), got, theirs, expected, strict=True):
        assert a.dtype == (torch.float32 if name == "L" else dtype)
        assert worst_error(a, c) <= 2 * worst_error(b, c) + 1e-5, name


@pytest.mark.parametrize("scale", [0, 0.0, -0.25, -1.0, 2.0])
@pytest.mark.parametrize("causal", [False, True])
def test_scale_zero_and_negative(scale, causal):
    x = tensors(1, 2, 1, 40, 50, 16)
    assert_right(run(lse, *x, causal, scale, Br=16, Bc=16), exact(*x, causal, scale), 3e-5)


def test_scores_around_500_do_not_overflow():
    q, k, v, dO, dL = tensors(1, 1, 1, 40, 40, 16)
    k[..., 0], q[..., 0] = 2000.0, 1.0
    got, expected = run(lse, q, k, v, dO, dL, Br=16, Bc=16), exact(q, k, v, dO, dL)
    assert expected[1].min() > 490
    assert_right(got, expected, 2e-3)  # a score of 500 in float32 is known to 6e-5


def test_a_hand_worked_row():
    """Keys j·ln 2 give weights 2^j / 1023 for j < 10, so O = 2^j / 1023 and L = ln 1023."""
    k = (torch.arange(10.0) * math.log(2)).reshape(1, 1, 10, 1).repeat(1, 1, 1, 10).to(DEVICE)
    k[..., 1:] = 0
    q = torch.ones(1, 1, 1, 10, device=DEVICE)
    v = torch.eye(10, device=DEVICE).reshape(1, 1, 10, 10)
    O, L = lse(q, k, v, scale=1.0)
    assert worst_error(O[0, 0, 0], 2.0 ** torch.arange(10, device=DEVICE) / 1023) < 1e-6
    assert abs(L.item() - math.log(1023)) < 1e-5


def test_fewer_kv_heads_are_repeated_not_tiled():
    q, k = torch.zeros(1, 4, 1, 16, device=DEVICE), torch.zeros(1, 2, 1, 16, device=DEVICE)
    v = torch.arange(2.0, device=DEVICE).reshape(1, 2, 1, 1).expand(1, 2, 1, 16)
    assert triton_attention(q, k, v)[0, :, 0, 0].tolist() == [0, 0, 1, 1]


def test_rows_that_see_nothing():
    q, k, v, dO, dL = tensors(1, 2, 2, 40, 17, 16)
    dL[:] = 1
    O, L, dQ, dK, dV = run(lse, q, k, v, dO, dL, True, Br=16, Bc=16)
    empty = 40 - 17
    assert (O[..., :empty, :] == 0).all() and (L[..., :empty] == -torch.inf).all()
    assert (dQ[..., :empty, :] == 0).all()
    assert all(torch.isfinite(x).all() for x in (O, dQ, dK, dV))


@pytest.mark.parametrize("B, H, N_q, N_k", [(1, 2, 0, 5), (1, 2, 5, 0), (0, 2, 5, 5), (1, 0, 5, 5)])
def test_empty_inputs(B, H, N_q, N_k):
    x = tensors(B, H, 2, N_q, N_k, 16)
    O, L, dQ, dK, dV = run(lse, *x, Br=16, Bc=16)
    assert O.shape == x[0].shape and L.shape == O.shape[:-1]
    assert (O == 0).all() and (L == -torch.inf).all()
    assert all((g == 0).all() for g in (dQ, dK, dV))


def test_any_strides():
    q, k, v, dO, dL = tensors(2, 2, 2, 33, 33, 16)
    expected = exact(q, k, v, dO, dL, True)

    def transposed(x):  # stored as (B, N, H, d), or with d outermost
        return x.transpose(1, 2).contiguous().transpose(1, 2)

    def column_major(x):
        return x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)

    def every_other(x):
        wide = torch.full((*x.shape[:-1], 2 * x.shape[-1]), torch.nan, device=DEVICE)
        wide[..., ::2] = x
        return wide[..., ::2]

    for change in (transposed, column_major, every_other):
        moved = [change(x) for x in (q, k, v, dO)]
        assert not moved[0].is_contiguous()
        assert_right(run(lse, *moved, dL, True, Br=16, Bc=16), expected)


def test_expanded_inputs_and_gradients():
    q, k, v, _, dL = tensors(2, 2, 2, 20, 20, 16)
    k = k[:1, :1].expand(2, 2, 20, 16)  # stride 0
    q = q.requires_grad_()
    O = triton_attention(q, k, v)
    (dQ,) = torch.autograd.grad(O.sum(), q)  # the gradient of a sum is an expanded 1
    expected = exact(q, k, v, torch.ones_like(q), 0 * dL)
    assert worst_error(O, expected[0]) <= FLOAT32_TOLERANCE
    assert worst_error(dQ, expected[2]) <= FLOAT32_TOLERANCE


def test_addresses_beyond_2_to_the_31():
    """Rows 2^28 elements apart: memory that is never touched costs nothing."""
    far = torch.empty(2**31 + 2**20, dtype=torch.float16, device=DEVICE)
    q, k, v, dO, dL = tensors(1, 1, 1, 9, 9, 16, torch.float16)
    q_far, k_far, v_far, dO_far = (
        far[16 * n :].as_strided(q.shape, (0, 0, 2**28, 1)).copy_(x)
        for n, x in enumerate((q, k, v, dO))
    )
    near, away = run(lse, q, k, v, dO, dL), run(lse, q_far, k_far, v_far, dO_far, dL)
    for a, b in zip(near, away, strict=True):
        assert torch.isfinite(a).all() and torch.equal(a, b)


@pytest.mark.filterwarnings("ignore:All-NaN slice", "ignore:invalid value")  # of the interpreter
def test_hidden_nan_and_inf_in_skipped_tiles_do_no_harm():
    q, k, v, dO, dL = tensors(1, 1, 1, 64, 64, 16)
    expected = exact(q, k, v, dO, dL, True)
    for bad in (torch.nan, torch.inf, -torch.inf):
        k_bad, v_bad = k.clone(), v.clone()
        k_bad[..., 32:, :] = v_bad[..., 32:, :] = bad
        O, L, dQ, *_ = run(lse, q, k_bad, v_bad, dO, dL, True, Br=16, Bc=16)
        for a, b in ((O, expected[0]), (dQ, expected[2])):
            assert worst_error(a[..., :32, :], b[..., :32, :]) <= FLOAT32_TOLERANCE
        assert worst_error(L[..., :32], expected[1][..., :32]) <= FLOAT32_TOLERANCE


@pytest.mark.filterwarnings("ignore:All-NaN slice", "ignore:invalid value")
def test_visible_nan_is_not_swallowed():
    q, k, v, *_ = tensors(1, 1, 1, 20, 20, 16)
    k[..., 3, 0] = torch.nan
    assert torch.isnan(triton_attention(q, k, v)).all()


def test_inputs_are_left_alone_and_runs_are_alike():
    x = tensors(1, 2, 1, 50, 50, 16)
    before = [y.clone() for y in x]
    first, second = run(lse, *x, True), run(lse, *x, True)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before, x, strict=True))


def test_agrees_with_the_numpy_loop():
    from flashlib import flash_attention_forward

    q, k, v, *_ = tensors(1, 2, 2, 50, 70, 16)
    O, L = lse(q, k, v, True, Br=16, Bc=32)
    numpy = [x.cpu().numpy() for x in (q, k, v)]
    O_numpy, L_numpy = flash_attention_forward(*numpy, 16, 32, causal=True, return_lse=True)
    assert worst_error(O.cpu(), torch.from_numpy(O_numpy)) <= FLOAT32_TOLERANCE
    assert worst_error(L.cpu(), torch.from_numpy(L_numpy)) <= FLOAT32_TOLERANCE


def test_gradients_flow_only_where_asked():
    q, k, v, dO, _ = tensors(1, 1, 1, 20, 20, 16)
    assert not triton_attention(q, k, v).requires_grad
    v.requires_grad_()
    O, L = lse(q, k, v)
    (L.sum() * 2).backward(retain_graph=True)  # through L alone: no dO at all
    assert (v.grad == 0).all()
    O.backward(dO)
    assert worst_error(v.grad, exact(q, k, v, dO, torch.zeros_like(L))[4]) <= FLOAT32_TOLERANCE


@pytest.mark.filterwarnings("ignore")  # PyTorch's own
def test_torch_compile_keeps_it_in_one_graph():
    x = tensors(1, 2, 1, 40, 40, 16)
    backend = "inductor" if DEVICE == "cuda" else "aot_eager"
    compiled = torch.compile(lse, fullgraph=True, backend=backend)
    assert_right(run(compiled, *x, True), exact(*x, True))


Q = torch.zeros(1, 2, 4, 16, device=DEVICE)
HALF, DOUBLE, INT = Q.half(), Q.double(), Q.long()
BAD_INPUTS = {
    "3-D": ((Q[0], Q, Q), {}, ValueError, r"\(2, 4, 16\)"),
    "head sizes": ((Q, Q[..., :8], Q[..., :8]), {}, ValueError, r"head size.*\(1, 2, 4, 8\)"),
    "d_v": ((Q, Q, Q[..., :8]), {}, ValueError, r"alike.*\(1, 2, 4, 8\)"),
    "lengths": ((Q, Q, Q[:, :, :2]), {}, ValueError, r"alike.*\(1, 2, 2, 16\)"),
    "batches": ((Q, Q.repeat(2, 1, 1, 1), Q.repeat(2, 1, 1, 1)), {}, ValueError, "batch"),
    "heads": ((Q, Q.repeat(1, 2, 1, 1), Q.repeat(1, 2, 1, 1)), {}, ValueError, "multiple"),
    "no kv heads": ((Q, Q[:, :0], Q[:, :0]), {}, ValueError, "multiple"),
    "d = 0": ((Q[..., :0], Q[..., :0], Q[..., :0]), {}, ValueError, "from 1 to 256"),
    "d = 257": ([Q[..., :1].repeat(1, 1, 1, 257)] * 3, {}, ValueError, "from 1 to 256"),
    "2^31 rows": ((Q[:, :, :1].expand(1, 2, 2**31, 16), Q, Q), {}, ValueError, "add up"),
    "mixed dtypes": ((Q, HALF, Q), {}, TypeError, "float16, torch.float32"),
    "float64": ((DOUBLE, DOUBLE, DOUBLE), {}, TypeError, "torch.float64"),
    "integers": ((INT, INT, INT), {}, TypeError, "torch.int64"),
    "devices": ((Q, Q.to("meta"), Q), {}, ValueError, "one device.*meta"),
    "not tensors": ((Q, [1.0], Q), {}, TypeError, "list"),
    "Br = 24": ((Q, Q, Q), {"Br": 24}, ValueError, "Br must be.*24"),
    "Bc = 8": ((Q, Q, Q), {"Bc": 8}, ValueError, "Bc must be.*8"),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_bad_input_gives_one_sentence(name):
    args, options, error, pattern = BAD_INPUTS[name]
    with pytest.raises(error, match=pattern) as caught:
        triton_attention(*args, **options)
    assert str(caught.value).count("\n") == 0 and str(caught.value).endswith(".")


def test_every_masked_load_says_what_it_loads_instead():
    """Without other= it is undefined on a GPU but 0 in the interpreter, so the fault would hide."""
    tree = ast.parse(inspect.getsource(triton_kernels))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    loads = [c for c in calls if ast.unparse(c.func) == "tl.load"]
    dots = [c for c in calls if ast.unparse(c.func) == "tl.dot"]
    assert len(loads) >= 4 and len(dots) == 9
    for call in loads:
        names = {keyword.arg for keyword in call.keywords}
        assert ("mask" in names) == ("other" in names), ast.unparse(call)
    for call in dots:  # TensorFloat-32 would be the default for float32
        assert any(ast.unparse(k) == "input_precision='ieee'" for k in call.keywords)


def python(code):
    """Run code in a fresh Python; return its last line of output, or of its error."""
    env = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    return (done.stdout.strip() or done.stderr.strip()).splitlines()[-1]


def test_flashlib_alone_imports_neither_torch_nor_triton():
    code = "import sys, flashlib; print(sorted({'torch', 'triton'} & set(sys.modules)))"
    assert python(code) == "[]"


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_a_missing_package_gives_the_install_command(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; import flashlib.triton_kernels"
    assert "ImportError" in python(code) and "pip install" in python(code)


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_systems_without_triton_are_told_so(system):
    code = (
        f"import sys, importlib.util; sys.platform = {system!r}; find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'triton' else find(name)\n"
        "import flashlib.triton_kernels"
    )
    assert "Linux only" in python(code) and system in python(code)


@pytest.mark.skipif(DEVICE == "cuda", reason="with a GPU, Triton is meant to compile")
def test_triton_imported_too_early_is_explained():
    code = (
        "import triton, torch; from flashlib.triton_kernels import triton_attention as f\n"
        "q = torch.zeros(1, 1, 4, 16); f(q, q, q)"
    )
    assert "RuntimeError" in python(code) and "TRITON_INTERPRET=1" in python(code)


def test_an_old_gpu_is_refused(monkeypatch):
    class OldGPU:
        is_cuda, device = True, "cuda:0"

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Old T4")
    with pytest.raises(RuntimeError, match=r"8\.0.*Old T4"):
        triton_kernels._check_device(OldGPU())


def test_traffic_adds_up_the_kernels_of_each_measurement():
    from flashlib.bench_gpu import OURS, sum_sections

    read, time = "dram__bytes_read.sum", "gpu__time_duration.sum"
    lines = [("0", "_section", read, 1), ("1", "gemm", read, "1,000"), ("1", "gemm", time, 5)]
    lines += [("2", "softmax", read, 7), ("3", "_section", time, 1), ("4", "flash", time, 9)]
    header = '"ID","Kernel Name","Metric Name","Metric Value"'
    text = "\n".join(
        ["==PROF== noise", header, *(f'"{a}","{b}","{c}","{e}"' for a, b, c, e in lines)]
    )
    unfused, ours = sum_sections(text, [("unfused_pytorch", 64), (OURS, 64)])
    assert (unfused["kernels"], unfused["dram_read_bytes"], unfused["gpu_time_ns"]) == (2, 1007, 5)
    assert (ours["impl"], ours["N"], ours["kernels"], ours["gpu_time_ns"]) == (OURS, 64, 1, 9)
    with pytest.raises(RuntimeError, match="2 of 3"):
        sum_sections(text, [("unfused_pytorch", 64), ("sdpa_flash", 64), (OURS, 64)])


@pytest.mark.skipif(DEVICE == "cuda", reason="with a GPU it measures")
def test_benchmarks_without_a_gpu_say_so(capsys):
    from flashlib.bench_gpu import main_gpu, main_traffic

    for main in (main_gpu, main_traffic):
        with pytest.raises(SystemExit):
            main([])
        assert "there is none here" in capsys.readouterr().err
