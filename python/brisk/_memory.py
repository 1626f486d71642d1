"""What gives a tensor other memory, or more or less of its own: resize_, resize_as_.

A tensor that outgrows its memory moves to a new one, which begins with what the old one held; PyTorch would move the
other tensors of that memory too.
"""

from brisk._C import Tensor


def _contiguous_strides(sizes):
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def _resize_(self, *sizes, size=None, memory_format=None):
    """Changes the sizes in place; elements beyond the old memory are not initialised."""
    sizes = sizes if size is None else (size,)
    sizes = list(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else list(sizes)
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if any(size < 0 for size in sizes):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {sizes}")
    if sizes == list(self.shape):
        return self
    strides, offset = _contiguous_strides(sizes), self.storage_offset()
    wanted = 1
    for size in sizes:
        wanted *= size
    held = self.untyped_storage().nbytes() // self.element_size()
    memory = self.detach()
    if offset + wanted > held:
        grown = memory.new_empty(offset + wanted)
        grown[:held] = memory.as_strided((held,), (1,), 0)
        memory = grown
    self.data = memory.as_strided(sizes, strides, offset)
    return self


def _resize_as_(self, the_template, *, memory_format=None):
    """resize_ to the sizes of another tensor."""
    return _resize_(self, the_template.shape)


Tensor.resize_ = _resize_
Tensor.resize_as_ = _resize_as_
Tensor.get_device = lambda self: -1
Tensor.is_nonzero = lambda self: bool(self)
