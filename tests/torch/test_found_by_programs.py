"""What public programs once found: ways to call that no table of operations has."""

import importlib

import pytest

from tests.torch.compare import REF, SUT, check_same, check_tensor, outcome


@pytest.mark.parametrize("arguments", [{"split_size": [2, 4]}, {"split_size": 4}, {"split_size": (1, 5), "dim": -1}])
def test_split_takes_its_sizes_by_name(arguments):
    ours, theirs = (m.arange(6.0).split(**arguments) for m in (SUT, REF))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        check_tensor(a, b, f"split {arguments}")


@pytest.mark.parametrize("sections", [2, [1, 5]])
def test_split_as_a_function_names_its_sizes_otherwise(sections):
    ours, theirs = (m.split(m.arange(6.0), split_size_or_sections=sections, dim=0) for m in (SUT, REF))
    assert [a.tolist() for a in ours] == [b.tolist() for b in theirs]


PLACES = [
    ("distributions.binomial", "Binomial"),
    ("distributions.half_normal", "HalfNormal"),
    ("distributions.studentT", "StudentT"),
    ("distributions.one_hot_categorical", "OneHotCategorical"),
    ("utils.data.distributed", "DistributedSampler"),
    ("nn.modules.padding", "ZeroPad2d"),
    ("nn.modules.distance", "CosineSimilarity"),
    ("nn.modules.instancenorm", "InstanceNorm2d"),
]


@pytest.mark.parametrize("place, name", PLACES)
def test_a_name_is_found_where_pytorch_keeps_it(place, name):
    assert hasattr(importlib.import_module(f"{REF.__name__}.{place}"), name)
    module = importlib.import_module(f"{SUT.__name__}.{place}")
    assert getattr(module, name) is getattr(importlib.import_module(f"{SUT.__name__}.{place.rpartition('.')[0]}"), name)


@pytest.mark.parametrize("count, replicas", [(10, 3), (9, 3), (2, 5), (10, 1)])
@pytest.mark.parametrize("options", [{}, {"shuffle": False}, {"drop_last": True, "seed": 7}])
def test_a_share_of_the_indices_for_each_of_several_processes(count, replicas, options):
    def shares(m):
        found = []
        for rank in range(replicas):
            sampler = m.utils.data.DistributedSampler(range(count), replicas, rank, **options)
            sampler.set_epoch(2)
            found.append((len(sampler), list(sampler)))
        return found

    if count < replicas and options.get("drop_last"):
        pytest.skip("PyTorch asserts that there is an index for each")
    assert shares(SUT) == shares(REF)


def test_programs_that_ask_for_other_processes_find_none():
    import brisk.distributed as d

    assert not d.is_available() and not d.is_initialized()
    with pytest.raises(NotImplementedError, match="init_process_group"):
        d.init_process_group("gloo")
    for name in ("get_rank", "get_world_size", "barrier", "destroy_process_group"):
        errors = []
        for module in (d, REF.distributed):
            with pytest.raises((ValueError, AssertionError)) as raised:
                getattr(module, name)()
            errors.append((raised.type, str(raised.value)))
        assert errors[0] == errors[1]


@pytest.mark.parametrize("keyword", [False, True])
def test_a_function_as_an_operation_has_the_gradient_registered_for_it(keyword):
    def program(m):
        Tensor = m.Tensor
        if keyword:

            @m.library.custom_op("brisk_tests::scaled_by_name", mutates_args=())
            def scaled(x: Tensor, y: Tensor, *, by: float = 3.0) -> Tensor:
                return x * y * by

            def keep(ctx, inputs, keyword_only_inputs, output):
                ctx.save_for_backward(*inputs)
                ctx.by = keyword_only_inputs["by"]

            def backward(ctx, grad):
                x, y = ctx.saved_tensors
                return grad * y * ctx.by, grad * x * 100
        else:

            @m.library.custom_op("brisk_tests::scaled", mutates_args=())
            def scaled(x: Tensor, y: Tensor, by: float = 3.0) -> Tensor:
                return x * y * by

            def keep(ctx, inputs, output):
                *tensors, ctx.by = inputs
                ctx.save_for_backward(*tensors)

            def backward(ctx, grad):
                x, y = ctx.saved_tensors
                return grad * y * ctx.by, grad * x * 100, None

        scaled.register_fake(lambda x, y, by=3.0: m.empty_like(x))
        x = m.tensor([1.0, 2.0], requires_grad=True)
        y = m.tensor([3.0, 4.0], requires_grad=True)
        with pytest.raises(RuntimeError):
            scaled(x, y).sum().backward()
        m.library.register_autograd(scaled._qualname, backward, setup_context=keep)
        z = scaled(x, y, by=0.5)
        z.sum().backward()
        return z.tolist(), x.grad.tolist(), y.grad.tolist()

    assert program(SUT) == program(REF)


