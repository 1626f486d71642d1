"""Recurrent layers: RNN, LSTM, GRU and their cells. The steps are C's (bk_rnn_layer, bk_rnn_step)."""

import math
import numbers
import warnings

from brisk import _C
from brisk._C import Tensor, _nn
from brisk.nn import init
from brisk.nn.modules.module import Module
from brisk.nn.parameter import Parameter
from brisk.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

# By mode: the kind in C, and how many gates there are.
_MODES = {"RNN_TANH": (0, 1), "RNN_RELU": (1, 1), "LSTM": (2, 4), "GRU": (3, 3)}


def apply_permutation(tensor, permutation, dim=1):
    """The slices of a tensor in another order."""
    return tensor.index_select(dim, permutation)


def _each(hx, *states):
    """The states of each layer and direction, if they were given: PyTorch takes all apart at once."""
    return states if hx is None else [None if s is None else s.unbind(0) for s in states]


class RNNBase(Module):
    """Layers of one of the modes; h_n (and c_n) hold the states at the end, one for each layer and direction."""

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional",
        "proj_size",
    ]  # fmt: skip

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, proj_size=0, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        self._check_settings(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if mode not in _MODES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = float(dropout), bidirectional, proj_size
        self._all_weights = []
        gates = _MODES[mode][1] * hidden_size
        directions, out = 2 if bidirectional else 1, proj_size or hidden_size
        for layer in range(num_layers):
            for direction in range(directions):
                shapes = {
                    "weight_ih": (gates, input_size if layer == 0 else out * directions),
                    "weight_hh": (gates, out),
                }
                if bias:
                    shapes.update(bias_ih=(gates,), bias_hh=(gates,))
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                names = []
                for name, shape in shapes.items():
                    names.append(f"{name}_l{layer}" + ("_reverse" if direction else ""))
                    setattr(self, names[-1], Parameter(_C.empty(shape, dtype=dtype, device=device)))
                self._all_weights.append(names)
        self.reset_parameters()

    @staticmethod
    def _check_settings(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size):
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=4,
            )
        for name, value, kind in (
            ("bias", bias, bool), ("batch_first", batch_first, bool), ("input_size", input_size, int),
            ("hidden_size", hidden_size, int),
        ):  # fmt: skip
            if not isinstance(value, kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
        for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")

    @property
    def _flat_weights(self):
        return [getattr(self, name) for names in self._all_weights for name in names]

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    @property
    def all_weights(self):
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self):
        """Nothing to do: it is about a GPU's memory."""

    def reset_parameters(self):
        """Uniform numbers between -1 and 1 over the root of hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
            ("bidirectional", False),
        ):  # fmt: skip
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text

    # --- the states ---------------------------------------------------------------------------------------------------

    def _state_shapes(self, batch):
        rows = self.num_layers * (2 if self.bidirectional else 1)
        return (rows, batch, self.proj_size or self.hidden_size), (rows, batch, self.hidden_size)

    def _check_state(self, given, expected, name):
        if tuple(given.shape) != expected:
            raise RuntimeError(f"Expected {name} size {expected}, got {list(given.shape)}")

    def _states(self, hx, batch, like, alone, order):
        """h and c (None but for an LSTM), as rows in the order of the packed input."""
        lstm = self.mode == "LSTM"
        shapes = self._state_shapes(batch)[: 2 if lstm else 1]
        if hx is None:
            return [_C.zeros(shape, dtype=like.dtype) for shape in shapes] + [None] * (not lstm)
        states = [hx[0], hx[1]] if lstm else [hx]
        wanted = 2 if alone else 3
        if any(s.dim() != wanted for s in states):
            kind = "unbatched 2-D" if alone else "batched 3-D"
            what = "hx and cx should also be" if lstm else "hx should also be"
            got = f"({states[0].dim()}-D, {states[1].dim()}-D) tensors" if lstm else f"{hx.dim()}-D tensor"
            raise RuntimeError(f"For {kind} input, {what} {wanted}-D but got {got}")
        if alone:
            states = [s.unsqueeze(1) for s in states]
        for s, shape, name in zip(states, shapes, ("hidden[0]" if lstm else "hidden", "hidden[1]")):
            self._check_state(s, shape, name)
        if lstm and len(hx) != 2:
            raise RuntimeError("lstm expects two hidden states")
        if order is not None:
            states = [s.index_select(1, order) for s in states]
        return states + [None] * (not lstm)

    def _check_input(self, input, dims):
        weight = getattr(self, self._all_weights[0][0])
        if input.dtype != weight.dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )

    # --- the layers ---------------------------------------------------------------------------------------------------

    def _weights(self, index):
        """(w_ih, w_hh, b_ih, b_hh, w_hr) of a layer and direction."""
        values = [getattr(self, name) for name in self._all_weights[index]]
        projection = values.pop() if self.proj_size else None
        return (*values, *([None] * (4 - len(values))), projection)

    def _run(self, data, batch_sizes, h, c, gathered=False):
        """All layers over packed rows: the output rows, and lists of last states. batch_sizes: of each step, or, where
        all are the same, the number of steps. h and c: of each layer and direction. gathered: the rows were none
        before."""
        kind = _MODES[self.mode][0]
        directions = 2 if self.bidirectional else 1
        last_h, last_c = [], []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                k = layer * directions + direction
                cell = None if c is None else c[k]
                out, h_n, c_n = _nn._rnn_layer(
                    kind, data, batch_sizes, h[k], cell, direction == 1, gathered, *self._weights(k)
                )
                outputs.append(out)
                last_h.append(h_n)
                last_c.append(c_n)
            data, gathered = outputs[0] if directions == 1 else _C.cat(outputs, 1), False
            if self.dropout and self.training and layer < self.num_layers - 1:
                data = _C.dropout(data, self.dropout, True)
        return data, [last_h] if c is None else [last_h, last_c]

    def _finish(self, states, back=None, alone=False):
        """The last states as the caller gets them."""
        if back is not None:
            states = [s.index_select(1, back) for s in states]
        if alone:
            states = [s.squeeze(1) for s in states]
        return tuple(states) if self.mode == "LSTM" else states[0]

    def _is_whole(self, data):
        """Whether a layer over a plain batch is one function to PyTorch."""
        return self.mode == "LSTM" and not self.proj_size and data.dtype is _C.float32

    def _forward_packed(self, input, hx):
        data, sizes, order, back = input
        self._check_input(data, 2)
        counts = sizes.tolist()
        h, c = self._states(hx, counts[0], data, False, order)
        if self._is_whole(data) and counts[0] == counts[-1]:  # PyTorch sees a plain batch
            steps = data.view(len(counts), counts[0], self.input_size)
            data, last = self._run(_nn._rows(steps), len(counts), h, c)
            data = data.view(data.shape)
        else:
            data, last = self._run(data, counts, *_each(hx, h, c))
        return PackedSequence(data, sizes, order, back), self._finish([_C.stack(s) for s in last], back)

    def forward(self, input, hx=None):
        """(output, last states)"""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            name = "RNN" if self.mode.startswith("RNN") else self.mode
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        alone, turned = input.dim() == 2, self.batch_first
        if alone:
            input = input.unsqueeze(0 if turned else 1)
        if turned:
            input = input.transpose(0, 1)
        self._check_input(input, 3)
        steps, batch, _ = input.shape
        if steps == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        h, c = self._states(hx, batch, input, alone, None)
        whole = self._is_whole(input)
        if not whole:
            h, c = _each(hx, h, c)
        data, last = self._run(_nn._rows(input), steps, h, c, not input.is_contiguous())
        output, last = _nn._steps(data, steps, batch, whole), [_C.stack(s) for s in last]
        if turned:
            output = output.transpose(0, 1) if self.mode == "LSTM" else _nn._turned(output)
        if alone:
            output = output.squeeze(0 if turned else 1)
        return output, self._finish(last, None, alone)


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + nonlinearity.upper(), input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Gates i, f, g, o: c' = f c + i g, h' = o tanh(c')."""

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gates r, z, n: h' = (1 - z) n + z h."""

    def __init__(self, *args, **kwargs):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """One step of a recurrent layer."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(_C.empty((rows, input_size), dtype=dtype, device=device))
        self.weight_hh = Parameter(_C.empty((rows, hidden_size), dtype=dtype, device=device))
        for name in ("bias_ih", "bias_hh"):
            if bias:
                setattr(self, name, Parameter(_C.empty(rows, dtype=dtype, device=device)))
            else:
                self.register_parameter(name, None)
        self.reset_parameters()

    def reset_parameters(self):
        """Uniform numbers between -1 and 1 over the root of hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.__dict__.get("nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _next(self, kind, input, hx):
        """The next states, at once where there is nothing to make up or to complain about."""
        out = _nn._rnn_cell(kind, input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if out is not None:
            return out
        if isinstance(hx, Tensor) and kind == 2:
            raise TypeError("lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not Tensor")
        states = () if hx is None else hx if kind == 2 else (hx,)
        if kind == 2 and len(states) not in (0, 2):
            raise RuntimeError("lstm_cell expects two hidden states")
        return self._step(kind, input, states)

    def _step(self, kind, input, states):
        """The next states of a batch or of one row; without states, from zeros."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for k, state in enumerate(states):
            if state.dim() not in (1, 2):
                which = f"hx[{k}]" if kind == 2 else "hidden"
                raise ValueError(f"{name}: Expected {which} to be 1D or 2D, got {state.dim()}D instead")
        alone = input.dim() == 1
        x = input.unsqueeze(0) if alone else input
        if x.shape[1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {x.shape[1]} expected {self.input_size}")
        shape = (x.shape[0], self.hidden_size)
        rows = [] if states else [_C.zeros(shape, dtype=x.dtype) for _ in range(2 if kind == 2 else 1)]
        for k, state in enumerate(states):
            rows.append(state.unsqueeze(0) if alone else state)
            (batch, size), row = shape, rows[k]
            if len(row) != batch:
                raise RuntimeError(f"Input batch size {batch} doesn't match hidden{k} batch size {len(row)}")
            if row.size(1) != size:
                raise RuntimeError(f"hidden{k} has inconsistent hidden_size: got {row.size(1)}, expected {size}")
        h, c = rows if len(rows) == 2 else (rows[0], None)
        out = _nn._rnn_step(kind, x, h, c, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if c is None:
            return out.squeeze(0) if alone else out
        return (out[0].squeeze(0), out[1].squeeze(0)) if alone else out


class RNNCell(RNNCellBase):
    """A step of RNN."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._next(0 if self.nonlinearity == "tanh" else 1, input, hx)


class LSTMCell(RNNCellBase):
    """A step of LSTM: (h, c) from (h, c)."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        return self._next(2, input, hx)


class GRUCell(RNNCellBase):
    """A step of GRU."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        return self._next(3, input, hx)
