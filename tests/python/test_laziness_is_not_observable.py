"""Recording instead of computing must show in time only. Each test is one trap, with the answer that PyTorch gives."""

import pytest


def test_a_view_sees_a_write_to_its_base(torch):
    x = torch.zeros(4)
    v = x[1:3]
    x += 1
    x[2] = 7
    assert v.tolist() == [1, 7]


def test_a_base_sees_a_write_through_its_view(torch):
    x = torch.zeros(2, 3)
    x.t()[1] = 5
    x[0].add_(1)
    assert x.tolist() == [[1, 6, 1], [0, 5, 0]]


def test_a_view_of_a_view_sees_a_write_to_the_base_and_the_other_way_round(torch):
    x = torch.arange(12.0).reshape(3, 4)
    v = x[1:].t()[::2]
    v *= 10
    x[2, 2] = -1
    assert x.tolist() == [[0, 1, 2, 3], [40, 5, 60, 7], [80, 9, -1, 11]]
    assert v.tolist() == [[40, 80], [60, -1]]


def test_a_reader_keeps_the_value_it_read_before_a_write(torch):
    x = torch.ones(3)
    y = x * 2
    x.fill_(100)
    z = x * 2
    assert y.tolist() == [2, 2, 2]
    assert z.tolist() == [200, 200, 200]


def test_a_reader_of_a_part_keeps_the_value_it_read_before_that_part_was_written(torch):
    x = torch.arange(4.0)
    a = x[:2] * 1
    b = x[2:] * 1
    x[1:3] = -5
    assert (a.tolist(), b.tolist(), x.tolist()) == ([0, 1], [2, 3], [0, -5, -5, 3])


def test_a_view_has_no_value_of_its_own(torch):
    x = torch.ones(3)
    v = x[0]
    w = v + 0
    x[0] = 9
    assert (v.item(), w.item()) == (9, 1)


def test_swap_through_scalar_views_behaves_as_in_pytorch(torch):
    a = torch.tensor([1.0, 2.0])
    v = a[0]
    a[0] = a[1]
    a[1] = v
    assert a.tolist() == [2, 2]


def test_swap_through_a_tuple_assignment_behaves_as_in_pytorch(torch):
    a = torch.tensor([1.0, 2.0])
    a[0], a[1] = a[1], a[0]
    assert a.tolist() == [2, 2]


def test_swap_through_clones_swaps(torch):
    a = torch.tensor([1.0, 2.0])
    a[0], a[1] = a[1].clone(), a[0].clone()
    assert a.tolist() == [2, 1]


def test_overlapping_copy_of_x1_from_x0_is_refused_as_in_pytorch(torch):
    x = torch.arange(5.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:] = x[:-1]
    assert x.tolist() == [0, 1, 2, 3, 4]
    x[1:] = x[:-1].clone()
    assert x.tolist() == [0, 0, 1, 2, 3]


def test_a_copy_between_interleaved_parts_of_one_tensor(torch):
    x = torch.arange(8.0)
    x[::2].copy_(x[1::2])
    assert x.tolist() == [1, 1, 3, 3, 5, 5, 7, 7]


def test_rows_copied_one_after_another_see_what_was_written_before(torch):
    x = torch.arange(4.0)
    for i in range(3):
        x[i + 1] = x[i] + 10
    assert x.tolist() == [0, 10, 20, 30]


def test_a_stencil_in_place_sees_its_own_writes(torch):
    x = torch.ones(6)
    for i in range(1, 6):
        x[i] += x[i - 1]
    assert x.tolist() == [1, 2, 3, 4, 5, 6]


def test_a_stencil_out_of_place_does_not(torch):
    x = torch.ones(6)
    old = x.clone()
    for i in range(1, 6):
        x[i] = old[i] + old[i - 1]
    assert x.tolist() == [1, 2, 2, 2, 2, 2]


def test_out_writes_where_it_is_told_and_aliases_see_it(torch):
    x = torch.zeros(4)
    v = x[2:]
    r = torch.add(torch.ones(2), 1, out=v)
    assert r is v
    assert x.tolist() == [0, 0, 2, 2]


def test_an_operand_may_be_its_own_result(torch):
    x = torch.tensor([1.0, 2.0])
    torch.mul(x, x, out=x)
    x += x
    assert x.tolist() == [2, 8]


def test_an_in_place_op_returns_its_tensor(torch):
    x = torch.ones(2)
    assert x.add_(1) is x
    y = x
    y += 1
    assert y is x and x.tolist() == [3, 3]


def test_detach_and_data_share_memory(torch):
    x = torch.ones(3, requires_grad=True)
    x.detach()[0] = 5
    x.data[1] = 6
    assert x.tolist() == [5, 6, 1]


