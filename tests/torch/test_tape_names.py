"""What the tape shows of itself: the names of gradient functions and where they lead to, against PyTorch."""

import itertools

import pytest

from tests.torch.compare import REF, SUT
from tests.torch.tape_rows import LIKE_PYTORCH, TREES_LIKE_PYTORCH


def written(t, key, value):
    t[key] = value
    return t


def grad_fn(m, expression):
    scope = {
        "T": m,
        "F": m.nn.functional,
        "x": (m.arange(9.0).reshape(3, 3) * 0.3 - 1 + m.eye(3)).requires_grad_(),
        "z": (m.arange(9.0).reshape(3, 3).flip(0) * 0.2 + 0.3).requires_grad_(),
        "i": m.tensor([0, 1]),
        "i3": m.tensor([0, 1, 2]),
        "ii": m.tensor([[0, 1, 2], [2, 1, 0]]),
        "m": m.tensor([[True, False, True]] * 3),
        "s": m.tensor(2.0, requires_grad=True),
        "SET": written,
        "R": lambda *sizes: m.ones(*sizes, requires_grad=True),
    }
    return eval(expression, scope).grad_fn


def shown(fn):
    return fn.name(), [(None if f is None else f.name(), number) for f, number in fn.next_functions]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", LIKE_PYTORCH)
def test_a_gradient_function_has_its_name_and_leads_to_its_inputs(expression):
    assert shown(grad_fn(SUT, expression)) == shown(grad_fn(REF, expression))


def tree(fn, depth=20):
    return fn and (fn.name(), [(tree(f, depth - 1), number) for f, number in fn.next_functions if depth])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", TREES_LIKE_PYTORCH)
def test_a_gradient_function_leads_through_those_that_pytorch_has(expression):
    assert tree(grad_fn(SUT, expression)) == tree(grad_fn(REF, expression))


def factor(m, sizes, form, leaf):
    """Of these sizes: row-major, turned round, or with gaps between the rows."""
    if form == "turned":
        return m.ones(*sizes[::-1], requires_grad=leaf).permute(*range(len(sizes))[::-1])
    if form == "cut":
        return m.ones(*sizes[:-1], sizes[-1] + 1, requires_grad=leaf)[..., :-1]
    return m.ones(*sizes, requires_grad=leaf)


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("forms", list(itertools.product(["plain", "turned", "cut"], repeat=2)))
def test_a_product_of_vectors_matrices_and_stacks_is_taken_apart_as_pytorch_does(forms, wanted):
    firsts = [(3,), (2, 3), (1, 3), (2, 2, 3), (1, 2, 3), (2, 1, 2, 3), (2, 2, 2, 3)]
    seconds = [(3,), (3, 2), (3, 1), (2, 3, 2), (1, 3, 2), (1, 2, 3, 2), (2, 1, 3, 1), (2, 2, 3, 2)]
    for a, b in itertools.product(firsts, seconds):
        fns = [(factor(m, a, forms[0], wanted[0]) @ factor(m, b, forms[1], wanted[1])).grad_fn for m in (SUT, REF)]
        assert tree(fns[0]) == tree(fns[1]), (a, b)


def test_a_step_that_two_functions_lead_to_is_one_object():
    for m in (SUT, REF):
        x = m.ones(3, 3, dtype=m.float16, requires_grad=True)
        product = m.nn.functional.rms_norm(x, (3,)).grad_fn.next_functions[0][0]
        cast, root = (fn for fn, _ in product.next_functions)
        while root.name() != cast.name():
            root = root.next_functions[0][0]
        assert root is cast


def test_the_results_of_a_layer_and_of_a_cell_share_their_functions():
    for m in (SUT, REF):
        output, (h, c) = m.nn.LSTM(3, 2)(m.ones(5, 2, 3))
        layer = output.grad_fn
        assert [h.grad_fn.next_functions, c.grad_fn.next_functions] == [((layer, 1),), ((layer, 2),)]
        h, c = m.nn.LSTMCell(3, 2)(m.ones(2, 3))
        opened, squashed = (fn for fn, _ in h.grad_fn.next_functions)
        assert squashed.next_functions == ((c.grad_fn, 0),)
        kept = c.grad_fn.next_functions[0][0].next_functions[0][0]
        assert opened.next_functions[0][0] is kept.next_functions[0][0]