def test_an_operation_that_nobody_made_is_named():
    with pytest.raises(RuntimeError, match="nothing::such"):
        SUT.library.register_autograd("nothing::such", lambda ctx, grad: grad)
    with pytest.raises(ValueError, match="nospace"):
        SUT.library.custom_op("nospace", mutates_args=())


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (1, 1, 1)])
def test_a_gradient_of_more_dimensions_than_its_input_is_summed(shape):
    def gradient(m):
        class Scaled(m.autograd.Function):
            @staticmethod
            def forward(ctx, x, by):
                ctx.save_for_backward(x)
                return x * by.reshape(-1)[0]

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return None, grad * x

        by = m.ones(shape, requires_grad=True)
        Scaled.apply(m.arange(12.0).reshape(1, 3, 4), by).sum().backward()
        return by.grad

    check_tensor(gradient(SUT), gradient(REF), f"a parameter of shape {shape}")


def test_choices_that_change_nothing_are_accepted():
    def program(m):
        attention = importlib.import_module(f"{m.__name__}.nn.attention")
        q = m.arange(12.0).reshape(1, 1, 4, 3)
        with attention.sdpa_kernel([attention.SDPBackend.MATH, attention.SDPBackend.FLASH_ATTENTION]):
            out = m.nn.functional.scaled_dot_product_attention(q, q, q)
        with pytest.raises(AssertionError, match="SDPBackend"), attention.sdpa_kernel("math"):
            pass
        with pytest.raises(RuntimeError, match="too few"):
            m._check(False, lambda: "too few")
        m._check(True)
        names = [b.name for b in (attention.SDPBackend.MATH, attention.SDPBackend.ERROR)]
        return out, m.jit.annotate(int, 3), names, m.is_autocast_enabled(), str(m.get_autocast_dtype("cpu"))

    ours, theirs = program(SUT), program(REF)
    check_tensor(ours[0], theirs[0], "attention")
    assert ours[1:] == theirs[1:]


SIZES = (
    """
torch.zeros(b, c) ; torch.ones((b, c)) ; torch.zeros(b) ; torch.empty(b, 2).shape ; torch.full((b, c), 1.0)
torch.rand(b, c).shape ; torch.randint(5, (b, c)).shape ; torch.randint(b, (3,)).shape ; torch.randperm(b).shape
x.view(b, c) ; x.view(-1, b) ; x.reshape((c, b)) ; x.expand(b, 6) ; x.repeat(b, c) ; x.new_zeros(b, c) ; torch.eye(b)
x.view(2, 3).sum((b - 1, 0)) ; x.view(2, 3).permute(b - 1, b - 2) ; x.topk(b)[0] ; torch.zeros(b[None], 2)
torch.zeros(2, torch.tensor([2, 3])) ; torch.zeros(2, torch.tensor(2.0)) ; torch.zeros(2, torch.tensor([]))
torch.zeros((2, torch.tensor([2, 3]))) ; x.view(2, 3).transpose(b - 1, 0) ; x.unsqueeze(b - 2) ; torch.zeros(b, 2.0)
""".replace("\n", " ; ")
    .strip(" ;")
    .split(" ; ")
)


@pytest.mark.parametrize("line", SIZES)
def test_a_size_may_be_a_tensor_that_holds_one_number(line):
    def ask(m):
        return eval(line, {"torch": m, "x": m.arange(6.0), "b": m.tensor([2]), "c": m.tensor(3)})

    check_same(outcome(ask, SUT), outcome(ask, REF), line)


@pytest.mark.parametrize("kind", ["RNN", "GRU"])
@pytest.mark.parametrize("both_ways", [False, True])
def test_the_output_of_a_recurrent_layer_has_pytorchs_place_on_the_tape(kind, both_ways):
    def ask(m):
        output, state = getattr(m.nn, kind)(3, 4, bidirectional=both_ways)(m.ones(5, 2, 3))
        return output.grad_fn.name(), state.grad_fn.name()

    assert ask(SUT) == ask(REF)


