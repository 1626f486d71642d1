"""The long tail of names against PyTorch: rare functions, rare layers, and what is said of names that are not there."""

import pathlib
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from tests.torch.compare import SUT, check_same

ROOT = pathlib.Path(__file__).parent.parent.parent


def data(seed, *shape):
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32)


def both(program, *arrays, grads=True):
    """The values of a program, and the gradients of its inputs, by both modules."""
    found = []
    for m in (SUT, torch):
        m.manual_seed(3)
        tensors = [m.tensor(a) for a in arrays]
        for t in tensors:
            if grads and t.is_floating_point():
                t.requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = program(m, *tensors)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        tensor = (torch.Tensor, SUT.Tensor)
        smooth = [r for r in results if isinstance(r, tensor) and r.requires_grad]
        if smooth:
            sum((r * r).sum() for r in smooth).backward()
        values = [r.detach().numpy() if isinstance(r, tensor) else r for r in results]
        slopes = [t.grad.numpy() if smooth and t.grad is not None else None for t in tensors]
        found.append([*values, *slopes])
    for ours, theirs in zip(*found):
        if ours is None and isinstance(theirs, np.ndarray):  # no gradient is as good as zeros
            assert not theirs.any()
        elif isinstance(theirs, np.ndarray):
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=3e-5)
        else:
            assert ours == theirs


A, B = data(1, 3, 4), data(2, 3, 4)
IMAGE = data(3, 2, 3, 5, 6)
PROGRAMS = {
    "affine_grid": lambda m: m.nn.functional.affine_grid(m.tensor(data(4, 2, 2, 3)), (2, 1, 3, 4), align_corners=True),
    "affine_grid inside": lambda m: m.nn.functional.affine_grid(m.tensor(data(4, 2, 3, 4)), (2, 1, 3, 4, 2)),
    "elu_": lambda m: [getattr(m.nn.functional, n)(m.tensor(A)) for n in ("elu_", "selu_", "celu_", "leaky_relu_")],
    "hardtanh_": lambda m: [m.nn.functional.hardtanh_(m.tensor(A), -0.5, 0.5), m.threshold_(m.tensor(A), 0.1, 2.0)],
    "pdist": lambda m: [m.pdist(m.tensor(A), p) for p in (1.0, 2.0, 3.0)],
    "conv_tbc": lambda m: m.conv_tbc(m.tensor(data(5, 6, 2, 3)), m.tensor(data(6, 3, 3, 4)), m.tensor(data(7, 4)), 1),
    "conv2d": lambda m: m.conv2d(m.tensor(IMAGE), m.tensor(data(8, 4, 3, 2, 2)), padding=1),
    "max_pool2d": lambda m: m.max_pool2d(m.tensor(IMAGE), 2),
    "unpool": lambda m: m.nn.functional.max_unpool2d(
        *m.nn.functional.max_pool2d(m.tensor(IMAGE), 2, return_indices=True), 2
    ),
    "layer_norm": lambda m: m.layer_norm(m.tensor(A), (4,)),
    "cosine_similarity": lambda m: m.cosine_similarity(m.tensor(A), m.tensor(B)),
    "hsplit": lambda m: [*m.hsplit(m.tensor(A), 2), *m.vsplit(m.tensor(A), [1]), *m.tensor(IMAGE).dsplit(5)],
    "gcd": lambda m: [m.gcd(m.tensor([12, 18]), m.tensor([8, 27])), m.lcm(m.tensor([4, 6]), m.tensor([6, 9]))],
    "frexp": lambda m: list(m.frexp(m.tensor([3.0, -0.25]))),
    "ldexp": lambda m: m.ldexp(m.tensor(A), m.tensor(2)),
    "mvlgamma": lambda m: m.mvlgamma(m.tensor(np.abs(A) + 3), 3),
    "renorm": lambda m: [m.renorm(m.tensor(A), 2, 0, 0.5), m.tensor(A).renorm(1, 1, 0.5)],
    "trapezoid": lambda m: [m.trapezoid(m.tensor(A)), m.trapz(m.tensor(A), dx=0.5), m.trapezoid(m.tensor(A), dim=0)],
    "trapezoid over x": lambda m: m.trapezoid(m.tensor(A), m.tensor([0.0, 1.0, 3.0, 3.5])),
    "cumulative_trapezoid": lambda m: m.cumulative_trapezoid(m.tensor(A)),
    "gradient": lambda m: m.gradient(m.tensor(A), spacing=0.5),
    "histogram": lambda m: list(m.histogram(m.tensor(A), 5)),
    "bartlett_window": lambda m: [m.bartlett_window(7), m.bartlett_window(6, periodic=False)],
    "select_scatter": lambda m: m.select_scatter(m.tensor(A), m.zeros(4), 0, 1),
    "slice_scatter": lambda m: m.slice_scatter(m.tensor(A), m.zeros(3, 2), 1, 1, 3),
    "diagonal_scatter": lambda m: m.diagonal_scatter(m.tensor(A), m.zeros(3)),
    "as_strided_scatter": lambda m: m.as_strided_scatter(m.tensor(A), m.zeros(2), (2,), (3,), 1),
    "fill_diagonal_": lambda m: [m.tensor(A).fill_diagonal_(9), m.zeros(7, 3).fill_diagonal_(1, wrap=True)],
    "apply_": lambda m: m.tensor(A).apply_(lambda v: v * 2 + 1),
    "map_": lambda m: m.tensor(A).map_(m.tensor(B), lambda a, b: a - b),
    "sum_to_size": lambda m: [m.tensor(A).sum_to_size(1, 4), m.tensor(IMAGE).sum_to_size(5, 1)],
    "narrow_copy": lambda m: m.tensor(A).narrow_copy(1, 1, 2),
    "is_nonzero": lambda m: [m.is_nonzero(m.tensor([2.0])), m.is_nonzero(m.tensor(0))],
    "constants": lambda m: [m.pi, m.e, m.inf, m.newaxis],
    "typename": lambda m: [m.typename(m.ones(2)), m.typename(3), m.typename(len)],
    "accelerators": lambda m: [m.accelerator.is_available(), m.accelerator.device_count()],
    "settings": lambda m: [m.are_deterministic_algorithms_enabled(), m.get_float32_matmul_precision()],
    "linear fused with its norm": lambda m: fused(m),
}