def test_a_cosine_of_short_vectors_has_pytorchs_gradient():
    gradients = []
    for m in (SUT, REF):
        x = (m.ones(2, 3) * 1e-9).requires_grad_()
        m.nn.functional.cosine_similarity(x, m.tensor([[1.0, 2.0, 3.0]] * 2)).sum().backward()
        gradients.append(x.grad)
    assert gradients[0].flatten().tolist() == pytest.approx(gradients[1].flatten().tolist(), rel=1e-5)


def test_a_singular_matrix_has_an_infinite_condition_number():
    for m in (SUT, REF):
        for p in (1, -1, "fro", float("inf")):
            assert m.linalg.cond(m.zeros(2, 2), p).item() == float("inf")


def test_index_put_takes_no_value_of_more_dimensions_than_it_writes():
    for m in (SUT, REF):
        with pytest.raises(RuntimeError, match="shape mismatch"):
            m.zeros(3, 3).index_put((m.tensor([0, 1]),), m.ones(1, 2, 3))


def test_a_step_that_is_shown_stays_the_same_object_while_it_lives():
    x = SUT.ones(3, 3, requires_grad=True)
    fn = SUT.nn.functional.rms_norm(x, (3,)).grad_fn
    root = fn.next_functions[1][0]
    assert root is fn.next_functions[1][0]
    assert root is not root.next_functions[0][0]
    assert x[0, 1:].grad_fn.next_functions[0][0].next_functions[0][0].variable is x


def test_a_view_that_turned_into_another_by_strides_sends_its_gradient_there():
    gradients = []
    for m in (SUT, REF):
        x = m.arange(9.0).reshape(3, 3).requires_grad_()
        y = x.clone().as_strided_((2, 2), (1, 1))
        (y * m.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        gradients.append(x.grad.tolist())
    assert gradients[0] == gradients[1]


@pytest.mark.parametrize("write", ["F.elu_(v)", "v.renorm_(2,0,1.)", "v.clamp_(0,1)", "v.as_strided_((2,2),(1,1))"])
def test_a_write_to_a_view_gives_that_view(write):
    for m in (SUT, REF):
        v = (m.ones(3, 3, requires_grad=True) * 1)[:2]
        assert eval(write, {"v": v, "F": m.nn.functional}) is v


@pytest.mark.parametrize(
    "expression", ["x.div(0.3,rounding_mode='floor')", "x.div(x,rounding_mode='floor')", "x // 0.3"]
)
def test_a_division_that_is_rounded_down_has_the_gradient_zero(expression):
    x = SUT.arange(1.0, 4.0).requires_grad_()
    (eval(expression, {"x": x}) + x).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


def test_a_printed_loss_names_its_gradient():
    x, target = SUT.zeros(2, 2, requires_grad=True), SUT.tensor([0, 1])
    assert str(SUT.nn.functional.cross_entropy(x, target)) == "tensor(0.6931, grad_fn=<NllLossBackward0>)"


def test_a_walk_over_the_graph_of_a_model_reaches_its_parameters():
    def leaves(m):
        m.manual_seed(0)
        model = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.GELU(), m.nn.LayerNorm(4), m.nn.Linear(4, 2))
        loss = m.nn.functional.cross_entropy(model(m.ones(5, 3)), m.tensor([0, 1, 1, 0, 0]))
        names = {id(p): name for name, p in model.named_parameters()}
        work, seen, found = [loss.grad_fn], set(), set()
        while work:
            fn = work.pop()
            if fn is None or fn in seen:
                continue
            seen.add(fn)
            if hasattr(fn, "variable"):
                found.add(names[id(fn.variable)])
            work.extend(f for f, _ in fn.next_functions)
        return found

    assert leaves(SUT) == leaves(REF)


