"""Whether ops are put on the tape: no_grad, enable_grad, set_grad_enabled, inference_mode."""

import contextlib
import functools
import inspect
import warnings

from brisk import _C


def _around_function(mode, function):
    """What `with` around the function does, for a third of its price."""
    set_mode = _C._set_grad_enabled

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        before = set_mode(mode)
        try:
            return function(*args, **kwargs)
        finally:
            set_mode(before)

    return wrapped


class _GradMode(_C._GradMode):
    """Sets the mode inside `with`, or inside the functions it decorates."""

    __slots__ = ()  # what has a dictionary costs twice as much to make
    _mode = False

    def clone(self):
        return type(self)()

    def __call__(self, function):
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
            function.__init__ = self(function.__init__)
            return function
        if inspect.isgeneratorfunction(function):
            return self._around_generator(function)

        if type(self) in (no_grad, enable_grad, set_grad_enabled):
            return _around_function(self.mode, function)

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return wrapped

    def _around_generator(self, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            generator = function(*args, **kwargs)
            go_on, given = generator.send, None
            while True:
                with self.clone():
                    try:
                        value = go_on(given)
                    except StopIteration as stop:
                        return stop.value
                try:
                    go_on, given = generator.send, (yield value)
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as error:
                    go_on, given = generator.throw, error

        return wrapped


class no_grad(_GradMode):
    """Ops are not put on the tape. A context manager and a decorator, with or without parentheses."""

    __slots__ = ()


class enable_grad(_GradMode):
    """Ops on tensors that require gradients are put on the tape."""

    __slots__ = ()
    _mode = True


class set_grad_enabled(_GradMode):
    """Sets the mode at once; as a context manager it puts the old one back."""

    __slots__ = ("at_once",)

    def __new__(cls, mode):
        return super().__new__(cls)

    def __init__(self, mode):
        self.mode = bool(mode)
        super().__enter__()
        self.at_once = True

    def __enter__(self):
        if self.at_once:
            self.at_once = False
        else:
            super().__enter__()

    def __call__(self, function):
        if self.at_once:
            self.at_once = False
            self.__exit__()
        return super().__call__(function)

    def clone(self):
        return set_grad_enabled(self.mode)


class inference_mode(_GradMode):
    """As no_grad; and tensors made inside stay out of gradients and are not to be written to outside."""

    __slots__ = ("before",)

    def __new__(cls, mode=True):
        return super().__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode=True):
        self.mode = not mode
        self.before = []  # a stack: one object may be entered again while it is open

    def __enter__(self):
        self.before.append((_C._set_grad_enabled(self.mode), _C._set_inference_mode(not self.mode)))

    def __exit__(self, *exception):
        grad, inference = self.before.pop()
        _C._set_grad_enabled(grad)
        _C._set_inference_mode(inference)
        return False

    def clone(self):
        return inference_mode(not self.mode)


class set_multithreading_enabled(contextlib.nullcontext):
    """Accepted: a backward pass runs in the thread that called it, and its evaluation in all of brisk's."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def clone(self):
        return set_multithreading_enabled(self.mode)