def test_a_name_of_torchscript_can_be_imported_for_annotations():
    from brisk._C import Value

    assert not hasattr(SUT, "Value") and not isinstance(SUT.ones(2), Value)


def test_the_package_is_reached_through_a_module_that_imports_it():
    assert SUT.sparse.torch.eye(2).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("line", """
    x + s ; x - s ; s + x ; s - x ; x * s ; s * x ; x / s ; s / x ; x.add(s, alpha=2) ; x.sub(s)
    x[0] + s ; x[0] * s ; s * x[0]
    x + z ; x - z ; z + x ; z - x ; x * z ; z * x ; x / z ; z / x ; x + i ; x * i ; x - z.double() ; x * z.double()
    torch.addcmul(x, z, z) ; torch.addcdiv(x, z, z) ; torch.addcmul(x, i, i) ; torch.where(x > 0, x, z) ; x.clamp(max=z)
    """.replace("\n", " ; ").split(" ; "))  # fmt: skip
def test_numbers_beside_16_bit_floats_are_rounded_where_pytorch_rounds_them(line, dtype):
    """What is added is rounded to 16 bits first; what multiplies or divides is not."""

    def result(m):
        x = (m.arange(1, 1000) / 7).to(getattr(m, dtype))
        names = {"torch": m, "x": x, "s": 3.188123, "z": m.tensor(3.188123), "i": m.tensor(12345)}
        return eval(line.strip(), names)

    if line.strip():
        check_tensor(result(SUT), result(REF), line, rtol=0.0, atol=0.0)


def test_ldexp_of_a_float_and_an_integer_keeps_the_floats_dtype():
    def program(m):
        x = m.tensor([1.5, 2.0**-140])
        kinds = [m.ldexp(m.ones(2, dtype=d), m.tensor([1, 2])).dtype for d in (m.float16, m.bfloat16, m.float64)]
        return m.ldexp(x, m.tensor([3, 200])).tolist(), [str(d) for d in kinds]

    assert program(SUT) == program(REF)
    for m in (SUT, REF):
        with pytest.raises(NotImplementedError):
            m.ldexp(m.ones(2), m.tensor([True, False]))


@pytest.mark.parametrize("name", ["div", "divide", "true_divide", "multiply", "subtract", "floor_divide"])
@pytest.mark.parametrize("number", [2, 2.5])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "uint8"])
def test_a_number_may_come_first(name, number, dtype):
    ours, theirs = (getattr(m, name)(number, m.tensor([3, 4], dtype=getattr(m, dtype))) for m in (SUT, REF))
    check_tensor(ours, theirs, f"{name}({number}, {dtype})")


@pytest.mark.parametrize("name", ["gcd", "lcm"])
@pytest.mark.parametrize("left, right", [("int8", "int64"), ("int64", "int8"), ("uint8", "int8"), ("bool", "int16")])
@pytest.mark.parametrize("number", [True, False])
def test_divisors_have_the_type_that_pytorch_gives_them(name, left, right, number):
    def found(m):
        other = m.tensor(1 if number else [1, 1], dtype=getattr(m, right))
        return getattr(m, name)(m.tensor([1, 1], dtype=getattr(m, left)), other)

    check_tensor(found(SUT), found(REF), f"{name} of {left} and {right}")


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_layer_takes_a_batch_of_nothing(layer):
    def shapes(m):
        x = m.ones(3, 0, 4, requires_grad=True)
        out, h = getattr(m.nn, layer)(4, 3)(x)
        out.sum().backward()
        return [tuple(t.shape) for t in (out, *(h if isinstance(h, tuple) else (h,)), x.grad)]

    assert shapes(SUT) == shapes(REF)


@pytest.mark.parametrize("view", ["transpose", "reshape", "as_strided"])
def test_a_gradient_has_its_bases_strides_where_the_views_memory_was_written_without_the_tape(view):
    def strides(m):
        x = m.tensor([[2.0, 0.25, 2.5], [1.0, 2.0, 3.0]], requires_grad=True)
        y = {
            "transpose": lambda: x.transpose(0, 1),
            "reshape": lambda: x.reshape(3, 2),
            "as_strided": lambda: x.as_strided((3, 2), (1, 3)),
        }[view]()
        untouched = m.autograd.grad(y.double().sum(), x)[0].stride()
        with m.no_grad():
            y *= 2
        return (
            untouched,
            m.autograd.grad(y.double().sum(), x)[0].stride(),
            m.autograd.grad((y * y).sum(), x)[0].stride(),
        )

    assert strides(SUT) == strides(REF)