@pytest.mark.parametrize(
    "expression",
    [
        "x.repeat(2,2)",
        "x[0].repeat(2)",
        "x.tile(2,2)",
        "x.t().reshape(-1)",
        "x.t().flatten()",
        "T.kron(x,x)",
        "F.conv1d(x[None],x[None])",
        "F.conv2d(x[None,None],x[None,None])",
        "x[None] @ x",
        "(x * 2).view(-1)",
        "x.rot90()",
        "x.rot90(3)",
        "F.group_norm(x,3)",
        "F.unfold(x[None,None],2)",
        "F.fold(T.ones(1,4,4).requires_grad_(),(3,3),2)",
        "F.max_unpool2d(*F.max_pool2d(T.ones(1,1,4,4).requires_grad_(),2,return_indices=True),2)",
        "F.affine_grid(x[None,:2],(1,1,2,2))",
        "x.roll(1)",
        "x[0].roll(1)",
        "T.einsum('ij->i',x)",
        "T.einsum('i,j->ij',x[0],x[1])",
        "T.einsum('ij,ij->ij',x,x)",
        "x.quantile(0.5,dim=0)",
        "F.adaptive_max_pool1d(x,2)",
        "x.clone().t_()",
        "x.clone().transpose_(0,1)",
        "x.clone().unsqueeze_(0)",
        "x[None].clone().squeeze_(0)",
    ],
)
def test_a_result_is_a_view_of_something_inside_its_function_only_where_it_is_in_pytorch(expression):
    assert shown(written_twice(SUT, expression)) == shown(written_twice(REF, expression))


@pytest.mark.parametrize(
    "expression",
    [
        "T.einsum('ij,jk->ik',x,x)",
        "T.einsum('ij,ij->',x,x)",
        "T.einsum('ij->ji',x)",
        "T.einsum('ij->i',x)",
        "T.einsum('i,j->ij',x[0],x[1])",
        "T.tensordot(x,x,1)",
        "T.tensordot(x,x,2)",
        "T.inner(x,x)",
        "x.roll(1)",
        "x.roll(1,0)",
        "F.unfold(x[None,None],2)",
        "F.adaptive_max_pool1d(x,2)",
        "x.quantile(0.5,dim=0)",
        "x.rot90()",
    ],
)
def test_off_the_tape_a_result_says_that_it_is_a_view_where_pytorch_does(expression):
    with SUT.no_grad(), REF.no_grad():
        ours, theirs = (
            eval(expression, {"T": m, "F": m.nn.functional, "x": m.arange(9.0).reshape(3, 3)}) for m in (SUT, REF)
        )
    assert ours._is_view() == theirs._is_view()


def written_twice(m, expression):
    return grad_fn(m, f"({expression}).mul_(2).mul_(3)")


def test_views_of_a_repeated_tensor_follow_what_is_written_to_it():
    gradients = []
    for m in (SUT, REF):
        x = m.zeros(4, requires_grad=True)
        y = x.repeat(2)
        y.retain_grad()
        part = y[5].reshape(1, 1)
        y[[4, 1]] += 2
        (y.sum() + part.sum()).backward()
        gradients.append(y.grad.tolist())
    assert gradients[0] == gradients[1] == [1, 1, 1, 1, 1, 2, 1, 1]


SIZES = dict(zip("abcdeijkl", (2, 3, 4, 2, 1, 3, 4, 2, 5)))
EQUATIONS = """
ij,jk->ik ij,kj->ki i,j->ij i,j->ji ij,ij->ij ij,ij->i ij,ij->j ij,ij-> ij,j->i ij,j->ij ij,i->ij ij,k->ik
ij,kl->ik ij,kl->il ij,kl-> i,i-> i,j-> abc,acd->abd abc,acd->bad abc,cb->a abc,cd->abd abc,abc->c abc,ab->c
ij->i ij->j ij->ji ij-> ii ii->i iij->j iij->ij iji->j iij->ji ii,i->i ii,ij->j iij,j->i ij,jk,kl->il
ij,jk,kl->li ij,ij,ij->ij i,j,k->ijk ij,jk,kl,la->ia ij,j,j->i ij,jk,ki-> i,i,i-> ei,ei->i ei,ij->ej ej,ej->
ae,be->ab ij,jk abi,abj->ij abi,baj->ij ab,cd->abcd ab,cd->dcba ab,ab,cd->cd abcd,cd->ab abcd,dcba->a
ij,ik,il->jkl e,e->e e,i->i i,ij,j-> ...ij,...jk->...ik ...ij,jk->...ik i...,i...->... ...i,...i->...
...,...->... ...ij->...ji ...ii->...i ...->
"""


