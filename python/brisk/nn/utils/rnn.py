"""Sequences of different lengths: packed step by step, or padded to one length."""

from collections import namedtuple

from brisk import _C
from brisk._C import Tensor
from brisk._composed import looks_like
from brisk._missing import finder

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip

_Fields = namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


def invert_permutation(permutation):
    """The permutation that undoes one."""
    if permutation is None:
        return None
    out = _C.empty_like(permutation)
    out.scatter_(0, permutation, _C.arange(permutation.numel()))
    return out


class PackedSequence(_Fields):
    """The rows of all sequences, step by step: batch_sizes[t] of them at step t, the longest sequences first."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if batch_sizes is None and isinstance(data, (tuple, list)):
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """Its data as another dtype."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else type(self)(data, *self[1:])

    def _cast(self, dtype):
        return self.to(dtype)

    def float(self):
        return self._cast(_C.float32)

    def double(self):
        return self._cast(_C.float64)

    def half(self):
        return self._cast(_C.float16)

    def long(self):
        return self._cast(_C.int64)

    def int(self):
        return self._cast(_C.int32)

    def cpu(self):
        return self

    def cuda(self, *args, **kwargs):
        return type(self)(self.data.cuda(*args, **kwargs), *self[1:])

    def pin_memory(self):
        return self

    @property
    def is_cuda(self):
        return False

    def is_pinned(self):
        return False


def _lengths(lengths):
    return [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs sequences that were padded to one length."""
    counts = _lengths(lengths)
    order = None
    if not enforce_sorted:
        counts_sorted, order = _C.sort(_C.tensor(counts), descending=True)
        counts = counts_sorted.tolist()
        input = input.index_select(0 if batch_first else 1, order)
    steps, batch = (input.shape[1], input.shape[0]) if batch_first else input.shape[:2]
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if len(counts) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} (batch_size={batch})"
        )
    if counts[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(a < b for a, b in zip(counts, counts[1:])):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    if counts[0] > steps:
        raise RuntimeError(f"Expected a sequence of {counts[0]} steps, but the input has {steps}")
    sizes = [sum(n > t for n in counts) for t in range(counts[0])]
    return PackedSequence(_packed_rows(input, sizes, batch_first), _C.tensor(sizes, dtype=_C.int64), order, None)


@looks_like("_packed_rows")
def _packed_rows(input, sizes, batch_first):
    input, rows, start = input.transpose(0, 1) if batch_first else input, [], 0
    while start < len(sizes):  # a run of steps with as many rows each is one piece
        end = start
        while end < len(sizes) and sizes[end] == sizes[start]:
            end += 1
        rows.append(input[start:end, : sizes[start]].flatten(0, 1))
        start = end
    return _C.cat(rows, 0)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """Packed sequences as one tensor, the short ones padded; and their lengths."""
    sizes = sequence.batch_sizes.tolist()
    steps = len(sizes)
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    data = sequence.data
    out = _C.full((steps, sizes[0], *data.shape[1:]), padding_value, dtype=data.dtype)
    row = start = 0
    while start < len(sizes):
        end = start
        while end < len(sizes) and sizes[end] == sizes[start]:
            end += 1
        count = (end - start) * sizes[start]
        out[start:end, : sizes[start]] = data[row : row + count].unflatten(0, (end - start, sizes[start]))
        row += count
        start = end
    _C._written_often(out, out._version + 1)  # PyTorch counts the padding, too
    lengths = _C.tensor([sum(n > i for n in sizes) for i in range(sizes[0])], dtype=_C.int64)
    if batch_first:
        out = out.transpose(0, 1)
    if sequence.unsorted_indices is not None:
        back = sequence.unsorted_indices
        return out.index_select(0 if batch_first else 1, back), lengths[back]
    return out, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Tensors of different lengths as one, the short ones padded."""
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f'padding_side should be either "right" or "left", but got {padding_side}')
    first = sequences[0]
    longest = max(s.shape[0] for s in sequences)
    sizes = (len(sequences), longest) if batch_first else (longest, len(sequences))
    out = _C.full((*sizes, *first.shape[1:]), padding_value, dtype=first.dtype)
    for i, s in enumerate(sequences):
        part = slice(s.shape[0]) if padding_side == "right" else slice(longest - s.shape[0], None)
        out[(i, part) if batch_first else (part, i)] = s
    return _C._written_often(out, 1 + len(sequences))  # PyTorch counts the padding, too


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The tensors that pad_sequence was given."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [row[:n] for row, n in zip(padded_sequences, _lengths(lengths))]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs tensors of different lengths."""
    lengths = [s.shape[0] for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The tensors that pack_sequence was given."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


__getattr__ = finder(__name__)
