"""Memory seen as another dtype, and as storages: values, layouts, words of errors, and who sees which write."""

import copy
import gc

import brisk
import pytest

from tests.torch.compare import DTYPES, REF, Report, dtype_name

MAKERS = {
    "a matrix": lambda m, d: (m.arange(48) % 2).to(d).reshape(6, 8),
    "odd rows": lambda m, d: (m.arange(21) % 2).to(d).reshape(3, 7),
    "a transposed matrix": lambda m, d: (m.arange(48) % 2).to(d).reshape(6, 8).t(),
    "every second column": lambda m, d: (m.arange(48) % 2).to(d).reshape(6, 8)[:, ::2],
    "every second row": lambda m, d: (m.arange(48) % 2).to(d).reshape(6, 8)[::2],
    "an odd offset": lambda m, d: (m.arange(48) % 2).to(d).reshape(6, 8)[1:, 1:],
    "an even offset": lambda m, d: (m.arange(128) % 2).to(d).reshape(8, 16)[1:, 8:],
    "odd strides": lambda m, d: (m.arange(63) % 2).to(d).reshape(7, 9)[:, :8],
    "nothing": lambda m, d: m.zeros(0, 8).to(d),
    "a scalar": lambda m, d: m.tensor(1).to(d),
    "one element": lambda m, d: m.tensor([1]).to(d),
}


def described(x):
    return dtype_name(x.dtype), tuple(x.shape), tuple(x.stride()), x.storage_offset(), x.tolist()


def answer(fn, module):
    try:
        return fn(module)
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("old", DTYPES)
def test_view_gives_every_dtype_over_the_same_bytes_or_says_why_not(old):
    for new in DTYPES:
        for what, make in MAKERS.items():
            ours, theirs = (
                answer(lambda m: described(make(m, getattr(m, old)).view(getattr(m, new))), module)
                for module in (brisk, REF)
            )
            assert repr(ours) == repr(theirs), (what, new)


def writes(m):
    seen = []
    x = m.arange(6.0)
    bits = x.view(m.int32)
    bits[0] = 0x40000000
    seen.append(x.tolist())
    x += 1
    seen.append(bits.tolist())
    x[2:4] = x[:2] * 3
    bytes_ = bits.view(m.uint8)
    bytes_[16:20] = 0
    seen.append((x * 2).tolist())
    y = x + 1  # recorded before the write, and not changed by it
    bits.zero_()
    seen.append((y.tolist(), x.tolist()))
    bits.add_(x.view(m.int32) + 7)
    seen.append(x.view(m.int32).tolist())
    z = x.reshape(2, 3).t()
    z.view(m.int32).fill_(0x3F800000)
    seen.append((z.tolist(), x.tolist()))
    return seen


def test_writes_through_either_dtype_are_seen_through_the_other():
    assert writes(brisk) == writes(REF)


def test_memory_outlives_the_tensor_it_was_made_for():
    x = brisk.ones(5)
    bits = x.view(brisk.int32)
    del x
    gc.collect()
    bits += 1
    assert bits.view(brisk.float32).tolist() == REF.ones(5).view(REF.int32).add_(1).view(REF.float32).tolist()
    kept = brisk.ones(5)
    kept.view(brisk.int32)
    kept += 1
    assert kept.tolist() == [2.0] * 5


def test_a_view_as_another_dtype_is_not_on_the_tape():
    for m in (brisk, REF):
        x = m.ones(4, requires_grad=True)
        assert not x.view(m.int32).requires_grad and not x.view(m.float32).requires_grad


def matrix(m):
    return m.arange(12.0).reshape(3, 4)


