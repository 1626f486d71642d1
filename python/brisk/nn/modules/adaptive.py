"""Softmax over many classes in clusters: the frequent ones first, the rare ones behind one output each."""

from collections import namedtuple

from brisk import _C
from brisk.nn import functional as F
from brisk.nn.modules.container import ModuleList, Sequential
from brisk.nn.modules.linear import Linear
from brisk.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_Result = namedtuple("_ASMoutput", ["output", "loss"])


def _check_cutoffs(cutoffs, n_classes):
    if not cutoffs:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    fine = all(isinstance(c, int) for c in cutoffs) and cutoffs == sorted(set(cutoffs))
    if not fine or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
        raise ValueError(
            "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value "
            "is between 1 and n_classes-1"
        )


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes below cutoffs[0] are the head's own; each further cluster is one of its outputs, with a smaller net."""

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        super().__init__()
        cutoffs = list(cutoffs)
        _check_cutoffs(cutoffs, n_classes)
        made = {"device": device, "dtype": dtype}
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*cutoffs, n_classes]
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            narrow = int(in_features // div_value ** (i + 1))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            first = Linear(in_features, narrow, bias=False, **made)
            self.tail.append(Sequential(first, Linear(narrow, classes, bias=False, **made)))

    def reset_parameters(self):
        """Draws all weights anew."""
        self.head.reset_parameters()
        for into, out in self.tail:
            into.reset_parameters()
            out.reset_parameters()

    def forward(self, input_, target_):
        """(the log probabilities of the targets, the loss)"""
        alone = target_.dim() == 0
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if alone else (input_, target_)
        if input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if target.numel() and (int(target.min()) < 0 or int(target.max()) >= self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{int(target.min())}, {int(target.max())}] were found. "
            )
        head = F.log_softmax(self.head(input), 1)
        at, tails = target, _C.zeros(len(target), dtype=head.dtype)
        for i in range(self.n_clusters):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            rows = ((target >= low) & (target < high)).nonzero().squeeze(-1)
            if rows.numel() == 0:
                continue
            inside = F.log_softmax(self.tail[i](input.index_select(0, rows)), 1)
            relative = (target.index_select(0, rows) - low).unsqueeze(1)
            tails = tails.index_copy(0, rows, inside.gather(1, relative).squeeze(1))
            at = at.index_fill(0, rows, self.shortlist_size + i)
        output = tails + head.gather(1, at.unsqueeze(1)).squeeze()
        loss = (-output).mean()
        return _Result(output.squeeze(0) if alone else output, loss)

    def log_prob(self, input):
        """The log probabilities of all classes."""
        head = F.log_softmax(self.head(input), 1)
        out = _C.empty((head.shape[0], self.n_classes), dtype=head.dtype)
        out[:, : self.shortlist_size] = head[:, : self.shortlist_size]
        for i in range(self.n_clusters):
            inside = F.log_softmax(self.tail[i](input), 1)
            out[:, self.cutoffs[i] : self.cutoffs[i + 1]] = inside + head[:, self.shortlist_size + i].unsqueeze(1)
        return out

    def predict(self, input):
        """The most probable classes."""
        return self.log_prob(input).argmax(1)
