"""out=: what is written where, what is resized, what is said of it and what is refused, as in PyTorch."""

import warnings

import pytest

from tests.torch.compare import REF, SUT, Report
from tests.torch.scripts import compare_lines, evaluate, lines_of

SETUP = (
    "x = torch.arange(6.).reshape(2, 3) + 1; n = torch.arange(6).reshape(2, 3); v = torch.arange(3.);"
    " m = torch.arange(12.).reshape(3, 4); i = torch.tensor([1, 0]); s = torch.eye(3) * 2"
)

# One call of every kind; {} is where out= goes
CALLS = """
torch.exp(x{}) ; torch.neg(n{}) ; torch.add(x, 1{}) ; torch.eq(x, 1{}) ; torch.clamp(x, 1, 2{})
torch.clamp_min(n, 2{})
torch.where(x > 2, x, -x{}) ; torch.max(x, x{}) ; torch.sum(x, 1{}) ; torch.sum(n, 0, keepdim=True{})
torch.prod(x, 1{})
torch.mean(x, 1{}) ; torch.std(x, 1{}) ; torch.amax(x, 1{}) ; torch.argmax(x, 1{}) ; torch.any(x, 1{})
torch.all(x, 1{})
torch.logsumexp(x, 1{}) ; torch.softmax(x, 1{}) ; torch.cumsum(x, 1{}) ; torch.cumprod(x, 1{}) ; torch.nonzero(n{})
torch.cat([x, x]{}) ; torch.stack([x, x]{}) ; torch.hstack([x, x]{}) ; torch.tril(x{}) ; torch.diag(v{})
torch.index_select(x, 0, i{}) ; torch.gather(x, 1, n % 3{}) ; torch.take(x, i{}) ; torch.masked_select(x, x > 2{})
torch.scatter(x, 1, n % 3, x{}) ; torch.mm(x, m{}) ; torch.matmul(x, m{}) ; torch.mv(x, v{}) ; torch.dot(v, v{})
torch.addmm(m[:2], x, m{}) ; torch.outer(v, v{}) ; torch.inner(x, x{}) ; torch.isin(n, i{})
torch.renorm(x, 2, 0, 1.{})
torch.gcd(n, n{}) ; torch.ldexp(x, n{}) ; torch.linalg.svdvals(x{}) ; torch.linalg.det(s{})
torch.quantile(x, 0.5, 1{})
torch.special.ndtr(x{}) ; torch.bucketize(x, v{}) ; torch.histc(x, 4{}) ; torch.msort(x{}) ; torch.logit(x / 10{})
torch.zeros(2, 3{}) ; torch.full((2, 3), 1{}) ; torch.arange(6{}) ; torch.eye(3{})
"""
PAIRS = """
torch.max(x, 1{}) ; torch.min(x, 0{}) ; torch.sort(x, 1{}) ; torch.topk(x, 2{}) ; torch.median(x, 1{})
torch.mode(x, 1{})
torch.kthvalue(x, 2{}) ; torch.cummax(x, 1{}) ; torch.cummin(x, 1{}) ; torch.aminmax(x, dim=1{})
torch.linalg.eigh(s{})
torch.linalg.svd(s{}) ; torch.linalg.qr(s{}) ; torch.slogdet(s{}) ; torch.linalg.inv_ex(s{}) ; torch.frexp(x{})
"""
CALLS, PAIRS = ([c.strip() for line in lines_of(text) for c in line.split(";")] for text in (CALLS, PAIRS))


def written(call, out, also=""):
    """A script that writes a call's result r into `out` and shows that, and `also`."""
    return f"{SETUP}; r = {call.format('')}; {out} :: ({call.format(', out=o')} is o, o{also})"