def fused(m):
    linear, norm = m.nn.Linear(3, 4), m.nn.BatchNorm1d(4)
    norm(linear(m.tensor(data(9, 6, 3))))
    one = m.nn.utils.fuse_linear_bn_eval(linear.eval(), norm.eval())
    return one(m.tensor(data(10, 5, 3)))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_rare_functions_give_what_pytorch_gives(name):
    both(lambda m: PROGRAMS[name](m))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grids_are_sampled_as_pytorch_samples_them(mode, padding, align):
    def sample(m, image, grid):
        return m.nn.functional.grid_sample(image, grid, mode, padding, align)

    both(sample, IMAGE, 1.4 * data(11, 2, 4, 3, 2))
    if mode != "bicubic":
        both(sample, data(12, 1, 2, 3, 4, 5), 1.4 * data(13, 1, 2, 3, 2, 3))


def test_attention_with_its_weights_as_arguments():
    def attend(m, q, w, b, out):
        return m.nn.functional.multi_head_attention_forward(
            q, q, q, 8, 2, w, b, None, None, False, 0.0, out, None, need_weights=True
        )

    both(attend, data(14, 5, 3, 8), data(15, 24, 8), data(16, 24), data(17, 8, 8))


LAZY = {
    "LazyConv1d(4, 3)": (2, 3, 7),
    "LazyConv2d(4, 3, 2, 1)": (2, 3, 6, 7),
    "LazyConv2d(4, (3, 2), bias=False, groups=1)": (3, 6, 7),
    "LazyConv3d(4, 2)": (1, 2, 3, 4, 4),
    "LazyConvTranspose1d(4, 3, stride=2)": (2, 3, 5),
    "LazyConvTranspose2d(4, 3, 2, 1, 1)": (2, 3, 4, 4),
    "LazyInstanceNorm2d()": (2, 3, 4, 5),
    "LazyLinear(4)": (2, 3),
}