STORAGE = {
    "len": lambda m: (len(matrix(m).storage()), len(matrix(m).untyped_storage()), matrix(m)[1:].storage().size()),
    "nbytes": lambda m: (matrix(m).nbytes, matrix(m).t()[1:].nbytes, matrix(m).t()[1:].untyped_storage().nbytes()),
    "items": lambda m: (matrix(m).storage()[5], matrix(m).storage()[-1], list(matrix(m)[1:].storage())),
    "slice": lambda m: matrix(m).storage()[2:5],
    "out of range": lambda m: matrix(m).storage()[12],
    "addresses": lambda m: [
        (t[1].data_ptr() - t.data_ptr(), t[1].storage().data_ptr() == t.data_ptr()) for t in [matrix(m)]
    ],
    "dtype": lambda m: dtype_name(matrix(m).long().storage().dtype),
    "device": lambda m: str(matrix(m).untyped_storage().device),
    "conversion": lambda m: matrix(m).long().storage().float().tolist(),
    "set item": lambda m: [(t.storage().__setitem__(3, 9.0), t.tolist()) for t in [matrix(m)]],
    "set byte": lambda m: [(t.untyped_storage().__setitem__(3, 9), t.tolist()) for t in [matrix(m)]],
    "fill": lambda m: [(t.storage().fill_(2).size(), t.tolist()) for t in [matrix(m)]],
    "fill bytes": lambda m: [(t.untyped_storage().fill_(0).size(), t.tolist()) for t in [matrix(m)]],
    "copy": lambda m: [(t.storage().copy_(matrix(m).storage()).size(), t.tolist()) for t in [m.zeros(12)]],
    "copy bytes": lambda m: [
        (t.untyped_storage().copy_(matrix(m).untyped_storage()).size(), t.tolist()) for t in [m.zeros(12)]
    ],
    "clone": lambda m: [(t.storage().clone().fill_(1).tolist(), t.tolist()) for t in [matrix(m)]],
    "repr": lambda m: (repr(matrix(m)[:2].storage()), repr(m.FloatStorage([1, 2]))),
    "made": lambda m: (m.FloatStorage([1, 2, 3]).tolist(), m.LongStorage([1, 2]).tolist(), len(m.IntStorage(4))),
    "tensor of it": lambda m: m.tensor(m.FloatStorage([1, 2, 3])).tolist(),
    "set_ storage": lambda m: described(m.empty(0).set_(matrix(m).storage())),
    "set_ part": lambda m: described(m.empty(0).set_(matrix(m).storage(), 2, (2, 3), (4, 1))),
    "set_ sizes": lambda m: described(m.empty(0).set_(matrix(m).storage(), 0, (4,))),
    "set_ untyped": lambda m: described(m.empty(0).set_(matrix(m).untyped_storage(), 2, (2, 3), (4, 1))),
    "set_ untyped as int32": lambda m: described(
        m.empty(0, dtype=m.int32).set_(matrix(m).untyped_storage(), 0, (12,), (1,))
    ),
    "set_ by name": lambda m: described(
        m.empty(0).set_(source=matrix(m).untyped_storage(), storage_offset=1, size=(2,), stride=(3,))
    ),
    "set_ of the wrong dtype": lambda m: m.empty(0, dtype=m.int64).set_(matrix(m).storage()),
    "set_ before the start": lambda m: m.empty(0).set_(matrix(m).storage(), -1, (2,)),
    "set_ sees writes": lambda m: [
        (t.mul_(2), described(s))[1] for t in [matrix(m)] for s in [m.empty(0).set_(t.storage(), 0, (2, 2), (1, 2))]
    ],
    "set_ nothing": lambda m: described(matrix(m).set_()),
    "is_set_to": lambda m: [(t.is_set_to(t), t.is_set_to(t.view(-1)), t.is_set_to(t.view(3, 4))) for t in [matrix(m)]],
    "deepcopy": lambda m: copy.deepcopy(matrix(m)[1:]).untyped_storage().nbytes(),
    "shared deepcopy": lambda m: [
        a.data_ptr() + 16 == b.data_ptr() for t in [matrix(m)] for a, b in [copy.deepcopy([t, t[1]])]
    ],
}


@pytest.mark.filterwarnings("ignore")
def test_storages_are_used_as_in_pytorch():
    report = Report()
    for what, fn in STORAGE.items():
        report.check(fn, what)
    report.finish()