def said(module, line):
    """The warnings of a line, or its exception."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            evaluate(module, line)
        except Exception as error:
            return type(error).__name__, str(error)
    texts = {str(w.message).split(" (Triggered")[0] for w in caught}  # a number becomes a tensor first, and warns too
    return sorted(text for text in texts if "resized" in text)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
def test_out_takes_the_result_in_its_own_memory_where_that_has_room(call):
    report = Report()
    outs = {
        "o = torch.empty(0, dtype=r.dtype)": "",
        "o = torch.zeros(r.shape, dtype=r.dtype)": "",
        "o = torch.zeros(r.numel() + 1, dtype=r.dtype); p = o.view(-1)": ", p",
        "q = torch.zeros(40, dtype=r.dtype); o = q[3:5]": ", q, o.storage_offset()",
        "q = torch.zeros(80, dtype=r.dtype); o = q[2:60:3]": ", q, o.stride()",
        "o = torch.zeros(tuple(r.shape)[::-1], dtype=r.dtype).permute(*range(r.dim() - 1, -1, -1))": ", o.stride()",
    }
    for out, also in outs.items():
        line = written(call, out, also)
        report.check(lambda m, line=line: evaluate(m, line), line)
    report.finish()


@pytest.mark.parametrize("call", CALLS)
def test_resizing_an_out_that_has_elements_is_warned_of_in_pytorchs_words(call):
    if "arange" in call:
        pytest.skip("has words of its own")
    for out in ("torch.zeros(r.numel() + 1, dtype=r.dtype)", "torch.zeros(0, dtype=r.dtype)", "torch.zeros_like(r)"):
        line = written(call, f"o = {out}")
        assert said(SUT, line) == said(REF, line), line


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("call", CALLS)
def test_what_a_dtype_of_out_cannot_take_is_refused_in_pytorchs_words(call, dtype):
    line = written(call, f"o = torch.zeros(r.shape, dtype=torch.{dtype})")
    if any(name in call for name in ("arange", "zeros", "ldexp", "diag")):
        pytest.skip("PyTorch's words are of its kernels")
    compare_lines(line, rtol=1e-3, atol=1e-3)
    assert said(SUT, line) == said(REF, line)


@pytest.mark.parametrize("call", CALLS)
def test_an_out_or_argument_that_requires_gradients_is_refused_in_pytorchs_words(call):
    asks = "x.requires_grad_(); v.requires_grad_(); m.requires_grad_(); s.requires_grad_()"
    for line in (
        f"{SETUP}; r = {call.format('')}; {asks}; o = torch.zeros(r.shape, dtype=r.dtype) :: {call.format(', out=o')}",
        f"{SETUP}; r = {call.format('')}; o = torch.zeros(r.shape).requires_grad_() :: {call.format(', out=o')}",
        f"{SETUP}; r = {call.format('')}; {asks}; o = torch.zeros_like(r); torch.set_grad_enabled(False)"
        f" :: {call.format(', out=o')}",
    ):
        try:
            ours, theirs = said(SUT, line), said(REF, line)
        finally:
            SUT.set_grad_enabled(True)
            REF.set_grad_enabled(True)
        if isinstance(theirs, tuple) and "leaf Variable" in theirs[1]:
            continue  # composed functions of PyTorch find it at their last step
        assert ours == theirs, line


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", PAIRS)
def test_each_tensor_of_a_pair_is_filled_or_refused_before_any_is_written(call):
    report = Report()
    pair = f"{SETUP}; r = {call.format('')}; a, b = [torch.zeros_like(t) for t in r][:2]"
    rest = "rest = [torch.zeros_like(t) for t in r][2:]"
    call = call.format(", out=(a, b, *rest))"[:-1])
    for change in (
        "0",
        "a = torch.zeros(7, dtype=a.dtype); b = torch.zeros(7, dtype=b.dtype)",
        "a = torch.zeros(0, dtype=a.dtype); b = torch.zeros(0, dtype=b.dtype)",
        "q = torch.zeros(50, dtype=a.dtype); a = q[3:5]",
    ):
        line = f"{pair}; {rest}; {change} :: ({call}[0] is a, a, b)"
        report.check(lambda m, line=line: evaluate(m, line), line, strides=None if "linalg" in line else "effective")
        if "mode" not in line and "kthvalue" not in line:  # which PyTorch resizes with the dimension kept
            assert said(SUT, line) == said(REF, line)
    report.finish()
    for dtype in ("float64", "float16", "int64", "int32", "bool"):
        for change in (f"a = a.to(torch.{dtype})", f"b = b.to(torch.{dtype})"):
            line = f"{pair}; {rest}; {change} :: {call}"
            assert said(SUT, line)[:1] == said(REF, line)[:1], line
            for module in (SUT, REF):
                scope = {"torch": module}
                exec(f"{pair}; {rest}; {change}", scope)
                try:
                    exec(call, scope)
                except RuntimeError:
                    assert not scope["a"].any() and not scope["b"].any(), line


REFUSED = """
torch.max(x, 1, out=(torch.zeros(2), torch.zeros(2)))
torch.sort(x, 1, out=(torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int32)))
torch.sort(x, 1, out=(torch.zeros(2, 3),))
torch.cat([x, x], out=x)
torch.cat([x, n], out=torch.zeros(4, 3, dtype=torch.int64))
torch.index_select(x, 0, i, out=x)
torch.max(x, 1, out=(x[0, :2], torch.zeros(2, dtype=torch.int64)))
torch.zeros(2, out=torch.zeros(2), dtype=torch.float64)
torch.linalg.svd(s, out=s)
torch.where(x > 2, x, 1, out=x)
torch.sum(x, 1, dtype=torch.float64, out=torch.zeros(2))
torch.exp(x, out=torch.from_numpy(np.zeros(1, dtype='float32')))
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", lines_of(REFUSED))
def test_an_out_that_does_not_fit_is_refused_in_pytorchs_words(call):
    ours, theirs = (said(m, f"{SETUP} :: {call}") for m in (SUT, REF))
    assert isinstance(theirs, tuple) and ours == theirs


def test_a_warning_made_an_error_leaves_out_as_it_was():
    x, out = SUT.ones(2, 3), SUT.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="resized"):
            SUT.exp(x, out=out)
    assert out.tolist() == [0, 0]


def test_an_out_that_outgrows_its_memory_moves_to_new_memory():
    """PyTorch's storage grows, and other views of it see the result (docs/DIFFERENCES.md)."""
    base = SUT.zeros(3)
    out = base[:2]
    with pytest.warns(UserWarning, match="resized"):
        SUT.exp(SUT.zeros(2, 3), out=out)
    assert out.tolist() == [[1, 1, 1], [1, 1, 1]] and base.tolist() == [0, 0, 0]