@pytest.mark.parametrize("text", sorted(LAZY))
def test_lazy_layers_become_the_layers_they_stand_for(text):
    def call(m, x):
        layer = eval(text, vars(m.nn))
        y = layer(x)
        assert not type(layer).__name__.startswith("Lazy")
        return y, repr(layer), list(layer.state_dict())

    both(call, data(18, *LAZY[text]))


def test_data_parallel_names_its_parameters_as_pytorch_does():
    both(lambda m: list(m.nn.DataParallel(m.nn.Linear(2, 3)).state_dict()))


def test_predictions_of_clustered_classes():
    def run(m, x):
        layer = m.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6])
        return layer.log_prob(x), layer.predict(x)

    both(run, data(19, 5, 8))


def test_a_tensor_leaves_the_tape_in_place():
    x = SUT.ones(3, requires_grad=True)
    y = x * 2
    assert y.detach_() is y and not y.requires_grad and y.grad_fn is None
    with pytest.raises(RuntimeError, match="views"):
        (x * 2)[0].detach_()


@pytest.mark.parametrize(
    "where,name,near", [("nn.functional", "conv5d", "conv3d"), ("nn", "Linea", "Linear"), ("", "zeroes", "zeros")]
)
def test_a_missing_name_is_named_together_with_what_is_near_it(where, name, near):
    module = SUT
    for part in where.split(".") if where else ():
        module = getattr(module, part)
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert name in str(caught.value) and near in str(caught.value)
    assert not hasattr(module, name)


def test_the_page_of_coverage_keeps_what_was_written_by_hand(tmp_path):
    """The block between the marks is the script's; the rest is its readers'."""
    page = ROOT / "docs" / "COVERAGE.md"
    script = (
        (ROOT / "tools" / "coverage.py")
        .read_text()
        .replace(
            'PAGE = pathlib.Path(__file__).parent.parent / "docs" / "COVERAGE.md"',
            f"PAGE = pathlib.Path({str(tmp_path / 'PAGE.md')!r})",
        )
    )
    (tmp_path / "coverage.py").write_text(script)
    (tmp_path / "PAGE.md").write_text("before\n<!-- coverage: begin -->\nold\n<!-- coverage: end -->\nafter\n")
    subprocess.run([sys.executable, "-W", "ignore", tmp_path / "coverage.py"], check=True, cwd=ROOT)
    text = (tmp_path / "PAGE.md").read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "\nold\n" not in text
    assert "torch.nn.functional" in text and page.exists()


def take_over(m):
    o = m.overrides

    class Other:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return cls.__name__, function.__name__, [t.__name__ for t in types], len(args), sorted(kwargs)

    class Derived(Other):
        pass

    class Unwilling:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return NotImplemented

    def product(a, b, **more):
        if o.has_torch_function((a, b)):
            return o.handle_torch_function(product, (a, b), a, b, **more)
        return a * b

    x = m.ones(2) * 3
    found = [product(x, 2), product(Other(), x), product(Other(), Derived()), product(Unwilling(), Other(), key=1)]
    found += [
        o.has_torch_function_unary(x),
        o.has_torch_function_unary(Other()),
        o.has_torch_function_variadic(x, Other()),
    ]
    found += [o.is_tensor_like(v) for v in (x, Other(), 1.0)]
    wrapped = o.wrap_torch_function(lambda a: (a,))(lambda a: a + 1)
    found += [wrapped(x), wrapped(Other())[0]]
    try:
        product(Unwilling(), 1)
    except TypeError as error:
        found.append(str(error).split(" on types")[1].split(":")[0])
    return found


def test_functions_that_let_their_arguments_take_over():
    check_same(take_over(SUT), take_over(torch), "overrides")
