"""Memory that forked processes have in common.

A shared tensor lies in an anonymous mapping, which a child made by fork writes to and reads from as its parent does.
Memory from outside is written at once and read anew, so neither side sees what the other wrote too late.
"""

import weakref

from . import _C

_mappings = weakref.WeakValueDictionary()  # where a mapping starts -> the mapping, while a tensor is in it


def share_memory_(self):
    """Moves the tensor into memory that processes forked from now on have in common with this one; views of it that
    were made before stay where they are."""
    if is_shared(self) or self.numel() == 0:
        return self
    if self.requires_grad and not self.is_leaf:
        raise RuntimeError("share_memory_: only leaves can be moved into shared memory; detach() the tensor first")
    import mmap

    import numpy

    values = self.detach().contiguous()
    mapping = mmap.mmap(-1, values.nbytes)
    line = numpy.frombuffer(mapping, dtype=numpy.uint8)
    shared = _C.from_numpy(line).view(values.dtype).view(values.shape)
    shared.copy_(values)
    _mappings[line.ctypes.data] = mapping
    self.data = shared
    return self


def is_shared(self):
    """Whether the tensor's memory is in common with forked processes."""
    return self.untyped_storage().data_ptr() in _mappings