def test_a_temporary_that_nobody_holds_is_still_used_by_what_read_it(torch):
    x = torch.ones(3)
    for _ in range(10):
        x = (x + 1) * 1
    assert x.tolist() == [11, 11, 11]


def test_deleting_a_base_keeps_its_views(torch):
    x = torch.arange(6.0)
    v = x[2:4]
    x += 1
    del x
    v *= 2
    assert v.tolist() == [6, 8]


def test_expanded_operands_read_each_element_where_it_is(torch):
    x = torch.tensor([[1.0], [2.0]]).expand(2, 3)
    y = x + 0
    assert y.tolist() == [[1, 1, 1], [2, 2, 2]]
    assert x.stride() == (1, 0)


def test_an_elementwise_group_rounds_after_every_op(torch):
    """a * b + c with a contraction to FMA would give another last digit."""
    x = torch.full((33,), 1.0 + 2**-12)
    y = x * x - (1.0 + 2**-11)
    assert y[0].item() == 0.0 and y[32].item() == 0.0


def test_halves_are_rounded_after_every_op(torch):
    x = torch.full((9,), 2048.0, dtype=torch.float16)
    assert ((x + 1) - x).tolist() == [0.0] * 9
    y = torch.full((9,), 256.0, dtype=torch.bfloat16)
    assert ((y + 1) - y).tolist() == [0.0] * 9