def summed(m, equation, reached, turned):
    """The functions of an einsum of ones; reached: bit k, the k-th operand wants gradients."""
    operands = []
    for k, term in enumerate(equation.split("->")[0].split(",")):
        sizes = [SIZES[c] for c in term.replace("...", "cd")]
        t = m.ones(*sizes[::-1] if turned else sizes, requires_grad=bool(reached >> k & 1))
        operands.append(t.permute(*range(len(sizes))[::-1]) if turned else t)
    return tree(m.einsum(equation, *operands).grad_fn)


@pytest.mark.parametrize("turned", [False, True], ids=["row-major", "turned"])
@pytest.mark.parametrize("equation", EQUATIONS.split())
def test_an_einsum_leads_through_the_functions_that_pytorch_has(equation, turned):
    for reached in range(1, 1 << len(equation.split("->")[0].split(","))):
        assert summed(SUT, equation, reached, turned) == summed(REF, equation, reached, turned), reached


@pytest.mark.parametrize("equation", ["ij,jk,kl->il", "i,j,k->ijk", "ij,j,j->i", "ii->i", "iij,j->i", "ij,kl->ik"])
def test_the_gradients_of_an_einsum_and_hooks_around_it(equation):
    def program(m):
        operands = []
        for term in equation.split("->")[0].split(","):
            sizes = [SIZES[c] for c in term]
            t = m.linspace(0.1, 1.0, int(m.tensor(sizes).prod())).reshape(sizes)
            operands.append(t.requires_grad_())
        y, log = m.einsum(equation, *operands), []
        y.register_hook(lambda g: log.append(g.tolist()))
        y.grad_fn.register_prehook(lambda gs: log.append([g.tolist() for g in gs]))
        (y * 2).sum().backward()
        return log, [t.grad.tolist() for t in operands]

    ours, theirs = program(SUT), program(REF)
    assert ours[0] == theirs[0]
    for a, b in zip(ours[1], theirs[1]):
        assert SUT.allclose(SUT.tensor(a), SUT.tensor(b), rtol=1e-4)


LONG = """:,:,:,:,:,:,:,:,0; :,:,:,:,:,:,:,0:1,None,0; ...,None,0,None,0:1
None,None,None,None,None,None,None,None,None,0""".replace("\n", "; ")


@pytest.mark.parametrize("index", LONG.split("; "))
def test_an_index_of_many_items_is_taken_apart_as_it_was_written(index):
    def program(m):
        x = m.zeros(1, 1, 2, 1, 1, 1, 3, 1, 1, 1, requires_grad=True)
        return tree(eval(f"x[{index}]", {"x": x}).grad_fn)

    assert program(SUT) == program(REF)


def test_the_last_of_very_many_parts_has_its_number():
    def number(m):
        return (m.zeros(70_000, requires_grad=True).unbind()[66_000] * 2).grad_fn.next_functions[0][1]

    assert number(SUT) == number(REF) == 66_000


@pytest.mark.parametrize("line", ["T.linalg.eigh(x)[0]", "T.linalg.pinv(x)", "x.exp()", "Of.apply(x)", "Long.apply(x)"])
def test_a_function_is_printed_as_an_op_or_as_a_users(line):
    def printed(m):
        methods = {"forward": staticmethod(lambda ctx, x: x * 2), "backward": staticmethod(lambda ctx, g: g * 2)}
        kinds = {name: type(name, (m.autograd.Function,), methods) for name in ("Of", "Long" * 80)}
        scope = {"T": m, "x": m.eye(3, requires_grad=True), "Of": kinds["Of"], "Long": kinds["Long" * 80]}
        fn = eval(line, scope).grad_fn
        return repr(fn).split(" at ")[0], fn.name()

    assert printed(SUT) == printed(REF)