def test_small_integers_wrap_after_every_op(torch):
    x = torch.full((5,), 100, dtype=torch.int8)
    assert ((x + x) // 2).tolist() == [-28] * 5
    assert ((torch.full((3,), 200, dtype=torch.uint8) + 100) / 2).tolist() == [22] * 3


def test_results_do_not_depend_on_when_they_are_read(torch):
    def steps(read):
        x = torch.linspace(-2, 2, 101)
        found = []
        for _ in range(20):
            x = (x * 1.3).tanh() + 0.1
            if read:
                found.append(x.sum().item())
        return x.tolist()

    assert steps(read=True) == steps(read=False)


def test_results_do_not_depend_on_the_thread_count(torch):
    if torch.__name__ == "torch":
        pytest.skip("PyTorch does not promise it")

    def sums():
        x = torch.linspace(-1, 1, 300_001)
        w = torch.linspace(-1, 1, 200 * 300).reshape(200, 300)
        return x.sum().item(), (x * x).mean().item(), (w @ w.t()).sum().item(), x.softmax(0).max().item()

    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(sums())
    finally:
        torch.set_num_threads(threads)
    assert found[0] == found[1] == found[2]


def test_manual_seed_between_two_draws_separates_them(torch):
    torch.manual_seed(0)
    a = torch.rand(3)
    torch.manual_seed(0)
    b = torch.rand(3)
    c = torch.rand(3)
    assert a.tolist() == b.tolist() != c.tolist()
    assert [round(v, 4) for v in a.tolist()] == [0.4963, 0.7682, 0.0885]


def test_draws_happen_in_the_order_of_the_calls_not_of_the_reads(torch):
    torch.manual_seed(1)
    a, b = torch.rand(3), torch.rand(3)
    torch.manual_seed(1)
    c, d = torch.rand(3), torch.rand(3)
    assert d.tolist() == b.tolist() and c.tolist() == a.tolist()


def test_a_draw_that_nobody_reads_is_drawn(torch):
    torch.manual_seed(1)
    torch.rand(3)
    a = torch.rand(2).tolist()
    torch.manual_seed(1)
    assert torch.rand(5)[3:].tolist() == a


def test_golden_random_numbers(torch):
    torch.manual_seed(0)
    assert [round(v, 4) for v in torch.randn(3).tolist()] == [1.5410, -0.2934, -2.1788]
    torch.manual_seed(0)
    assert torch.randint(0, 10, (4,)).tolist() == [4, 9, 3, 0]
    torch.manual_seed(0)
    assert torch.randperm(20)[:8].tolist() == [4, 5, 13, 19, 7, 14, 3, 6]
    torch.manual_seed(0)
    assert torch.randint(0, 2**40, (2,)).tolist() == [741280623151, 506137267392]
    torch.manual_seed(0)
    assert torch.empty(20).bernoulli_(0.5).tolist() == [0, 0, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0]


def test_strides_of_results_follow_their_operands(torch):
    x = torch.zeros(3, 4).t()
    assert (x + 1).stride() == (1, 4)
    assert (x + torch.zeros(4, 3)).stride() == (1, 4)
    assert (torch.zeros(4, 3) + x).stride() == (3, 1)
    assert x.reshape(-1).data_ptr() != x.data_ptr()
    assert x.t().reshape(-1).data_ptr() == x.data_ptr()


def test_shapes_that_depend_on_data_are_known_at_once(torch):
    x = torch.arange(10.0) * 2
    assert x[x > 5].shape == (7,)
    assert torch.nonzero(x).shape == (9, 1)
    assert torch.unique(x // 4).shape == (5,)


def test_control_flow_reads_the_value_of_the_moment(torch):
    x = torch.zeros(())
    steps = 0
    while x < 5:
        x = x + 1
        steps += 1
    assert steps == 5 and bool(x == 5)


def test_a_pending_view_divided_by_a_tensor_that_is_checked_for_zeros(torch):
    x = torch.arange(4) + 99
    assert (x.unsqueeze(-1) // torch.tensor([3, 1])).tolist() == [[33, 99], [33, 100], [33, 101], [34, 102]]


def test_what_is_too_large_for_the_machine_is_refused_on_its_line(torch):
    wide = torch.ones(1).expand(2**45)
    assert wide.shape == (2**45,)
    for line in (lambda: wide + 1, lambda: torch.empty(2**45), lambda: wide.clone()):
        with pytest.raises(RuntimeError, match="can't allocate memory: you tried to allocate 140737488355328 bytes"):
            line()


def test_an_augmented_assignment_to_a_view_with_a_new_dimension(torch):
    x = torch.arange(3.0)
    x[None, ...] += 2
    x[0:] += x
    assert x.tolist() == [4, 6, 8]


def test_a_value_computed_into_a_slice_is_read_right_through_its_views(torch):
    x = torch.tensor([[[-1.0, 6.0, -2.0]], [[1.0, 5.0, -5.0]]])
    zeros = x * 0
    joined = torch.cat([zeros, x, zeros], -2)
    both = zeros + x[:, [0, 0]]
    row = zeros[1, 0] + 1
    del zeros
    assert both.tolist() == [[[-1, 6, -2]] * 2, [[1, 5, -5]] * 2]
    assert row.tolist() == [1, 1, 1]
    assert joined[:, 1].tolist() == [[-1, 6, -2], [1, 5, -5]]


def test_a_value_computed_into_a_slice_can_be_written_to_when_the_whole_is_gone(torch):
    x = torch.ones(2, 1, 3)
    half = x * 0.5
    total = torch.cat([half, x], -2).sum(1)
    half[1] = 7
    assert half.tolist() == [[[0.5] * 3], [[7.0] * 3]]
    assert total.tolist() == [[1.5] * 3] * 2


def test_a_copy_of_a_part_may_be_written_back_beside_it(torch):
    """The copy shares the part's value until somebody writes, but not its memory: nothing overlaps."""
    x, kept = torch.arange(6.0), torch.empty(5)
    part = x[1:]
    kept.copy_(part)
    x[:-1].copy_(kept)
    assert x.tolist() == [1, 2, 3, 4, 5, 5]
    x[:-1].add_(kept)
    assert x.tolist() == [2, 4, 6, 8, 10, 5] and part.tolist() == [4, 6, 8, 10, 5]
    y = torch.ones(3, 1, dtype=torch.int64)
    row = y[0]
    y.copy_(torch.cat([row], -1))
    assert y.tolist() == [[1], [1], [1]]


@pytest.fixture(params=range(1, 9))
def short_log(torch, request):
    """A log that is evaluated before one record more, which may be in the middle of an op."""
    most = torch._C._log_limit(request.param)
    yield
    torch._C._log_limit(most)


@pytest.mark.parametrize("taped", [False, True])
def test_an_op_at_which_the_log_is_full_keeps_what_it_has_read(torch, short_log, taped):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=taped)
    a, b = x * 2, x * 3
    product = a[1:] * b[1:]
    if taped:
        product.sum().backward()
        assert x.grad.tolist() == [0.0, 24.0, 36.0]
    assert product.tolist() == [24.0, 54.0]


def test_an_op_at_which_the_log_is_full_keeps_what_it_has_recorded_on_the_tape(torch, short_log):
    for before in range(4):
        x, w, b = [torch.full(sizes, 3.0, requires_grad=True) for sizes in ((1, 2), (2, 2), (2,))]
        count = torch.zeros(2)
        for _ in range(before):
            count = count + 1
        torch.nn.functional.linear(x, w.chunk(2)[0], b.chunk(2)[0]).sum().backward()
        assert x.grad.tolist() == [[3.0, 3.0]]
        assert w.grad.tolist() == [[3.0, 3.0], [0.0, 0.0]]
        assert b.grad.tolist() == [1.0, 0.0]
